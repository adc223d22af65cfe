// Three kernels with barriers, as a step of the pipeline has them, and what a verdict on them says.
// usage: mpirun --oversubscribe -np 2 12_reading_a_verdict
//   SHMOE_PROFILE=faithful-2026-07 SHMOE_FAULTS=apps/12_reading_a_verdict/late.faults   deadlocks

#include "apps/lesson.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace {

using namespace shmoe;
using runtime::CoreContext;
using runtime::World;
using runtime::ZeroBufferSync;

// [kernels]
/// Notify has one barrier, dispatch one at its entry and one at its exit, combine one.
Result<void> step(World& world) {
  const std::pair<const char*, int> kernels[] = {{"notify", 1}, {"dispatch", 2}, {"combine", 1}};
  for (const auto& [name, barriers] : kernels) {
    const Result<void> done = world.all().launch(name, [count = barriers](CoreContext& context) {
      ZeroBufferSync sync(context);
      for (int i = 0; i < count; ++i) sync.barrier_all();
    });
    if (!done) return done;
    if (world.rank() == Rank{0})
      fmt::print("{}: rank 0 has passed {} barrier{}\n", name, barriers, barriers == 1 ? "" : "s");
  }
  return {};
}
// [/kernels]

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = 2, .more_ranks = true, .cores = 1},
                     [](World& world, const lesson::Options&) { return step(world); });
}
