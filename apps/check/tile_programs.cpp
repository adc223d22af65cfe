// Credits of the tile language: the all-to-all that uses them, and the ways to get them wrong.

#include <functional>

#include "apps/check/all2all_problem.hpp"
#include "apps/check/operators.hpp"
#include "ops/tile/credits.hpp"
#include "ops/tile/tile.hpp"

namespace shmoe::apps {
namespace {

using ops::tile::consume_token;
using ops::tile::declare_credits;
using ops::tile::Signals;
using ops::tile::Symmetric;
using ops::tile::Tile;
using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;
using runtime::check::Shape;

/// One row a block, one head, one element: as small as a program can be that uses its buffers again.
All2AllProblem row_by_row(const Setting& setting, ops::All2AllWay way, ops::Merge merge) {
  return {.way = way,
          .shape = {.rows = setting.rounds, .heads = 1, .dim = 1},
          .tiling = {.block_rows = 1, .block_dim = 1, .buffers = 1},
          .merge = merge};
}

/// Two heads and two parts of the columns, so that a rank has four tasks for each peer; the last block and the last part
/// are shorter.
All2AllProblem tiled(const Setting& setting, ops::All2AllWay way, ops::Merge merge) {
  return {.way = way,
          .shape = {.rows = 2 * setting.rounds - 1, .heads = 2, .dim = 3},
          .tiling = {.block_rows = 2, .block_dim = 2, .buffers = 2},
          .merge = merge};
}

/// Two calls, one after the other.
Body all2all(const All2AllProblem& problem) {
  return [=](Communicator& comm) -> Result<void> {
    const Result<Offset> buffers = allocate_all2all(comm, problem);
    if (!buffers) return buffers.error();
    for (int call = 0; call < 2; ++call) {
      Result<void> done = check_all2all(comm, problem, *buffers, call, all2all_operator(comm, problem.way));
      if (!done) return done;
    }
    return {};
  };
}

/// What a step of the small ring below leaves out or does wrong.
struct CreditFault {
  bool returns_credit = true;
  bool notifies_last = true;
  bool waits_on_source = true;  // else on the group of the own rank
  bool two_consumers = false;
  bool slot_by_task = false;
};

constexpr std::int64_t kRingBuffers = 2;

/// Core 0 sends a word in each block to the right neighbour and takes one from the left; where two consumers are asked
/// for, all other cores take it instead.
class CreditRing {
 public:
  CreditRing(CoreContext& context, const CreditFault& fault)
      : tile_(context), signals_(context.slots().family("credit")), fault_(fault), core_(context.core()) {}

  void block(std::int64_t block, std::int64_t blocks) {
    if (core_ == Core{0}) produce(block, blocks);
    if ((core_ == Core{0}) != fault_.two_consumers) consume(block);
  }

 private:
  [[nodiscard]] Rank right() const { return Rank{(tile_.rank().value() + 1) % tile_.num_ranks()}; }
  [[nodiscard]] Rank left() const { return Rank{(tile_.rank().value() + tile_.num_ranks() - 1) % tile_.num_ranks()}; }
  [[nodiscard]] auto slot(std::int64_t block, Rank source) const {
    const std::int64_t group = block % kRingBuffers * tile_.num_ranks() + source.value();
    return signals_[fault_.slot_by_task ? group + block : group];
  }
  [[nodiscard]] Symmetric<std::int64_t> place(std::int64_t block) const {
    return Symmetric<std::int64_t>{Offset{4096}} + block % kRingBuffers;
  }

  void produce(std::int64_t block, std::int64_t blocks) {
    const auto credit = slot(block, tile_.rank());
    const auto free =
        consume_token(tile_.symm_at(place(block), right()), tile_.wait(tile_.symm_at(credit, right()), 1, 0));
    tile_.store(free, {&block, 1});
    tile_.fence();
    if (fault_.notifies_last || block + 1 < blocks) tile_.notify(credit, right(), 1);
  }
  void consume(std::int64_t block) {
    const auto credit = slot(block, fault_.waits_on_source ? left() : tile_.rank());
    const auto full = consume_token(tile_.symm_at(place(block), tile_.rank()), tile_.wait(credit, 1, 1));
    std::int64_t value = 0;
    if (!fault_.two_consumers) tile_.load(full, {&value, 1});  // they would be overwritten as they read, too
    tile_.fence();
    if (fault_.returns_credit) tile_.notify(credit, tile_.rank(), 0);
  }

  Tile tile_;
  Signals<std::int64_t> signals_;
  CreditFault fault_;
  Core core_;
};

Program credit_program(std::string name, std::string what, CreditFault fault, VerdictKind expected, Setting usual) {
  return {.name = std::move(name),
          .what = std::move(what),
          .shape =
              [](const Setting&, Shape& shape) {
                shape.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap&) {
                  declare_credits(plan, "credit", Offset{0}, kRingBuffers);
                };
              },
          .make =
              [fault](const Setting& setting) {
                return [fault, blocks = setting.rounds](Communicator& comm) {
                  return comm.launch("credits", [&](CoreContext& context) {
                    CreditRing ring(context, fault);
                    for (std::int64_t block = 0; block < blocks; ++block) ring.block(block, blocks);
                  });
                };
              },
          .expected = expected,
          .usual = usual};
}

using ProblemOf = All2AllProblem (*)(const Setting&, ops::All2AllWay, ops::Merge);

Program all2all_program(std::string name, std::string what, ProblemOf problem, ops::All2AllWay way, ops::Merge merge,
                        Setting usual) {
  return {.name = std::move(name),
          .what = std::move(what),
          .shape =
              [=](const Setting& setting, Shape& shape) {
                shape.declare_slots = [problem = problem(setting, way, merge)](shmem::SlotPlan& plan,
                                                                               const shmem::BlockMap& map) {
                  declare_all2all_slots(problem, plan, map);
                };
              },
          .make = [=](const Setting& setting) { return all2all(problem(setting, way, merge)); },
          .usual = usual};
}

}  // namespace

std::vector<Program> tile_programs() {
  const Setting one_core{.ranks = 2, .cores = 1, .rounds = 4};
  const Setting pairs{.ranks = 3, .cores = 2, .rounds = 4};
  const Setting pairs_of_two{.ranks = 2, .cores = 2, .rounds = 3};
  return {
      all2all_program("reverse_all2all", "rows of all heads for all rows of some heads, one buffer used four times",
                      row_by_row, ops::All2AllWay::reverse, ops::Merge::none, pairs),
      all2all_program("reverse_all2all_merged", "the same, with the blocks in one row of work on cores that do both",
                      row_by_row, ops::All2AllWay::reverse, ops::Merge::blocks, {.ranks = 2, .cores = 3, .rounds = 3}),
      all2all_program("forward_all2all", "the way back", row_by_row, ops::All2AllWay::forward, ops::Merge::none,
                      one_core),
      all2all_program("all2all_tiles", "several tasks for each peer, in two buffers, with rests", tiled,
                      ops::All2AllWay::reverse, ops::Merge::none, pairs_of_two),
      all2all_program("all2all_tiles_merged", "the same in one row of work, and the other way", tiled,
                      ops::All2AllWay::forward, ops::Merge::blocks, {.ranks = 2, .cores = 3, .rounds = 3}),
      credit_program("credit_return", "a ring of ranks, two buffers, and each is given back", {}, VerdictKind::clean,
                     one_core),
      credit_program("fault.credit_missing", "the consumer gives no buffer back", {.returns_credit = false},
                     VerdictKind::deadlock_cycle, one_core),
      credit_program("fault.last_notify_missing", "the notify loop is shorter than the store loop",
                     {.notifies_last = false}, VerdictKind::deadlock_cycle, one_core),
      credit_program("fault.consumer_on_own_group", "the consumer waits on the slots of its own rank's blocks",
                     {.waits_on_source = false}, VerdictKind::deadlock_cycle, one_core),
      credit_program("fault.two_resetters", "two cores take the same block and give it back", {.two_consumers = true},
                     VerdictKind::deadlock_cycle, {.ranks = 2, .cores = 3, .rounds = 4}),
      credit_program("fault.slot_by_task", "the slot's address is computed with the task, and leaves the array",
                     {.slot_by_task = true}, VerdictKind::broken_contract, one_core),
  };
}

}  // namespace shmoe::apps
