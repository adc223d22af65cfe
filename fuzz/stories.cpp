// Replay strings of the checker, and the names of programs, worlds and strategies.

#include <array>

#include "apps/check/registry.hpp"
#include "fuzz/target.hpp"
#include "runtime/check/replay.hpp"
#include "runtime/check/strategy.hpp"

namespace shmoe::fuzz {
namespace {

const std::array kPrograms{runtime::check::Program{.name = "hand_over", .what = "the one that the corpus has"}};

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
  const auto& made = recording->deviations;
  const auto back =
      std::ranges::adjacent_find(made, std::ranges::greater_equal{}, &runtime::check::Deviation::decision);
  holds(back == made.end(), "each choice is behind the one before", text);
  const auto program = apps::find_program(kPrograms, recording->program);
  if (!program) is_told(program.error(), "there is no program");
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
