#pragma once
// The symmetric buffers of layout -> notify -> dispatch -> experts -> combine, allocated through the communicator.
//
//   counts 0 | counts 1          [E] i32 each, by turns
//   recv_x | expert_out          [capacity, H] each; grow after notify, when the number of rows is known
//   recv_scales                  [capacity] fp32, with int8 rows

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/ep/notify.hpp"
#include "ops/ep/quant.hpp"
#include "runtime/communicator.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

class EpBuffers {
 public:
  /// Errors:  as Communicator::allocate
  static Result<EpBuffers> allocate(runtime::Communicator& comm, std::int32_t experts, DType dtype, std::int64_t hidden,
                                    Quant quant = Quant::none);

  /// Where the next layout counts. The two places take turns, so that a fast rank's next layout never overwrites counts
  /// that a slow rank still reads.
  Offset next_counts() {
    turn_ = 1 - turn_;
    return counts_[turn_];
  }

  /// Makes room for the rows of this step. All ranks decide alike, since total_recv_tokens is the same on all; after
  /// notify nobody reads the old rows any more.
  ///
  /// Order:   between notify and dispatch of a step
  /// Errors:  as Communicator::allocate; the buffers then hold no rows
  Result<void> reserve(const NotifyTables& notify);

  [[nodiscard]] Offset recv_x() const { return recv_x_; }
  [[nodiscard]] Offset recv_scales() const { return recv_scales_; }
  [[nodiscard]] Offset expert_out() const { return expert_out_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t hidden() const { return hidden_; }
  [[nodiscard]] Quant quant() const { return quant_; }

  /// This rank's first `rows` rows, [0, H] where there are none.
  [[nodiscard]] std::span<std::byte> received(std::int64_t rows) const { return rows_at(recv_x_, rows, quant_); }
  [[nodiscard]] std::span<std::byte> answers(std::int64_t rows) const {
    return rows_at(expert_out_, rows, Quant::none);
  }
  /// Of int8 rows; otherwise there are none.
  [[nodiscard]] std::span<float> scales(std::int64_t rows) const;

  /// Gives everything back to the heap. Every rank, after a barrier.
  /// Errors:  as Communicator::free
  Result<void> release();

 private:
  EpBuffers(runtime::Communicator& comm, DType dtype, std::int64_t hidden, Quant quant)
      : comm_(&comm), dtype_(dtype), hidden_(hidden), quant_(quant) {}
  [[nodiscard]] std::span<std::byte> rows_at(Offset at, std::int64_t rows, Quant quant) const;
  Result<void> allocate_rows(std::int64_t rows);
  Result<void> free_rows();

  runtime::Communicator* comm_;
  DType dtype_;
  std::int64_t hidden_;
  Quant quant_;
  Offset counts_[2];
  std::size_t turn_ = 1;
  Offset recv_x_;
  Offset expert_out_;
  Offset recv_scales_;
  std::int64_t capacity_ = 0;
};

}  // namespace shmoe::ops
