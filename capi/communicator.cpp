#include "capi/handles.hpp"

using namespace shmoe;
using namespace shmoe::capi;

shmoe_status shmoe_communicator_rank(const shmoe_communicator* comm, std::int32_t* rank) {
  return call("shmoe_communicator_rank", [&] { need(rank, "rank") = need(comm, "comm").held.comm().rank().value(); });
}

shmoe_status shmoe_communicator_size(const shmoe_communicator* comm, std::int32_t* size) {
  return call("shmoe_communicator_size", [&] { need(size, "size") = need(comm, "comm").held.comm().ranks(); });
}

shmoe_status shmoe_communicator_barrier(shmoe_communicator* comm) {
  return call("shmoe_communicator_barrier", [&] { done(need(comm, "comm").held.comm().barrier()); });
}

shmoe_status shmoe_communicator_destroy(shmoe_communicator* comm) {
  return call("shmoe_communicator_destroy", [&] { delete &need(comm, "comm"); });
}

shmoe_status shmoe_memory_allocate(shmoe_communicator* comm, std::uint64_t bytes, std::uint64_t* offset) {
  return call("shmoe_memory_allocate", [&] {
    std::uint64_t& place = need(offset, "offset");
    place = value_of(need(comm, "comm").held.comm().allocate(Bytes{bytes})).value();
  });
}

shmoe_status shmoe_memory_free(shmoe_communicator* comm, std::uint64_t offset) {
  return call("shmoe_memory_free", [&] { done(need(comm, "comm").held.comm().free(Offset{offset})); });
}

shmoe_status shmoe_memory_local(shmoe_communicator* comm, std::uint64_t offset, std::uint64_t bytes, void** address) {
  return call("shmoe_memory_local", [&] {
    void*& place = need(address, "address");
    const runtime::Communicator& open = need(comm, "comm").held.comm();
    const std::uint64_t block = open.map().size.value();
    if (bytes > block || offset > block - bytes) {
      refuse(fmt::format("bytes [{:#x}, +{}) lie outside the communicator's memory of {} bytes", offset, bytes, block));
    }
    place = open.local<std::byte>(Offset{offset}, bytes).data();
  });
}
