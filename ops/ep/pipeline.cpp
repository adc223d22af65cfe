#include "ops/ep/pipeline.hpp"

#include "ops/ep/rows.hpp"

namespace shmoe::ops {

Result<EpBuffers> EpBuffers::allocate(runtime::Communicator& comm, std::int32_t experts, DType dtype,
                                      std::int64_t hidden) {
  EpBuffers buffers(comm, dtype, hidden);
  for (Offset& counts : buffers.counts_) {
    Result<Offset> at = comm.allocate(shmem::bytes_of<std::int32_t>(static_cast<std::size_t>(experts)));
    if (!at) return std::move(at).error().within("counts of the experts");
    counts = *at;
  }
  return buffers;
}

Result<void> EpBuffers::reserve(const NotifyTables& notify) {
  const std::int64_t needed = notify.total_recv_tokens;
  if (needed <= capacity_) return {};
  if (Result<void> freed = free_rows(); !freed) return freed;
  const std::int64_t rows = needed + needed / 8;  // so that slowly growing steps do not allocate each time
  const Bytes size = Bytes{row_bytes(dtype_, hidden_)} * static_cast<std::uint64_t>(rows);
  Result<Offset> recv_x = comm_->allocate(size);
  if (!recv_x) return std::move(recv_x).error().within(fmt::format("{} received rows", rows));
  Result<Offset> expert_out = comm_->allocate(size);
  if (!expert_out) {
    if (Result<void> freed = comm_->free(*recv_x); !freed) return freed;
    return std::move(expert_out).error().within(fmt::format("{} rows of expert output", rows));
  }
  recv_x_ = *recv_x;
  expert_out_ = *expert_out;
  capacity_ = rows;
  return {};
}

Result<void> EpBuffers::free_rows() {
  if (capacity_ == 0) return {};
  capacity_ = 0;
  if (Result<void> freed = comm_->free(recv_x_); !freed) return freed;
  return comm_->free(expert_out_);
}

Result<void> EpBuffers::release() {
  if (Result<void> freed = free_rows(); !freed) return freed;
  for (const Offset counts : counts_) {
    if (Result<void> freed = comm_->free(counts); !freed) return freed;
  }
  return {};
}

std::span<std::byte> EpBuffers::rows_at(Offset at, std::int64_t rows) const {
  SHMOE_EXPECTS(rows >= 0 && rows <= capacity_, "{} of {} rows", rows, capacity_);
  return comm_->local<std::byte>(at, static_cast<std::size_t>(rows) * row_bytes(dtype_, hidden_));
}

}  // namespace shmoe::ops
