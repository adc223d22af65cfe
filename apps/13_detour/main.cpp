// Two ranks exchange and reduce; two others lend their memory, so that a slow link between the two carries a part alone.
// usage: mpirun --oversubscribe -np 4 13_detour [--break]
//   --break   the lenders leave the all-to-all out: they have nothing to send
// SHMOE_LINKS=apps/13_detour/links makes the links as slow as that file says, and the program says how long each way takes.

#include <fmt/ranges.h>

#include "apps/lesson.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/choose.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/window.hpp"

namespace {

using namespace shmoe;
using namespace shmoe::lesson;
using runtime::Communicator;
using runtime::CommunicatorId;
using runtime::World;

using Numbers = std::vector<std::int32_t>;

constexpr std::int32_t kRanks = 4;
constexpr Rank kPair[] = {Rank{0}, Rank{1}};  // in the order of their chunks
constexpr std::int32_t kElements = 10;        // of x: a chunk of 5 for each of the two
constexpr std::int32_t kChunk = kElements / 2;

bool communicates(Rank rank) { return rank.value() < 2; }

/// Element i of rank r is 100 r + i.
Numbers x_of(Rank rank) {
  Numbers x(kElements);
  for (std::int32_t i = 0; i < kElements; ++i) x[static_cast<std::size_t>(i)] = 100 * rank.value() + i;
  return x;
}

// [ways]
/// "elements 2 to 3 in the memory of rank 2, 25 ms"; the time where there are links.
std::string way_of(const ops::DetourGroup& group, Rank source, Rank receiver, std::int32_t shard,
                   const runtime::LinkSpeeds* links) {
  const Slice elements = ops::Shards{.elements = kChunk, .count = group.detours() + 1}.at(shard);
  const Rank memory = group.memory_of(shard, receiver);
  std::string text = fmt::format("  elements {} to {} {} rank {}", elements.first, elements.last - 1,
                                 memory == receiver ? "straight to" : "in the memory of", memory);
  if (links == nullptr) return text + '\n';
  const Bytes size{static_cast<std::uint64_t>(elements.size() * bytes_of_element(ops::Element::int32))};
  return text + fmt::format(", {:.4g} ms\n", 1e3 * links->seconds(source, memory, size));
}
// [/ways]

std::string ways_from(Rank source, const runtime::LinkSpeeds* links) {
  const ops::DetourGroup group(kPair, kRanks);
  const Rank receiver = source == kPair[0] ? kPair[1] : kPair[0];
  std::string text = fmt::format("rank {}: the chunk for rank {}\n", source, receiver);
  for (std::int32_t shard = 0; shard <= group.detours(); ++shard) {
    text += way_of(group, source, receiver, shard, links);
  }
  return text;
}

// [detour]
/// Every rank of `all` calls both; two of them have tensors.
Result<std::string> with_lenders(Communicator& all, bool lenders_skip) {
  const Result<shmem::Region> window = ops::allocate_window(all);
  if (!window) return window.error();
  const ops::DetourShape shape{.members = kPair, .type = ops::Element::int32, .elements = kElements, .window = *window};
  const bool member = communicates(all.rank());
  const Numbers x = member ? x_of(all.rank()) : Numbers{};
  Numbers exchanged(member ? kElements : 0);
  Numbers reduced(member ? kChunk : 0);
  if (member || !lenders_skip) {
    const Result<void> done = ops::all_to_all_detour(
        all, {.shape = shape, .x = std::as_bytes(std::span{x}), .y = std::as_writable_bytes(std::span{exchanged})});
    if (!done) return done.error();
  }
  const Result<void> done = ops::reduce_scatter_detour(
      all, {.shape = shape, .x = std::as_bytes(std::span{x}), .y = std::as_writable_bytes(std::span{reduced})});
  if (!done) return done.error();
  if (!member) return fmt::format("rank {}: lends its memory\n", all.rank());
  return fmt::format("  all-to-all      {}\n  reduce-scatter  {}\n", exchanged, reduced);
}
// [/detour]

// [direct]
/// A communicator of the two alone: the others neither call nor lend.
Result<std::string> without_lenders(World& world) {
  const Result<Communicator*> two = world.communicator(CommunicatorId{1}, kPair);
  if (!two) return two.error();
  const Result<shmem::Region> window = ops::allocate_window(**two);
  if (!window) return window.error();
  const Numbers x = x_of(world.rank());
  Numbers y(kElements);
  const Result<void> done =
      ops::all_to_all_detour(**two, {.shape = {.type = ops::Element::int32, .elements = kElements, .window = *window},
                                     .x = std::as_bytes(std::span{x}),
                                     .y = std::as_writable_bytes(std::span{y})});
  if (!done) return done.error();
  return fmt::format("  by themselves   {}\n", y);
}
// [/direct]

/// What the shards predict, from the only rank that says it.
std::string predicted(const runtime::LinkSpeeds& links) {
  const ops::DetourGroup group(kPair, kRanks);
  const double with = ops::predicted_seconds(links, group, kElements, ops::Element::int32);
  const double gain = ops::predicted_gain(links, group, kElements, ops::Element::int32);
  return fmt::format("predicted for each call: {:.0f} ms with the detour, {:.0f} ms without\n", 1e3 * with,
                     1e3 * with * gain);
}

Result<void> detour(World& world, const Options& options, const std::optional<runtime::LinkSpeeds>& links) {
  const Rank me = world.rank();
  std::string text = communicates(me) ? ways_from(me, links ? &*links : nullptr) : "";
  const Result<std::string> lent = with_lenders(world.all(), options.has("--break"));
  if (!lent) return lent.error();
  text += *lent;
  if (communicates(me)) {
    const Result<std::string> direct = without_lenders(world);
    if (!direct) return direct.error();
    text += *direct;
  }
  if (links && me.value() == kRanks - 1) text += predicted(*links);
  return print_in_order(world.all(), text);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<runtime::LinkSpeeds> links;
  return lesson::run(
      argc, argv, {.ranks = kRanks, .options = {"--break"}},
      [&](World& world, const Options& options) { return detour(world, options, links); },
      [&](runtime::Config& config, const Options&) { links = config.links; });
}
