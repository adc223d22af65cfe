#pragma once
// Tells every rank where its rows will lie, before any row is sent.
//
//   host      layout.fault, shapes, maps --> Handshake
//   enter     BarrierAll: every rank has finished layout, and everything before it
//   collect   every core: the counts of its share of the ranks -> recv_data
//             SyncAll
//   derive    cores share the owners          -> put_offset
//             three cores (or fewer, folded)  -> max_bs | total_recv_tokens | recv_tokens_per_expert, recv_rows
//             SyncAll

#include <cstdint>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/handshake.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::ops {

struct NotifyArgs {
  const LayoutTables& layout;
  const ExpertMap& experts;
};

/// The same on every rank, except the last two. Published tables are i32; the sums are 64-bit here, so none can wrap.
struct NotifyTables {
  std::vector<std::int32_t> recv_data;   // [R, E]: pairs of rank s for expert e
  std::vector<std::int64_t> put_offset;  // [E, R]: first row, on the owner of e, of the rows that rank s sends to e
  std::uint64_t owner_map = 0;           // ExpertMap::hash of the map these tables follow
  std::int64_t total_recv_tokens = 0;    // rows of the rank that receives most
  std::int64_t max_bs = 0;               // most tokens on any rank, as floor(pairs / K)
  std::vector<std::int64_t> recv_tokens_per_expert;  // [own L]: rows of each own expert: counts, no prefix
  std::int64_t recv_rows = 0;                        // rows this rank receives: their sum
};

/// Rows on a rank lie by (own experts ascending, source rank, send order), so each expert's rows are contiguous.
///
/// Shapes:  any C >= 1; a rank that owns no expert receives no rows
/// Order:   one barrier, at the entry. There is none at the exit: peers may still read this rank's counts on return, so
///          they must not change before the entry of the next dispatch or notify
/// Errors:  in safe on every rank the same: the fault of a rank's layout; mismatch of experts, owner map, K or heaps. Of
///          waits, each rank its own: peer_lost, aborted, deadline
/// Source:  notify dispatch of the published operators; works from one core on, and for any E
Result<NotifyTables> notify(runtime::Communicator& comm, const NotifyArgs& args);

/// What this rank brings into the barrier: experts, owner map, K, the place of the counts and the heap; layout's fault.
/// Order:   sends nothing
Handshake notify_handshake(const NotifyArgs& args, Rank rank, std::int32_t ranks, std::uint64_t heap_history);

/// Tables of the right sizes, for the kernel to fill.
NotifyTables prepare_notify(const NotifyArgs& args, Rank rank);

/// Order:   as notify.
void notify_kernel(runtime::CoreContext& context, const NotifyArgs& args, const Handshake& handshake,
                   NotifyTables& tables);

}  // namespace shmoe::ops
