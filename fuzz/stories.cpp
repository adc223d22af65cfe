// Replay strings of the checker, worlds and strategies. A string of the program here is replayed as well, in a small world.

#include "apps/check/recordings.hpp"
#include "fuzz/target.hpp"
#include "runtime/check/explore.hpp"
#include "runtime/check/replay.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::fuzz {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::check::Program;
using runtime::check::Recording;
using runtime::check::Setting;

constexpr Offset kWord{0};

/// A word to the right neighbour, a flag behind it and, as a bug, no wait before the word is written again.
void hand_over(CoreContext& context, std::uint32_t rounds) {
  runtime::ZeroBufferSync sync(context);
  const Rank right{(context.rank().value() + 1) % context.ranks()};
  const Rank left{(context.rank().value() + context.ranks() - 1) % context.ranks()};
  const auto event = static_cast<std::uint32_t>(context.core().value());
  const Offset place = kWord + Bytes{8 * context.core().index()};
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    const std::uint64_t value = round;
    context.put(right, place, std::span<const std::uint64_t>{&value, 1});
    sync.set_flag(right, event, round);
    const shmem::Witness arrived = consume_token(sync.wait_flag(left, event, round));
    std::uint64_t word = 0;
    context.get(context.rank(), place, std::span{&word, 1}, arrived);
  }
  sync.barrier_all();
}

const Program kProgram{.name = "hand_over", .what = "a word behind a flag", .make = [](const Setting& setting) {
                         return [rounds = static_cast<std::uint32_t>(setting.rounds)](Communicator& comm) {
                           return comm.launch("hand over",
                                              [rounds](CoreContext& context) { hand_over(context, rounds); });
                         };
                       }};

bool is_small(const Setting& setting) { return setting.ranks <= 3 && setting.cores <= 2 && setting.rounds <= 3; }

void check_replay(std::string_view text) {
  const std::span programs(&kProgram, 1);
  const auto run = apps::replay_recording(programs, text, apps::Detail::story);
  if (!run) return is_told(run.error(), "");
  const auto again = apps::replay_recording(programs, text, apps::Detail::story);
  holds(again && again->text == run->text && again->fails == run->fails, "a replay is the same again", text);
  const auto json = apps::replay_recording(programs, text, apps::Detail::json);
  holds(json && json->fails == run->fails, "JSON says the same", text);
}

void check_setting(std::string_view text) {
  const auto setting = runtime::check::parse_setting(text);
  if (!setting) return is_told(setting.error(), "is no world");
  const auto again = runtime::check::parse_setting(to_text(*setting));
  holds(again && *again == *setting, "a world is parsed again to the same", text);
}

void check_recording(std::string_view text) {
  const auto recording = runtime::check::parse_recording(text);
  if (!recording) return is_told(recording.error(), "is no replay string");
  const auto again = runtime::check::parse_recording(to_text(*recording));
  holds(again && again->program == recording->program && again->world == recording->world &&
            again->deviations == recording->deviations,
        "a recording is parsed again to the same", text);
  holds(std::ranges::is_sorted(recording->deviations, std::less_equal{}, &runtime::check::Deviation::decision),
        "each choice is behind the one before", text);
  const auto setting = runtime::check::parse_setting(recording->world);
  if (!setting || is_small(*setting)) check_replay(text);
}

void check_strategy(std::string_view text) {
  const auto strategy = runtime::check::make_strategy(text, 1);
  if (!strategy) is_told(strategy.error(), "strategy");
}

}  // namespace
}  // namespace shmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = shmoe::fuzz::text_of(data, size);
  shmoe::fuzz::check_setting(text);
  shmoe::fuzz::check_recording(text);
  shmoe::fuzz::check_strategy(text);
  return 0;
}
