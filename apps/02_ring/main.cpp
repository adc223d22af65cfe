// A token goes round a ring of ranks. Rank 0 passes it on before it waits for it; everybody else waits first.
// usage: mpirun --oversubscribe -np R 02_ring [--break]
//   --break   rank 0 waits first, too

#include "apps/lesson.hpp"

namespace {

using namespace shmoe;
using runtime::CoreContext;
using runtime::World;
using shmem::SignalOp;
using shmem::Witness;

constexpr Offset kToken{0};  // the number of hops so far
constexpr std::uint64_t kLaps = 3;

// [pass]
void pass_on(CoreContext& context, std::uint64_t lap, std::uint64_t hops) {
  const Rank right{(context.rank().value() + 1) % context.ranks()};
  const Slot flag = context.slots().flag().at(0, context.rank());  // I am its only writer
  context.put_signal(right, kToken, std::span<const std::uint64_t>{&hops, 1}, flag, SignalOp::set, lap);
}

std::uint64_t take(CoreContext& context, std::uint64_t lap) {
  const Rank left{(context.rank().value() + context.ranks() - 1) % context.ranks()};
  const Slot flag = context.slots().flag().at(0, left);
  const Witness arrived = consume_token(context.wait(flag, Compare::equal, lap));
  std::uint64_t hops = 0;
  context.get(context.rank(), kToken, std::span{&hops, 1}, arrived);
  return hops;
}
// [/pass]

// [ring]
void ring(CoreContext& context, bool everybody_waits_first) {
  const bool first = context.rank() == Rank{0} && !everybody_waits_first;
  std::uint64_t hops = 0;
  for (std::uint64_t lap = 1; lap <= kLaps; ++lap) {
    if (first) pass_on(context, lap, hops + 1);
    hops = take(context, lap);
    if (!first) pass_on(context, lap, hops + 1);
    if (first) fmt::print("lap {}: the token is back after {} hops\n", lap, hops);
  }
}
// [/ring]

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = 2, .more_ranks = true, .cores = 1, .options = {"--break"}},
                     [](World& world, const lesson::Options& options) {
                       return world.all().launch("ring",
                                                 [&](CoreContext& context) { ring(context, options.has("--break")); });
                     });
}
