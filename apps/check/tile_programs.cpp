// Credits of the tile language: the all-to-all that uses them, and the ways to get them wrong.

#include <functional>

#include "apps/check/operators.hpp"
#include "ops/tile/reverse_all2all.hpp"
#include "ops/tile/tile.hpp"

namespace shmoe::apps {
namespace {

using ops::tile::consume_token;
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
constexpr ops::All2AllTiling kRowByRow{.block_rows = 1, .block_dim = 1, .buffers = 1};

ops::All2AllShape shape_in(const Setting& setting) { return {.rows = setting.rounds, .heads = 1, .dim = 1}; }

std::uint16_t element(std::int64_t source, std::int64_t target, std::int64_t row) {
  return static_cast<std::uint16_t>(1 + source * 1000 + target * 100 + row);
}

/// A block of each round, `rounds` blocks in one call, and the same call again.
Body all2all(const Setting& setting, ops::All2AllWay way, ops::Merge merge) {
  return [=](Communicator& comm) -> Result<void> {
    const ops::All2AllTasks tasks(shape_in(setting), kRowByRow, comm.ranks());
    Result<Offset> buffers = comm.allocate(tasks.buffer_bytes());
    if (!buffers) return std::move(buffers).error();
    const auto elements = static_cast<std::size_t>(setting.rounds * comm.ranks());
    std::vector<std::uint16_t> x(elements);
    std::vector<std::uint16_t> expected(elements);
    for (std::int64_t peer = 0; peer < comm.ranks(); ++peer) {
      for (std::int64_t row = 0; row < setting.rounds; ++row) {
        const auto in_long = static_cast<std::size_t>(peer * setting.rounds + row);
        const auto in_wide = static_cast<std::size_t>(row * comm.ranks() + peer);
        const bool reverse = way == ops::All2AllWay::reverse;
        x[reverse ? in_long : in_wide] = element(comm.rank().value(), peer, row);
        expected[reverse ? in_wide : in_long] = element(peer, comm.rank().value(), row);
      }
    }
    for (int call = 0; call < 2; ++call) {
      std::vector<std::uint16_t> y(elements);
      const ops::All2AllArgs args{.shape = shape_in(setting),
                                  .tiling = kRowByRow,
                                  .x = std::as_bytes(std::span{x}),
                                  .y = std::as_writable_bytes(std::span{y}),
                                  .buffers = *buffers,
                                  .signals = comm.slots().family("all2all"),
                                  .merge = merge};
      Result<void> done =
          way == ops::All2AllWay::reverse ? ops::reverse_all2all(comm, args) : ops::forward_all2all(comm, args);
      if (!done) return done;
      if (y != expected) {
        return Error{.code = Errc::mismatch, .context = fmt::format("wrong rows on rank {}", comm.rank())};
      }
    }
    return {};
  };
}

void all2all_slots(const Setting& setting, Shape& shape) {
  shape.declare_slots = [setting](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    ops::declare_all2all(plan, map, kRowByRow.buffers,
                         ops::All2AllTasks(shape_in(setting), kRowByRow, map.shape.ranks).per_peer());
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
              [](const Setting& setting, Shape& shape) {
                shape.declare_slots = [ranks = setting.ranks](shmem::SlotPlan& plan, const shmem::BlockMap&) {
                  plan.declare({.name = "credit",
                                .base = Offset{0},
                                .buffers = kRingBuffers,
                                .sources = static_cast<std::uint32_t>(ranks),
                                .writers = shmem::Writers::source_and_owner});
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

Program all2all_program(std::string name, std::string what, ops::All2AllWay way, ops::Merge merge, Setting usual) {
  return {.name = std::move(name),
          .what = std::move(what),
          .shape = all2all_slots,
          .make = [=](const Setting& setting) { return all2all(setting, way, merge); },
          .usual = usual};
}

}  // namespace

std::vector<Program> tile_programs() {
  const Setting one_core{.ranks = 2, .cores = 1, .rounds = 4};
  const Setting pairs{.ranks = 3, .cores = 2, .rounds = 4};
  return {
      all2all_program("reverse_all2all", "rows of all heads for all rows of some heads, one buffer used four times",
                      ops::All2AllWay::reverse, ops::Merge::none, pairs),
      all2all_program("reverse_all2all_merged", "the same, with the blocks in one row of work on cores that do both",
                      ops::All2AllWay::reverse, ops::Merge::blocks, {.ranks = 2, .cores = 3, .rounds = 3}),
      all2all_program("forward_all2all", "the way back", ops::All2AllWay::forward, ops::Merge::none, one_core),
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
