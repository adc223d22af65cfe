#include "ops/detour/window.hpp"

#include "ops/handshake.hpp"

namespace shmoe::ops {

Result<shmem::Region> allocate_window(runtime::Communicator& comm) {
  const Bytes size = comm.map().shape.ipc_data;
  if (size == Bytes{0}) {
    return fault_of(comm.rank(), Errc::invalid_argument,
                    "the ipc window has 0 bytes: set SHMOE_BUFFSIZE to 1 or more (MiB) on every rank");
  }
  if (!comm.profile().handshake) return shmem::Region{comm.map().ipc_data.at, size};
  Result<Offset> at = comm.allocate(size);
  if (!at) {
    return std::move(at).error().within(
        fmt::format("an ipc window of {} bytes: lower SHMOE_BUFFSIZE or raise SHMOE_HEAP on every rank", size));
  }
  return shmem::Region{*at, size};
}

}  // namespace shmoe::ops
