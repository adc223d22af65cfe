#pragma once
// The symmetric buffers of dispatch -> experts -> combine with few tokens, twice: calls take turns.
//
//   half 0   expand_x | expert_out | dynamic_scales        dispatch n
//   half 1   expand_x | expert_out | dynamic_scales        dispatch n + 1, also while n is in flight

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/ep/quant.hpp"
#include "ops/low_latency/tables.hpp"
#include "runtime/communicator.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

class LowLatencyBuffers {
 public:
  struct Shape {
    std::int64_t capacity = 0;  // rows of each half
    DType dtype = DType::bf16;
    std::int64_t hidden = 0;
    Quant quant = Quant::none;
  };

  /// One of the two. It refers to the buffers.
  class Half {
   public:
    Offset expand_x;
    Offset expert_out;
    Offset dynamic_scales;

    /// This rank's rows, [0, H] where nothing came. In each function: the rows of these tables have been received into this
    /// half, or the contract is broken: rows must not be read before dispatch_finish.
    [[nodiscard]] std::span<std::byte> received(const LowLatencyTables& tables) const;
    /// Of int8 rows; otherwise there are none.
    [[nodiscard]] std::span<float> scales(const LowLatencyTables& tables) const;
    /// Where the answers go, in the order of the rows.
    [[nodiscard]] std::span<std::byte> answers(const LowLatencyTables& tables) const;

   private:
    friend class LowLatencyBuffers;
    void expect_received(const LowLatencyTables& tables) const;
    runtime::Communicator* comm_ = nullptr;
    Shape shape_;
  };

  /// Every rank with the same shape; most_rows says how many rows never overflow.
  ///
  /// Errors:  as Communicator::allocate
  static Result<LowLatencyBuffers> allocate(runtime::Communicator& comm, const Shape& shape);

  /// Of the next dispatch.
  const Half& next() {
    turn_ = 1 - turn_;
    return halves_[turn_];
  }
  [[nodiscard]] std::int64_t capacity() const { return shape_.capacity; }

  /// Gives everything back to the heap. Every rank, after a barrier.
  /// Errors:  as Communicator::free
  Result<void> release();

 private:
  LowLatencyBuffers(runtime::Communicator& comm, const Shape& shape) : comm_(&comm), shape_(shape) {}

  runtime::Communicator* comm_;
  Shape shape_;
  Half halves_[2];
  std::size_t turn_ = 1;
};

/// The most rows that any rank can receive when no rank has more than `most_tokens`: all pairs of all ranks, since one
/// expert may occur several times in a token, and those for its shared expert.
std::int64_t most_rows(const ExpertMap& experts, std::int32_t topk, std::int64_t most_tokens,
                       const SharedExperts& shared = {});

}  // namespace shmoe::ops
