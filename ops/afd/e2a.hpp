#pragma once
// Hands the answers of the expert ranks back to the attention ranks they belong to.
//
//   host        tables of a2e, answers, x --> Handshake
//   enter       BarrierAll: the attention ranks are done with the rows of the call before
//   expert      every core: for each attention rank it serves, its share of the rows -> window there
//                           answers [rows, H]       as they are
//                           answers [rows, K, H]    round(sum over k of answer[row,k] * scale[row,k])
//               SyncAll;  a flag to each
//   attention   every core: wait for the flag; its share of the rows -> x

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/afd/a2e.hpp"
#include "ops/afd/window.hpp"

namespace shmoe::ops {

/// What an expert rank has for each row: one answer, or one for each expert id of the row, to be added up.
enum class Answers : std::uint8_t { one, one_each_k };

struct E2aArgs {
  AfdPlace place;
  const A2eTables& a2e;  // of the call whose rows are answered
  Answers kind = Answers::one;
  std::span<const std::byte> answers = {};  // of an expert rank, any own memory: [rows, H] or [rows, K, H] of dtype
  std::span<std::byte> x = {};              // out, of an attention rank, any own memory: [B, H] of dtype
  std::span<std::byte> workspace = {};      // own memory, workspace_size of it or more; none: that of the cores
};

/// Sums are as those of combine_normal: single fp32 operations from +0 in ascending k, then one rounding to nearest even;
/// weights are the scales that came with a2e, or 1 without a gate, and a pair whose id is -1 adds nothing. Rows that are
/// not active are not sent, and are zeros in x.
///
/// Shapes:  as a2e; answers of exactly the rows that came, x of exactly the own batch
/// Order:   on return the rows of an attention rank are in x, and the answers may change. May be called again on the same
///          tables
/// Errors:  in safe on every rank the same, and nothing sent: mismatch as in a2e, and of the kind of answers or the
///          call of a2e; invalid_argument of a rank's own answers and x, of either in the window, and of tables of an
///          a2e of another shape or communicator. Of waits, each rank its own: peer_lost, aborted, deadline. The
///          published profiles refuse sums alone: their kernel copies
/// Source:  published e2a, which copies rows, and spaces them otherwise than a2e where A is no multiple of E. Ours in safe:
///          the rows are those of a2e, and the weighted sum
Result<void> e2a(runtime::Communicator& comm, const E2aArgs& args);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const E2aArgs& args);
/// Of its own part, what each core of an expert rank takes.
Bytes e2a_share(Answers kind, const AfdShape& shape);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
Handshake e2a_handshake(const E2aArgs& args, const runtime::Communicator& comm);

/// Order:   as e2a
void e2a_kernel(runtime::CoreContext& context, const E2aArgs& args, const Handshake& handshake);

}  // namespace shmoe::ops
