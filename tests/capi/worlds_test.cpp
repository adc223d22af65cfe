// Worlds: several in one process, and what becomes of handles.

#include <unistd.h>

#include <thread>

#include "tests/capi/support.hpp"

using namespace shmoe::capi_test;

namespace {

/// A rank of a job in which each rank is a thread that has found the others as a process does.
shmoe_status join(const std::string& job, int rank, int size, shmoe_world** world) {
  const std::string texts[] = {"SHMOE_JOB=" + job, "SHMOE_RANK=" + std::to_string(rank),
                               "SHMOE_SIZE=" + std::to_string(size)};
  std::vector<const char*> settings(kSmall, std::end(kSmall) - 1);
  for (const std::string& text : texts) settings.push_back(text.c_str());
  settings.push_back(nullptr);
  const shmoe_config config = {.size = sizeof config, .settings = settings.data(), .comm_id = nullptr, .uses = 0};
  return shmoe_world_create(&config, world);
}

/// Sends the own number around: what has come from the right neighbour.
std::int32_t exchanged(shmoe_world* world, std::int32_t number) {
  shmoe_communicator* all = nullptr;
  well(shmoe_communicator_all(world, &all));
  shmoe_all_to_all_args args = {.size = sizeof args, .type = SHMOE_INT32, .elements = 2};
  const std::int32_t x[] = {number, number};
  std::int32_t y[] = {-1, -1};
  std::int32_t rank = -1;
  well(shmoe_communicator_rank(all, &rank));
  args.x = x;
  args.x_bytes = sizeof x;
  args.y = y;
  args.y_bytes = sizeof y;
  well(shmoe_window_allocate(all, &args.window, &args.window_bytes));
  well(shmoe_all_to_all(all, &args));
  well(shmoe_communicator_destroy(all));
  return y[1 - rank];
}

}  // namespace

TEST_CASE("two jobs of two ranks each, all in this process at the same time") {
  const std::string jobs[] = {"capi-a-" + std::to_string(getpid()), "capi-b-" + std::to_string(getpid())};
  const auto rank_of_both = [&jobs](int rank) {
    shmoe_world* worlds[2] = {};
    for (int job = 0; job < 2; ++job) well(join(jobs[job], rank, 2, &worlds[job]));
    for (int job = 0; job < 2; ++job) {
      std::int32_t size = 0;
      well(shmoe_world_size(worlds[job], &size));
      CHECK(size == 2);
      CHECK(exchanged(worlds[job], 10 * job + rank) == 10 * job + 1 - rank);
    }
    for (shmoe_world* world : worlds) {
      well(shmoe_world_finalize(world));
      well(shmoe_world_destroy(world));
    }
  };
  std::thread other(rank_of_both, 1);
  rank_of_both(0);
  other.join();
}

TEST_CASE("a world lives as long as what was made of it") {
  const shmoe_config config = small_config();
  shmoe_world* world = nullptr;
  shmoe_communicator* all = nullptr;
  well(shmoe_world_create(&config, &world));
  well(shmoe_communicator_all(world, &all));
  well(shmoe_world_destroy(world));
  well(shmoe_communicator_barrier(all));
  std::uint64_t offset = 0;
  well(shmoe_memory_allocate(all, 64, &offset));
  well(shmoe_communicator_destroy(all));
}

TEST_CASE("the world of a thread ends with its body, and all that was made of it is refused then") {
  static shmoe_communicator* left = nullptr;
  static shmoe_ep* left_ep = nullptr;
  well(on_ranks(1, 0, [](RankOfTest& own) {
    refused(shmoe_world_destroy(own.world), SHMOE_INVALID_ARGUMENT, "belongs to shmoe_run_as_threads");
    const shmoe_ep_shape shape = {.size = sizeof shape, .experts = 1, .topk = 1, .hidden = 1};
    well(shmoe_communicator_all(own.world, &left));
    return shmoe_ep_create(left, &shape, &left_ep);
  }));
  refused(shmoe_communicator_barrier(left), SHMOE_INVALID_ARGUMENT, "its world has ended");
  refused(shmoe_ep_notify(left_ep), SHMOE_INVALID_ARGUMENT, "its world has ended");
  well(shmoe_ep_destroy(left_ep));
  well(shmoe_communicator_destroy(left));
}

TEST_CASE("a body that fails ends the others, and its error is that of the job") {
  const shmoe_status ended = on_ranks(2, 0, [](RankOfTest& own) {
    if (own.rank == 1) return shmoe_communicator_barrier(nullptr);
    const shmoe_status waited = shmoe_communicator_barrier(own.all);
    CHECK_MESSAGE(waited == SHMOE_ABORTED, shmoe_last_error());
    return waited;
  });
  refused(ended, SHMOE_INVALID_ARGUMENT, "shmoe_run_as_threads: shmoe_communicator_barrier: comm is NULL");

  refused(on_ranks(1, 0, [](RankOfTest&) { return SHMOE_IO; }), SHMOE_SYSTEM,
          "the body returned 16 (io), and no call of its thread failed with that");
  refused(on_ranks(0, 0, [](RankOfTest&) { return SHMOE_OK; }), SHMOE_INVALID_ARGUMENT, "0 ranks: 1 at least");
}

TEST_CASE("whoever aborts says why, and nobody waits for it") {
  refused(on_ranks(2, 0,
                   [](RankOfTest& own) {
                     if (own.rank == 0) return shmoe_communicator_barrier(own.all);
                     std::uint64_t offset = 0;
                     const shmoe_status failed = shmoe_memory_allocate(own.all, 0, &offset);
                     well(shmoe_world_abort(own.world));
                     return failed;
                   }),
          SHMOE_INVALID_ARGUMENT, "shmoe_memory_allocate: ");
}
