#include "runtime/diagnosis/cause.hpp"

namespace shmoe::runtime {

std::string_view name_of(CauseKind kind) {
  switch (kind) {
    case CauseKind::two_barriers_in_one_epoch: return "two barriers in one epoch";
    case CauseKind::buffer_reused_early: return "buffer reused too early";
    case CauseKind::magic_drift: return "magic drift";
    case CauseKind::core_count_drift: return "core-count drift";
    case CauseKind::two_paths: return "two paths on one region";
    case CauseKind::operator_order: return "operator order differs";
    case CauseKind::operator_left_out: return "operator left out";
    case CauseKind::missing_notify: return "missing notify";
    case CauseKind::notify_range: return "notify range unlike wait range";
    case CauseKind::wrong_rank: return "notify to the wrong rank";
    case CauseKind::slot_drift: return "slot formula drift";
    case CauseKind::doubled_notify: return "doubled notify";
    case CauseKind::wrong_word: return "wrong word";
    case CauseKind::clear_missing: return "host clear missing";
    case CauseKind::clear_unaligned: return "host clear unaligned";
    case CauseKind::shared_window: return "shared flag window";
    case CauseKind::shared_line: return "slots share a line";
    case CauseKind::slot_erased: return "slot erased";
    case CauseKind::sync_all_left: return "SyncAll left out by a core";
    case CauseKind::wait_first: return "wait before notify";
    case CauseKind::credit_missing: return "credit return missing";
    case CauseKind::double_reset: return "double reset";
    case CauseKind::merged_notify: return "merged notifies";
    case CauseKind::cleared_early: return "flag cleared too early";
    case CauseKind::missing_quiet: return "missing quiet";
    case CauseKind::oversized_grid: return "oversized grid";
  }
  return "unknown";
}

std::string_view advice_on(CauseKind kind) {
  switch (kind) {
    case CauseKind::two_barriers_in_one_epoch:
      return "compare with >= on a word that grows, or choose the buffer by the count of barriers and not of kernels";
    case CauseKind::buffer_reused_early:
      return "two barriers in a row must use different buffers: choose the buffer by the count of barriers";
    case CauseKind::magic_drift:
      return "take one round at the entry of each kernel, on every rank, also where there is nothing to send";
    case CauseKind::core_count_drift:
      return "launch every kernel that takes a round on the same cores, or let the others catch up with core 0";
    case CauseKind::two_paths: return "give each path a region of its own, or let one path alone use the communicator";
    case CauseKind::operator_order:
      return "call the same operators in the same order on every rank, through all of its communicators";
    case CauseKind::operator_left_out:
      return "every rank calls every operator, also with no tokens; look for a return before the call";
    case CauseKind::missing_notify: return "look at the path by which the writer leaves without the signal";
    case CauseKind::notify_range:
      return "give the loop that notifies the bounds of the loop that stores and of the wait";
    case CauseKind::wrong_rank: return "notify the rank that waits: index ranks by destination, not by source or self";
    case CauseKind::slot_drift: return "compute the slot on both sides by one function: buffer, source, event";
    case CauseKind::doubled_notify: return "signal once a round, or wait with >=";
    case CauseKind::wrong_word: return "build the word from the same round and count on both sides";
    case CauseKind::clear_missing:
      return "clear the slots on the host and meet all ranks in a barrier before each launch, or let the words grow";
    case CauseKind::clear_unaligned:
      return "clear whole slots on the host, then meet all ranks in a barrier, and only then let anybody signal";
    case CauseKind::shared_window:
      return "give each operator slots of its own, or meet all ranks in a barrier between the two operators";
    case CauseKind::shared_line:
      return "give the slot of each core a line of its own, or let one core set all slots of a line";
    case CauseKind::slot_erased: return "look for what else writes there, and let nothing share the bytes of slots";
    case CauseKind::sync_all_left:
      return "every core of a launch calls SyncAll equally often, also a core without work";
    case CauseKind::wait_first: return "signal before you wait, on one rank of the cycle at least";
    case CauseKind::credit_missing:
      return "reset the slot after the last read of its buffer, before the next round needs it";
    case CauseKind::double_reset: return "let exactly one consumer reset a slot, once for each time it is filled";
    case CauseKind::merged_notify:
      return "wait for the credit before each notify, not once for many, or meet all ranks between two notifies";
    case CauseKind::cleared_early: return "clear the slots of a sum when all of them have been seen, and not before";
    case CauseKind::missing_quiet:
      return "call quiet behind the signal, before this core waits for an answer or leaves the operator";
    case CauseKind::oversized_grid:
      return "launch no more blocks than there are cores, or let no block wait for a later one";
  }
  return {};
}

std::string_view told_apart_by(CauseKind kind) {
  switch (kind) {
    case CauseKind::missing_notify: return "if the signal is not in the events of the writer, it was never sent";
    case CauseKind::notify_range: return "if the loop that stores is longer than the one that notifies";
    case CauseKind::wrong_rank:
    case CauseKind::slot_drift: return "if the writer's events show the same word sent elsewhere in this round";
    case CauseKind::wait_first: return "if the writer would signal after its own wait, and not before";
    case CauseKind::two_paths: return "if the round of a core has gone back";
    case CauseKind::clear_missing: return "if the word lay there before the launch began";
    case CauseKind::clear_unaligned: return "if no rank's events show a reset after the signal";
    case CauseKind::shared_window: return "if the events show both words, and each in another operator";
    case CauseKind::shared_line: return "if no written slot of another line is empty";
    case CauseKind::cleared_early:
      return "if the waiter's events show no end of a wait between the signal and its clear";
    case CauseKind::slot_erased: return "if the writer's events show the signal, and the word is not there";
    case CauseKind::operator_left_out: return "if the operators the ranks have called differ";
    case CauseKind::missing_quiet: return "if the sender's ledger counts the signal as sent and not as delivered";
    default: return "the events of the ranks show the order of signals and waits";
  }
}

}  // namespace shmoe::runtime
