#include "ops/ep/pipeline.hpp"

#include "ops/ep/rows.hpp"

namespace shmoe::ops {

Result<EpBuffers> EpBuffers::allocate(runtime::Communicator& comm, std::int32_t experts, DType dtype,
                                      std::int64_t hidden, Quant quant) {
  if (experts < 1 || hidden < 1) {
    return fault_of(
        comm.rank(), Errc::invalid_argument,
        fmt::format("buffers for {} experts and rows of {} elements: give at least one of each", experts, hidden));
  }
  EpBuffers buffers(comm, dtype, hidden, quant);
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
  return allocate_rows(needed + needed / 8);  // so that slowly growing steps do not allocate each time
}

/// All of them or none.
Result<void> EpBuffers::allocate_rows(std::int64_t rows) {
  struct Part {
    Offset* place;
    Bytes row;
    const char* what;
  };
  const Part parts[] = {{&recv_x_, Bytes{row_bytes(dtype_, hidden_, quant_)}, "received rows"},
                        {&expert_out_, Bytes{row_bytes(dtype_, hidden_)}, "rows of expert output"},
                        {&recv_scales_, Bytes{sizeof(float)}, "scales"}};
  const std::size_t count = quant_ == Quant::int8 ? 3 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    Result<Offset> at = comm_->allocate(parts[i].row * static_cast<std::uint64_t>(rows));
    if (!at) {
      for (std::size_t given = i; given-- > 0;) {
        if (Result<void> freed = comm_->free(*parts[given].place); !freed) return freed;
      }
      return std::move(at).error().within(fmt::format("{} {}", rows, parts[i].what));
    }
    *parts[i].place = *at;
  }
  capacity_ = rows;
  return {};
}

Result<void> EpBuffers::free_rows() {
  if (capacity_ == 0) return {};
  capacity_ = 0;
  if (Result<void> freed = comm_->free(recv_x_); !freed) return freed;
  if (Result<void> freed = comm_->free(expert_out_); !freed) return freed;
  return quant_ == Quant::int8 ? comm_->free(recv_scales_) : Result<void>{};
}

Result<void> EpBuffers::release() {
  if (Result<void> freed = free_rows(); !freed) return freed;
  for (const Offset counts : counts_) {
    if (Result<void> freed = comm_->free(counts); !freed) return freed;
  }
  return {};
}

std::span<std::byte> EpBuffers::rows_at(Offset at, std::int64_t rows, Quant quant) const {
  SHMOE_EXPECTS(rows >= 0 && rows <= capacity_, "{} of {} rows: call reserve after notify", rows, capacity_);
  return comm_->local<std::byte>(at, static_cast<std::size_t>(rows) * row_bytes(dtype_, hidden_, quant));
}

std::span<float> EpBuffers::scales(std::int64_t rows) const {
  if (quant_ == Quant::none) return {};
  SHMOE_EXPECTS(rows >= 0 && rows <= capacity_, "{} of {} scales: call reserve after notify", rows, capacity_);
  return comm_->local<float>(recv_scales_, static_cast<std::size_t>(rows));
}

}  // namespace shmoe::ops
