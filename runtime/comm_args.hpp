#pragma once
// The argument block that the published kernels of the framework read on the device: who I am, and where everybody's
// window is mapped here. Byte for byte the published layout, for code that is ported with its offsets.
//
//   0          rank, localRank, rankSize, localRankSize, extraFlag, testFlag     6 x 4 B
//   24         peerMems[384]                                                     8 B each
//   3096       sendCountMatrix[384 x 384], then four count vectors               unused, 0
//   1195032    five batch and shape words, dfx[50]                               unused, 0
//   1195472    memLen                                                            bytes of SHMOE_BUFFSIZE
//
// Source: CommArgs as published; kernels of that family read the first six words, peerMems and memLen only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "runtime/communicator.hpp"

namespace shmoe::runtime {

struct CommArgs {
  static constexpr std::size_t kMaxRanks = 384;

  std::int32_t rank;
  std::int32_t local_rank;
  std::int32_t rank_size;
  std::int32_t local_rank_size;
  std::uint32_t extra_flag;
  std::int32_t test_flag;
  std::uint64_t peer_mems[kMaxRanks];
  std::int64_t send_count_matrix[kMaxRanks * kMaxRanks];
  std::int64_t send_counts[kMaxRanks];
  std::int64_t send_displacements[kMaxRanks];
  std::int64_t recv_counts[kMaxRanks];
  std::int64_t recv_displacements[kMaxRanks];
  std::int64_t batch_size;
  std::int64_t hidden_size;
  std::int64_t topk;
  std::int64_t shared_expert_rank_num;
  std::int64_t expert_num_per_rank;
  std::int64_t dfx[50];
  std::int64_t mem_len;
};
static_assert(sizeof(CommArgs) == 1'195'480);
static_assert(offsetof(CommArgs, peer_mems) == 24);
static_assert(offsetof(CommArgs, send_count_matrix) == 3'096);
static_assert(offsetof(CommArgs, send_counts) == 1'182'744);
static_assert(offsetof(CommArgs, recv_displacements) == 1'191'960);
static_assert(offsetof(CommArgs, batch_size) == 1'195'032);
static_assert(offsetof(CommArgs, dfx) == 1'195'072);
static_assert(offsetof(CommArgs, mem_len) == 1'195'472);
static_assert(std::is_standard_layout_v<CommArgs>);

/// The block of a communicator: windows are its ipc windows, as mapped in this process; all ranks are on one node. As
/// published, memLen counts the flags as well, so that slots of memLen / R^2 bytes lie where they lie there; the window
/// here goes on for 2 MiB behind it.
/// Errors:  invalid_argument above 384 ranks, for which the published table has no room.
Result<std::unique_ptr<CommArgs>> comm_args(const Communicator& comm);

}  // namespace shmoe::runtime
