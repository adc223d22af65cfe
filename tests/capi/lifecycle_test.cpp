// Worlds of the C interface made and ended 1000 times in one process.

#include "tests/capi/support.hpp"
#include "tests/runtime/holdings.hpp"

using namespace shmoe::capi_test;

namespace {

/// A second communicator of both ranks, and what is made of one.
shmoe_status use(RankOfTest& own) {
  const std::int32_t backwards[] = {1, 0};
  const shmoe_ep_shape shape = {.size = sizeof shape, .experts = 2, .topk = 1, .hidden = 16};
  shmoe_communicator* pair = nullptr;
  shmoe_ep* ep = nullptr;
  std::uint64_t offset = 0;
  well(shmoe_communicator_create(own.world, 1, backwards, 2, &pair));
  well(shmoe_memory_allocate(pair, 1 << 16, &offset));
  well(shmoe_ep_create(own.all, &shape, &ep));
  well(shmoe_communicator_barrier(pair));
  well(shmoe_ep_destroy(ep));
  well(shmoe_memory_free(pair, offset));
  well(shmoe_communicator_destroy(pair));
  return shmoe_world_finalize(own.world);
}

}  // namespace

TEST_CASE("1000 worlds of two ranks through the C interface: files, maps and threads stay as they are") {
  const auto change = shmoe::test::first_change("none", [] { well(on_ranks(2, 0, use)); });
  CHECK(change.value_or("no change") == "no change");
}
