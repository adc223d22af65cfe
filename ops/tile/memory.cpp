#include "ops/tile/memory.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace shmoe::ops::tile {

using runtime::Communicator;

Result<Offset> calloc(Communicator& comm, std::uint64_t count, Bytes size) {
  if (size.value() != 0 && count > std::numeric_limits<std::uint64_t>::max() / size.value()) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("rank {}: {} elements of {} bytes pass 2^64 bytes: ask for less", comm.rank(),
                                        count, size)};
  }
  const Bytes bytes{count * size.value()};
  Result<Offset> at = comm.allocate(bytes);
  if (!at) return at;
  std::ranges::fill(comm.local<std::byte>(*at, bytes.value()), std::byte{0});
  if (Result<void> met = comm.barrier(); !met) return std::move(met).error();
  return at;
}

Result<AlignedBlock> align(Communicator& comm, Bytes alignment, Bytes size) {
  if (!std::has_single_bit(alignment.value())) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("rank {}: an alignment of {}: a power of two is needed", comm.rank(), alignment)};
  }
  const std::uint64_t more = alignment.value() - std::min(alignment.value(), shmem::Heap::kGranule.value());
  if (size.value() != 0 && more > std::numeric_limits<std::uint64_t>::max() - size.value()) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("rank {}: {} bytes at multiples of {} pass 2^64: ask for less", comm.rank(),
                                        size, alignment)};
  }
  const Result<Offset> block = comm.allocate(size.value() == 0 ? size : size + Bytes{more});
  if (!block) return block.error();
  if (Result<void> met = comm.barrier(); !met) return std::move(met).error();
  const std::uint64_t at = (block->value() + alignment.value() - 1) & ~(alignment.value() - 1);
  return AlignedBlock{*block, Offset{at}};
}

}  // namespace shmoe::ops::tile
