#include "runtime/comm_args.hpp"

namespace shmoe::runtime {

Result<std::unique_ptr<CommArgs>> comm_args(const Communicator& comm) {
  if (comm.ranks() > static_cast<std::int32_t>(CommArgs::kMaxRanks)) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("the published argument block has room for {} ranks, the communicator has {}",
                                        CommArgs::kMaxRanks, comm.ranks())};
  }
  auto args = std::make_unique<CommArgs>();  // all zeros
  args->rank = comm.rank().value();
  args->local_rank = comm.rank().value();
  args->rank_size = comm.ranks();
  args->local_rank_size = comm.ranks();
  const shmem::BlockMap& map = comm.map();
  for (Rank peer{0}; peer.value() < comm.ranks(); ++peer) {
    args->peer_mems[peer.index()] = reinterpret_cast<std::uintptr_t>(comm.mapped_at(peer, map.ipc_flags.at));
  }
  args->mem_len = static_cast<std::int64_t>(map.shape.ipc_data.value());
  return args;
}

}  // namespace shmoe::runtime
