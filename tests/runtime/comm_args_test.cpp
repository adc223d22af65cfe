// The published argument block of a communicator.

#include "runtime/comm_args.hpp"

#include <doctest/doctest.h>

#include "runtime/world.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;

TEST_CASE("the argument block names the rank and everybody's window") {
  runtime::Config config = runtime::Config::defaults();
  config.heap = Bytes{1U << 20};
  config.ipc_data = Bytes{4U << 20};
  config.communicators = 1;
  const Result<void> ran = runtime::World::run_as_threads(3, config, [](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const auto args = runtime::comm_args(comm);
    if (!args) return args.error();
    const runtime::CommArgs& block = **args;
    CHECK(block.rank == comm.rank().value());
    CHECK(block.local_rank == comm.rank().value());
    CHECK(block.rank_size == 3);
    CHECK(block.local_rank_size == 3);
    CHECK(block.extra_flag == 0);
    CHECK(block.mem_len == 4 * 1024 * 1024);
    CHECK(comm.map().ipc_data.end() >= comm.map().ipc_flags.at + Bytes{4U << 20});
    const auto own = comm.local<std::byte>(comm.map().ipc_flags.at, 1);
    CHECK(block.peer_mems[comm.rank().index()] == reinterpret_cast<std::uintptr_t>(own.data()));
    CHECK(block.peer_mems[3] == 0);
    CHECK(block.peer_mems[0] != block.peer_mems[1]);
    return comm.barrier();
  });
  REQUIRE(ran);
}
