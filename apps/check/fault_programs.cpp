// Protocols with one fault each, as beginners write them. The lessons point here.

#include <functional>

#include "apps/check/operators.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::ZeroBufferSync;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

constexpr Rank kFirst{0};

Body launched(const char* op, std::function<void(CoreContext&)> kernel) {
  return [op, kernel = std::move(kernel)](Communicator& comm) { return comm.launch(op, kernel); };
}

Slot flag_from(CoreContext& context, Rank source) { return context.slots().flag().at(0, source); }

/// Lesson 01: rank 0 leaves without the signal that everybody waits for.
Body forgotten_notify(const Setting& /*setting*/) {
  return launched("forgotten notify", [](CoreContext& context) {
    if (context.rank() == kFirst) return;
    context.wait(flag_from(context, kFirst), Compare::at_least, 1).ordering_only();
  });
}

/// Lesson 02: every rank waits for its left neighbour before it signals to the right.
Body ring_wait_first(const Setting& /*setting*/) {
  return launched("ring", [](CoreContext& context) {
    if (context.core() != Core{0}) return;
    const Rank right{(context.rank().value() + 1) % context.ranks()};
    const Rank left{(context.rank().value() + context.ranks() - 1) % context.ranks()};
    context.wait(flag_from(context, left), Compare::at_least, 1).ordering_only();
    context.signal(right, flag_from(context, context.rank()), shmem::SignalOp::set, 1);
  });
}

/// Lesson 04: the last core has nothing to do and leaves before the SyncAll.
Body idle_core_leaves(const Setting& /*setting*/) {
  return launched("idle core leaves", [](CoreContext& context) {
    if (context.core().value() == context.cores() - 1) return;
    context.sync_all();
  });
}

/// Lesson 07: rows are counted as arrived when the signal is there, and nothing orders row and signal.
Body row_behind_signal(const Setting& /*setting*/) {
  return launched("row behind signal", [](CoreContext& context) {
    const Rank peer{1 - context.rank().value()};
    if (context.rank().value() > 1 || context.core() != Core{0}) return;
    const std::uint64_t row = 1;
    context.signal(peer, flag_from(context, context.rank()), shmem::SignalOp::set, 1);
    context.put(peer, Offset{0}, std::span{&row, 1});
    const shmem::Witness arrived = consume_token(context.wait(flag_from(context, peer), Compare::at_least, 1));
    std::uint64_t seen = 0;
    context.get(context.rank(), Offset{0}, std::span{&seen, 1}, arrived);
  });
}

/// Lesson 08: the last rank leaves a barrier out, and there is no handshake that would notice.
Body barrier_left_out(const Setting& /*setting*/) {
  return launched("barrier left out", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    sync.barrier_all();
    if (context.rank().value() != context.ranks() - 1) sync.barrier_all();
  });
}

}  // namespace

std::vector<Program> fault_programs() {
  return {
      {.name = "fault.forgotten_notify",
       .what = "a wait whose only writer has left",
       .make = forgotten_notify,
       .expected = VerdictKind::orphan_wait},
      {.name = "fault.ring_wait_first",
       .what = "a ring in which everybody waits before it signals",
       .make = ring_wait_first,
       .expected = VerdictKind::deadlock_cycle,
       .usual = {.ranks = 4}},
      {.name = "fault.idle_core_leaves",
       .what = "a SyncAll that not every core reaches",
       .make = idle_core_leaves,
       .expected = VerdictKind::sync_mismatch,
       .usual = {.ranks = 1, .cores = 3}},
      {.name = "fault.row_behind_signal",
       .what = "the signal before the row that it announces",
       .make = row_behind_signal,
       .expected = VerdictKind::unordered_read},
      {.name = "fault.barrier_left_out",
       .what = "one rank calls a barrier less",
       .make = barrier_left_out,
       .expected = VerdictKind::orphan_wait},
  };
}

}  // namespace shmoe::apps
