#include "ops/low_latency/buffers.hpp"

#include <algorithm>

namespace shmoe::ops {

namespace {

/// Nobody asks for less than one row: a heap knows no empty block.
Bytes bytes_for(std::int64_t rows, std::uint64_t row_size) {
  return Bytes{row_size} * static_cast<std::uint64_t>(std::max<std::int64_t>(rows, 1));
}

}  // namespace

Result<LowLatencyBuffers> LowLatencyBuffers::allocate(runtime::Communicator& comm, const Shape& shape) {
  LowLatencyBuffers buffers(comm, shape);
  for (Half& half : buffers.halves_) {
    half.comm_ = &comm;
    half.shape_ = shape;
    const struct {
      Offset* at;
      std::uint64_t row_size;
    } parts[] = {{&half.expand_x, row_bytes(shape.dtype, shape.hidden, shape.quant)},
                 {&half.expert_out, row_bytes(shape.dtype, shape.hidden)},
                 {&half.dynamic_scales, shape.quant == Quant::int8 ? sizeof(float) : 0}};
    for (const auto& part : parts) {
      if (part.row_size == 0) continue;
      Result<Offset> at = comm.allocate(bytes_for(shape.capacity, part.row_size));
      if (!at) return std::move(at).error();
      *part.at = *at;
    }
  }
  return buffers;
}

Result<void> LowLatencyBuffers::release() {
  for (const Half& half : halves_) {
    if (Result<void> freed = comm_->free(half.expand_x); !freed) return freed;
    if (Result<void> freed = comm_->free(half.expert_out); !freed) return freed;
    if (shape_.quant == Quant::none) continue;
    if (Result<void> freed = comm_->free(half.dynamic_scales); !freed) return freed;
  }
  return {};
}

void LowLatencyBuffers::Half::expect_received(const LowLatencyTables& tables) const {
  SHMOE_EXPECTS(tables.stage == LowLatencyStage::received || tables.stage == LowLatencyStage::summing,
                "rank {}: the rows of low-latency dispatch {} are read before they have been received: call "
                "dispatch_finish first",
                comm_->rank(), tables.round);
  SHMOE_EXPECTS(
      tables.expand_x == expand_x,
      "rank {}: the rows of low-latency dispatch {} lie at offset {}, and not in this half, at {}: take the half "
      "whose expand_x was handed to the dispatch",
      comm_->rank(), tables.round, tables.expand_x, expand_x);
}

std::span<std::byte> LowLatencyBuffers::Half::received(const LowLatencyTables& tables) const {
  expect_received(tables);
  const std::uint64_t row_size = row_bytes(shape_.dtype, shape_.hidden, shape_.quant);
  return comm_->local<std::byte>(expand_x, static_cast<std::size_t>(tables.recv_rows) * row_size);
}

std::span<float> LowLatencyBuffers::Half::scales(const LowLatencyTables& tables) const {
  expect_received(tables);
  if (shape_.quant == Quant::none) return {};
  return comm_->local<float>(dynamic_scales, static_cast<std::size_t>(tables.recv_rows));
}

std::span<std::byte> LowLatencyBuffers::Half::answers(const LowLatencyTables& tables) const {
  expect_received(tables);
  const std::uint64_t row_size = row_bytes(shape_.dtype, shape_.hidden);
  return comm_->local<std::byte>(expert_out, static_cast<std::size_t>(tables.recv_rows) * row_size);
}

std::int64_t most_rows(const ExpertMap& experts, std::int32_t topk, std::int64_t most_tokens,
                       const SharedExperts& shared) {
  std::int64_t most = 0;
  for (Rank rank{0}; rank.value() < experts.ranks(); ++rank) {
    const auto own = static_cast<std::int64_t>(experts.experts_of(rank).size());
    // One expert may occur several times in a token.
    std::int64_t rows = own == 0 ? 0 : topk * most_tokens * experts.ranks();
    if (rank.value() < shared.ranks) {
      const std::int32_t copies = shared.ranks / shared.experts;
      rows += most_tokens * ((experts.ranks() + copies - 1) / copies);
    }
    most = std::max(most, rows);
  }
  return most;
}

}  // namespace shmoe::ops
