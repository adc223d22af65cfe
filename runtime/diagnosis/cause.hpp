#pragma once
// The steps of a signal protocol that break, by name, and what to do about each.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::runtime {

/// The step of the protocol that is broken.
enum class CauseKind : std::uint8_t {
  two_barriers_in_one_epoch,  // a second barrier of one kernel overwrote the first before it was seen
  buffer_reused_early,        // a barrier of the next kernel did
  magic_drift,                // ranks number the same kernel differently
  core_count_drift,           // cores of one rank do
  two_paths,                  // something else writes the bytes in which the rounds of a core are counted
  operator_order,             // ranks are in different operators
  operator_left_out,          // a rank has called fewer of them
  missing_notify,
  notify_range,  // some events of a wait are signalled, others never
  wrong_rank,    // the notify went to another rank
  slot_drift,    // it went to another slot of the right rank
  doubled_notify,
  wrong_word,
  clear_missing,    // a word of the launch before still lies there
  clear_unaligned,  // a word was cleared on the host after it had come, whole or in part
  shared_window,    // the word of one operator was written over in another one
  shared_line,      // another core wrote back the line that its slot shares with this one
  slot_erased,      // the word was there, and nobody who may write the slot took it away
  sync_all_left,    // a core called SyncAll less often than the others
  wait_first,       // everybody waits before it signals
  credit_missing,   // a consumer never gave its slot back
  double_reset,     // a slot was given back more often than it was filled
  merged_notify,    // a slot was filled again before it was given back, so two signals became one
  cleared_early,    // a slot of a sum was given back before the sum was complete
  missing_quiet,    // a signal was sent and not completed, and its sender waits
  oversized_grid,   // who should signal has not started: its block runs after one that waits
};

std::string_view name_of(CauseKind kind);

/// How many cores of a rank have begun so many kernels with flags.
struct CoresAtMagic {
  Rank rank;
  std::uint64_t magic = 0;
  std::int32_t cores = 0;
};

struct Cause {
  CauseKind kind;
  std::string because;  // the evidence
  Rank rank = {};       // whose wait it was found at
  Core core = {};
  std::vector<CoresAtMagic> histogram = {};  // of core-count drift: of all ranks
};

/// What to do about it.
std::string_view advice_on(CauseKind kind);
/// What would tell it from other causes that leave the same traces.
std::string_view told_apart_by(CauseKind kind);

}  // namespace shmoe::runtime
