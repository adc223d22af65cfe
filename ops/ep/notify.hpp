#pragma once
// Tells every rank where its rows will lie, before any row is sent.
//
//   host      layout.fault, shapes, maps --> Handshake
//   enter     BarrierAll: every rank has finished layout, and everything before it
//   collect   every core: the counts of its share of the ranks -> recv_data
//             SyncAll
//   derive    cores share the experts         -> put_offset
//             three cores (or fewer, folded)  -> max_bs | total_recv_tokens | what this rank receives
//             SyncAll

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/handshake.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::ops {

/// What a grouped matmul takes: the rows of each group, or where each group ends.
enum class GroupList : std::uint8_t { counts, cumulative };

/// Of expert_alignment, so that no sum of rows can wrap.
inline constexpr std::int64_t kMostAlignment = std::int64_t{1} << 30;

struct NotifyArgs {
  const LayoutTables& layout;
  const ExpertMap& experts;
  std::int64_t expert_alignment = 1;  // the rows of each expert start at a multiple of it; the same on every rank
  GroupList group_list = GroupList::counts;
  std::span<std::byte> workspace = {};  // own memory, workspace_size of it or more; none: that of the cores
};

/// The same on every rank up to max_bs, then this rank's own. Published tables are i32; sums are 64-bit here, so none can
/// wrap.
///
///   expert_alignment 4, counts 3 5       | x x x . | x x x x x . . . |      . padding: keeps its old content
///   recv_tokens_per_expert 3 5           group_list 4 8, or cumulative 4 12; padded_rows 12
struct NotifyTables {
  std::vector<std::int32_t> recv_data;   // [R, E]: pairs of rank s for expert e
  std::vector<std::int64_t> put_offset;  // [E, R]: first row, on the owner of e, of the rows that rank s sends to e
  std::uint64_t owner_map = 0;           // ExpertMap::hash of the map these tables follow; 0: notify has failed
  std::uint64_t round = 0;               // of the communicator: which call of notify this was
  runtime::CommunicatorId communicator;  // whose dispatch they are for
  std::int64_t total_recv_tokens = 0;    // padded_rows of the rank that has most: the capacity that every rank needs
  std::int64_t max_bs = 0;               // most tokens on any rank, as floor(pairs / K)
  std::vector<std::int64_t>
      recv_tokens_per_expert;            // [own L]: rows that each own expert receives: no padding, no prefix
  std::int64_t recv_rows = 0;            // their sum
  std::int64_t padded_rows = 0;          // rows of the buffer in use, with the padding after each expert
  std::vector<std::int64_t> group_list;  // [own L]: rows of each own expert with its padding
};

/// Fills the tables; those of an earlier call are overwritten, and lend their memory. Rows on a rank lie by (own experts
/// ascending, source rank, send order), so each expert's rows are contiguous.
///
/// Shapes:  any C >= 1; a rank that owns no expert receives no rows
/// Order:   one barrier, at the entry. There is none at the exit: peers may still read this rank's counts on return, so
///          they must not change before the entry of the next dispatch or notify
/// Errors:  in safe on every rank the same: the fault of a rank's layout; mismatch of experts, owner map, K, alignment,
///          group list or heaps; invalid_argument of an alignment, and of a layout of another communicator. Of waits,
///          each rank its own: peer_lost, aborted, deadline
/// Source:  notify dispatch of the published operators; works from one core on, and for any E; alignment and group list as
///          users of grouped matmuls ask for them
Result<void> notify(runtime::Communicator& comm, const NotifyArgs& args, NotifyTables& tables);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const NotifyArgs& args);
/// Of it, each core's.
/// Order:   sends nothing
Bytes notify_share(std::int32_t experts);

/// What this rank brings into the barrier: experts, owner map, K, the place of the counts and the heap; layout's fault.
/// Order:   sends nothing
Handshake notify_handshake(const NotifyArgs& args, Rank rank, std::int32_t ranks, std::uint64_t heap_history);

/// Gives the tables their sizes, for the kernel to fill.
void prepare_notify(const NotifyArgs& args, Rank rank, NotifyTables& tables);

/// Order:   as notify.
void notify_kernel(runtime::CoreContext& context, const NotifyArgs& args, const Handshake& handshake,
                   NotifyTables& tables);

}  // namespace shmoe::ops
