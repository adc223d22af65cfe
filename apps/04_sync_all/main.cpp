// The cores of a rank meet in SyncAll; the ranks meet in BarrierAll. Sums are taken in a fixed order.
// usage: mpirun --oversubscribe -np 2 04_sync_all [--published] [--break]
//   --published   the flag word of the published kernels instead of ours
//   --break       a core that has no numbers leaves early

#include <array>

#include "apps/lesson.hpp"

namespace {

using namespace shmoe;
using runtime::CoreContext;
using runtime::World;
using runtime::ZeroBufferSync;
using shmem::Witness;

constexpr std::int32_t kRanks = 2;
constexpr std::int32_t kCores = 4;
constexpr Offset kPartials{0};   // [C] of this rank: one place a core
constexpr Offset kTotals{1024};  // [R] on every rank: one place a rank

/// The numbers of a rank: fewer than it has cores, so core 3 has none.
std::array<float, 3> numbers_of(Rank rank) { return {1e8F, -1e8F, static_cast<float>(rank.value() + 1)}; }

/// What core 0 of a rank found.
struct Found {
  std::array<float, kCores> partials{};
  std::array<float, kRanks> totals{};
  float sum = 0;
  Round round;
};

void put_float(CoreContext& context, Rank dst, Offset to, float value) {
  context.put(dst, to, std::span<const float>{&value, 1});
}

float sum_in_order(std::span<const float> values) {
  float sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

// [kernel]
void sum(CoreContext& context, bool idle_core_leaves, Found& found) {
  ZeroBufferSync sync(context);  // every core takes the round, "magic"
  const auto numbers = numbers_of(context.rank());
  const Slice mine = context.slice(numbers.size());
  if (idle_core_leaves && mine.size() == 0) return;

  float partial = 0;
  for (std::int64_t i = mine.first; i < mine.last; ++i) partial += numbers[static_cast<std::size_t>(i)];
  put_float(context, context.rank(), kPartials + Bytes{4 * context.core().index()}, partial);
  const Witness cores = context.sync_all();

  if (context.core() == Core{0}) {
    context.get(context.rank(), kPartials, std::span<float>{found.partials}, cores);
    const float total = sum_in_order(found.partials);
    for (Rank dst{0}; dst.value() < context.ranks(); ++dst) {
      put_float(context, dst, kTotals + Bytes{4 * context.rank().index()}, total);
    }
  }
  const Witness ranks = sync.barrier_all();

  if (context.core() == Core{0}) {
    context.get(context.rank(), kTotals, std::span<float>{found.totals}, ranks);
    found.sum = sum_in_order(found.totals);
    found.round = sync.round();
  }
}
// [/kernel]

// [words]
std::string words(runtime::Communicator& all, Round round) {
  // The magic slot of a core: {next round, barriers it has executed}.
  const std::span<const std::uint64_t> magic = all.local<std::uint64_t>(all.map().magic_of(Core{0}), 2);
  const bool published = all.profile().flag_word == FlagWord::magic32_value32;
  const std::uint64_t buffer = published ? round.value() % 2 : magic[1] % 2;
  const Rank other{1 - all.rank().value()};
  const Slot slot = all.slots().barrier().at(buffer, other);
  const std::uint64_t word = all.local<std::uint64_t>(all.slots().offset_of(slot), 1)[0];
  const std::string meaning = published ? fmt::format("magic {}, barrier {} of it", word >> 32, word & 0xFFFFFFFF)
                                        : fmt::format("barrier {}, error {}", word >> 8, word & 0xFF);
  return fmt::format("{} holds {:#018x}: {}", all.slots().describe(slot), word, meaning);
}
// [/words]

std::uint64_t sync_all_word(runtime::Communicator& all) {
  return all.local<std::uint64_t>(all.map().sync_all.at, 1)[0];
}

Result<void> sync_all(World& world, const lesson::Options& options) {
  runtime::Communicator& all = world.all();
  Found found;
  const std::uint64_t before = sync_all_word(all);
  const bool broken = options.has("--break");
  const Result<void> summed = all.launch("sum", [&](CoreContext& context) { sum(context, broken, found); });
  if (!summed) return summed;
  const std::uint64_t arrivals = sync_all_word(all) - before;

  const Rank me = all.rank();
  return lesson::print_in_order(
      all,
      fmt::format("rank {}: partial sums {} in core order make {}\n", me, fmt::join(found.partials, " + "),
                  found.totals[me.index()]) +
          fmt::format("rank {}: {} arrivals at the sync-all slot: {} generations of {} cores\n", me, arrivals,
                      arrivals / kCores, kCores) +
          fmt::format("rank {}: {}\n", me, words(all, found.round)) +
          fmt::format("rank {}: totals {} in rank order make {}\n", me, fmt::join(found.totals, " + "), found.sum));
}

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = kRanks, .cores = kCores, .options = {"--break", "--published"}}, sync_all,
                     [](runtime::Config& config, const lesson::Options& options) {
                       if (options.has("--published")) config.profile = kFaithful202607;
                     });
}
