#pragma once
// Combine for few tokens: one wait. It reads the K answers of each token in place at their owners, as combine_normal does.
//
//   host                        arguments --> Handshake
//   1 CopyValidExpandXToRemote  where ori_x is given: every core: its share of the rows received -> own expert_out;
//                               nothing is sent, in spite of the name                                          SyncAll
//   2 SetSyncFlag               cores share the ranks: combine flag[me] of each = round                 card and error
//   ---- combine_begin ends here, combine_finish goes on ----
//   3 WaitSyncFlag              wait for combine flag[r]; cards are compared                                   SyncAll
//                               a fault or a difference on any rank: all leave with the same error
//   4 InputToDstOutput          every core: its share of the tokens:
//                               x[t] = round(sum over k of expert_out[row(t,k)] * weight[t,k]
//                                            + sum over shared experts of expert_out[row] + shared_expert_x[t])
//
// Source: moe_combine_lowlatency of the published operators. In the published profile flags are 1.0f, awaited as a sum and
//         cleared by the reader: two combines without a dispatch between them lose one. And the flag of rank 0 is the word
//         in which core 0 counts its rounds: the operators need a communicator without barriers, and strict mode off (S5).

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/handshake.hpp"
#include "ops/low_latency/region.hpp"
#include "ops/low_latency/tables.hpp"
#include "runtime/communicator.hpp"
#include "runtime/registry.hpp"

namespace shmoe::ops {

/// Where the sums go: to the rank of the token, or reduced and scattered over the ranks of a tp domain, which is refused.
enum class CombineOutput : std::uint8_t { own_tokens, reduce_scatter };

struct CombineLowLatencyArgs {
  Offset expert_out;                       // symmetric [capacity, H] of dtype: row i is the answer to row i of expand_x
  std::int64_t capacity = 0;               // rows; the same on every rank
  LowLatencyTables& tables;                // of the dispatch; hidden and dtype are its
  std::span<const float> expert_scales{};  // [T, K]: the weights; none: every weight is 1
  std::span<const std::byte> ori_x{};      // answers in any own memory, to be copied to expert_out first, or none
  std::span<const std::byte>
      shared_expert_x{};           // [T, H] of dtype: what a shared expert on this rank made of the tokens
  std::span<std::byte> x;          // out: [T, H] of dtype, any own memory
  std::int32_t tp_world_size = 1;  // more than one is refused
  CombineOutput output = CombineOutput::own_tokens;
  std::span<std::byte> workspace{};  // own memory, workspace_size of it or more; none: that of the cores
};

/// Products and sums are single fp32 operations from +0: routed experts in ascending k, then shared ones, then
/// shared_expert_x, then one rounding to nearest even. A pair that was not sent adds nothing; a token with none gets zeros.
///
/// expert_out may be expand_x itself, with answers in place of the rows; the next dispatch into it then begins after this
/// combine has been finished.
///
/// Order:   peers may still read this rank's expert_out on return. It may change when this rank has begun a dispatch, or
///          ended a combine, that every rank calls only after it has finished this one: as a rule the next one, and the
///          next but one where finishes are deferred. Further combines on the same rows are fine
/// Errors:  in safe on every rank the same: mismatch of the dispatch, H, dtype, capacity, expert_out or heaps;
///          invalid_argument of a rank's own shapes and options, of x or ori_x in expert_out, of tables of another
///          communicator, of tables whose rows have not been received, and of a call that is begun while an older one
///          is in flight. In the published profile on the rank alone, there also of strict mode on a communicator where
///          a barrier has run, as creating it is (S5). Of waits, each rank its own: peer_lost, aborted, deadlock, deadline
Result<void> combine_low_latency(runtime::Communicator& comm, const CombineLowLatencyArgs& args);

/// Tells the peers that the answers are there. Two calls may be in flight. The workspace may change on return.
///
/// Order:   ori_x may change on return, x is not written before combine_finish
/// Errors:  of the slots, and of waits between the cores; faults of the arguments are raised by combine_finish, on all ranks
Result<void> combine_begin(runtime::Communicator& comm, const CombineLowLatencyArgs& args);

/// With the arguments of combine_begin; the workspace may be another one.
///
/// Order:   x is complete on return
/// Errors:  on this rank alone invalid_argument of other arguments, or where nothing is in flight in these tables: what
///          is in flight stays so, and the call may be repeated; then as combine_low_latency
Result<void> combine_finish(runtime::Communicator& comm, const CombineLowLatencyArgs& args);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const CombineLowLatencyArgs& args);

/// What this rank brings into the flags.
/// Order:   sends nothing
Handshake combine_low_latency_handshake(const CombineLowLatencyArgs& args, const runtime::Communicator& comm);

}  // namespace shmoe::ops
