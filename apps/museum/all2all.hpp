#pragma once
// The all-to-all of ops/tile in the checker, as its kernel is or without some of its calls. Behind each launch the rows are
// compared.
//
//   producer   wait 0 | store | fence | notify 1        consumer   wait 1 | load | fence | notify 0

#include "apps/check/all2all_problem.hpp"
#include "apps/museum/exhibit.hpp"
#include "ops/tile/tile.hpp"
#include "shmem/passing_fabric.hpp"

namespace shmoe::apps::all2all {

inline constexpr std::uint64_t kFree = 0;
inline constexpr std::uint64_t kFull = 1;

/// What is left out.
struct Without {
  bool wait_free = false;
  bool fence = false;
  bool wait_full = false;
  bool give_back = false;
};

class AlteredFabric final : public shmem::PassingFabric {
 public:
  AlteredFabric(shmem::Fabric& next, Without without) : PassingFabric(next), without_(without) {}

  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override {
    if (!without_.give_back || value != kFree) next().signal(dst, slot, op, value, site);
  }
  void fence(Rank dst, SourceSite site) override {
    if (!without_.fence) next().fence(dst, site);
  }
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override {
    const bool left_out = spec.value == kFree ? without_.wait_free : without_.wait_full;
    return left_out ? shmem::Arrival{.index = 0, .value = spec.value} : next().wait(spec, site);
  }

 private:
  Without without_;
};

/// Four blocks of one row in two buffers, and two tasks for each peer.
inline All2AllProblem problem() {
  return {.shape = {.rows = 4, .heads = 2, .dim = 1}, .tiling = {.block_rows = 1, .block_dim = 1, .buffers = 2}};
}
/// So many blocks of one row, each in a buffer of its own.
inline All2AllProblem buffer_a_block(std::int32_t blocks, ops::All2AllWay way = ops::All2AllWay::reverse) {
  return {.way = way,
          .shape = {.rows = blocks, .heads = 1, .dim = 1},
          .tiling = {.block_rows = 1, .block_dim = 1, .buffers = blocks}};
}

inline std::function<void(shmem::SlotPlan&, const shmem::BlockMap&)> slots(const All2AllProblem& problem) {
  return [problem](shmem::SlotPlan& plan, const shmem::BlockMap& map) { declare_all2all_slots(problem, plan, map); };
}

/// The kernel, and nothing before or behind it: no barrier either.
inline Result<void> launch(runtime::Communicator& comm, const All2AllProblem& problem, Offset buffers, int number,
                           Without without) {
  return check_all2all(comm, problem, buffers, number, [&](const ops::All2AllArgs& args) {
    return comm.launch("all2all", [&](runtime::CoreContext& context) {
      AlteredFabric fabric(context.fabric(), without);
      runtime::CoreContext altered(fabric, context.slots(), context.map(), context.profile(),
                                   {context.rank(), context.ranks(), context.core(), context.cores()}, context.launch(),
                                   *context.workspace());
      ops::all2all_program(altered, problem.way, args);
    });
  });
}

/// Sets the own slots to 0, as a host does that fills them.
inline Result<void> clear(runtime::Communicator& comm) {
  return comm.launch("fill", [](runtime::CoreContext& context) {
    if (context.core() != Core{0}) return;
    ops::tile::Tile tile(context);
    const ops::tile::Signals<std::int64_t> signals(context.slots().family("all2all"));
    for (std::uint32_t i = 0; i < signals.size(); ++i) tile.notify(signals[i], tile.rank(), kFree);
  });
}

/// One launch in two buffers, each of them used twice.
inline std::function<Result<void>(runtime::Communicator&)> once(Without without) {
  return [without](runtime::Communicator& comm) -> Result<void> {
    const Result<Offset> buffers = allocate_all2all(comm, problem());
    if (!buffers) return buffers.error();
    if (Result<void> met = comm.barrier(); !met) return met;
    return launch(comm, problem(), *buffers, 0, without);
  };
}

/// As the published forward all-to-all: a buffer for each block, and nobody waits for a credit or returns one. `between`
/// is what the host does between two launches.
inline std::function<Result<void>(runtime::Communicator&)> without_credits(
    const All2AllProblem& all, std::function<Result<void>(runtime::Communicator&)> between) {
  return [all, between = std::move(between)](runtime::Communicator& comm) -> Result<void> {
    constexpr Without kCredits{.wait_free = true, .give_back = true};
    const Result<Offset> buffers = allocate_all2all(comm, all);
    if (!buffers) return buffers.error();
    if (Result<void> met = comm.barrier(); !met) return met;
    if (Result<void> first = launch(comm, all, *buffers, 0, kCredits); !first) return first;
    if (Result<void> done = between(comm); !done) return done;
    return launch(comm, all, *buffers, 1, kCredits);
  };
}

}  // namespace shmoe::apps::all2all
