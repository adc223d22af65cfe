// T79: the normal path goes on while another thread of every rank is in an MPI_Allreduce that cannot end before it.
// usage: mpirun -np RANKS mpi_beside_test

#include <cstdio>
#include <future>
#include <thread>

#include <mpi.h>

#include "tests/ops/ep_fixture.hpp"

using namespace shmoe;

namespace {

constexpr std::int64_t kSteps = 100;

/// The first difference of all steps.
Result<std::string> run_steps(runtime::World& world, const test::EpCase& input) {
  const Result<test::Room> room = test::allocate_room(world.all(), {&input, 1});
  if (!room) return room.error();
  const test::Expected expected = test::expect(input);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Result<test::Outcome> outcome = test::run_step(world.all(), input, *room, step);
    if (!outcome) return outcome.error();
    std::string found = test::difference(input, expected, world.rank().value(), *outcome);
    if (!found.empty()) return found;
  }
  if (Result<void> ended = world.finalize(); !ended) return ended.error();
  return std::string{};
}

Result<std::string> run_beside_allreduce(int& sum) {
  const Result<std::unique_ptr<runtime::World>> world =
      runtime::World::create(test::config_for({.cores = 2}, Bytes{4U << 20}));
  if (!world) return world.error();
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>((*world)->ranks()), 5);
  const test::EpCase input = test::make_case(79, {.tokens = tokens});
  // Rank 0 comes to the sum when its steps are done, and until then nobody leaves it.
  std::promise<void> steps_done;
  std::thread other([&, last = (*world)->rank() == Rank{0}] {
    if (last) steps_done.get_future().wait();
    const int one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  });
  Result<std::string> found = run_steps(**world, input);
  steps_done.set_value();
  other.join();
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int sum = 0;
  const Result<std::string> found = run_beside_allreduce(sum);
  MPI_Finalize();
  const std::string text = found ? *found : to_string(found.error());
  const bool good = level == MPI_THREAD_MULTIPLE && sum == ranks && text.empty();
  if (good) {
    std::puts("as expected");
  } else {
    std::printf("thread level %d, sum %d of %d ranks, %s\n", level, sum, ranks, text.c_str());
  }
  return good ? 0 : 1;
}
