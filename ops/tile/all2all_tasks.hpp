#pragma once
// How an all-to-all over heads is cut into tasks, who works on which, and which signal slot belongs to a task.
//
//   [S, H*R, D] or [S*R, H, D] of a rank --> blocks of bs positions of S --> T = U*R tasks in a block
//   task t of a block: peer t mod R, u = t / R: head u mod H, columns u / H        U = ceil(D / bd) * H
//   slot of a task:    (buffer * R + source) * U + u, buffer = block mod B. The published guide writes t in place of u:
//                      then R > 1 runs past the slots that were allocated, and R > 2 also maps two tasks to one slot

#include <algorithm>
#include <cstdint>

#include "shmem/types.hpp"

namespace shmoe::ops {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct All2AllShape {
  std::int64_t rows = 0;      // S
  std::int64_t heads = 1;     // H
  std::int64_t dim = 1;       // D
  DType dtype = DType::bf16;  // rows are copied, never computed with
};

struct All2AllTiling {
  std::int64_t block_rows = 64;  // bs
  std::int64_t block_dim = 128;  // bd
  std::int32_t buffers = 2;      // B
};

/// How cores share the tasks: in each block from the first core on, or in one row over all blocks that lie in buffers at
/// the same time, so that few tasks in a block do not leave cores idle. Over all blocks of S, as the published guide has
/// it, would be wrong with fewer buffers than blocks: then different cores use one slot by turns, and 0 may mean that the
/// core before has not notified yet as well as that the buffer is free. And a core notifies at the end of its part of a
/// block: later, it would meet a slot again that it has not notified itself.
enum class Merge : std::uint8_t { none, blocks };

/// How far `work` equal pieces fill `cores`.
struct Occupancy {
  std::int64_t work = 0;
  std::int64_t cores = 1;

  [[nodiscard]] std::int64_t active() const { return std::min(work, cores); }
  [[nodiscard]] bool full() const { return work >= cores; }
  /// The published measure; it does not see that the last wave may be nearly empty.
  [[nodiscard]] double utilisation() const { return static_cast<double>(active()) / static_cast<double>(cores); }
  [[nodiscard]] double balance() const {
    if (work == 0) return 1;
    return static_cast<double>(work) / static_cast<double>(cores * ceil_div(work, cores));
  }
};

struct All2AllTask {
  std::int64_t peer = 0;  // steps from the own rank for a producer, the source rank for a consumer
  std::int64_t u = 0;
  std::int64_t head = 0;
  Slice columns;
};

class All2AllTasks {
 public:
  All2AllTasks(const All2AllShape& shape, const All2AllTiling& tiling, std::int32_t ranks)
      : shape_(shape), tiling_(tiling), ranks_(ranks) {}

  [[nodiscard]] const All2AllShape& shape() const { return shape_; }
  [[nodiscard]] const All2AllTiling& tiling() const { return tiling_; }
  [[nodiscard]] std::int32_t ranks() const { return ranks_; }

  [[nodiscard]] std::int64_t blocks() const { return ceil_div(shape_.rows, tiling_.block_rows); }
  /// U: of one peer in one block.
  [[nodiscard]] std::int64_t per_peer() const { return ceil_div(shape_.dim, tiling_.block_dim) * shape_.heads; }
  /// T: in one block.
  [[nodiscard]] std::int64_t per_block() const { return per_peer() * ranks_; }
  [[nodiscard]] std::int64_t buffer_of(std::int64_t block) const { return block % tiling_.buffers; }
  /// Positions of S in a block; the last one may be shorter.
  [[nodiscard]] std::int64_t rows_of(std::int64_t block) const {
    return std::min(tiling_.block_rows, shape_.rows - block * tiling_.block_rows);
  }
  [[nodiscard]] All2AllTask task(std::int64_t index) const {
    const std::int64_t u = index / ranks_;
    const std::int64_t first = u / shape_.heads * tiling_.block_dim;
    return {.peer = index % ranks_,
            .u = u,
            .head = u % shape_.heads,
            .columns = {first, std::min(first + tiling_.block_dim, shape_.dim)}};
  }
  /// The first task of a block that is a worker's; the others follow `workers` apart.
  [[nodiscard]] std::int64_t first_task(std::int64_t block, std::int64_t worker, std::int64_t workers,
                                        Merge merge) const {
    if (merge == Merge::none) return worker;
    const std::int64_t behind = (worker - buffer_of(block) * per_block()) % workers;
    return behind < 0 ? behind + workers : behind;
  }

  // Elements from the start of a tensor.

  /// [S*R, H, D]
  [[nodiscard]] std::int64_t in_long(std::int64_t rank, std::int64_t row, std::int64_t head) const {
    return ((rank * shape_.rows + row) * shape_.heads + head) * shape_.dim;
  }
  /// [S, H*R, D], and with the rows of one block a buffer
  [[nodiscard]] std::int64_t in_wide(std::int64_t rank, std::int64_t row, std::int64_t head) const {
    return ((row * ranks_ + rank) * shape_.heads + head) * shape_.dim;
  }
  /// [B][bs, H*R, D]
  [[nodiscard]] std::int64_t in_buffer(std::int64_t buffer, std::int64_t rank, std::int64_t row,
                                       std::int64_t head) const {
    return in_wide(rank, buffer * tiling_.block_rows + row, head);
  }
  /// Of x or y.
  [[nodiscard]] Bytes tensor_bytes() const { return elements(shape_.rows); }
  /// Of all buffers.
  [[nodiscard]] Bytes buffer_bytes() const { return elements(tiling_.block_rows * tiling_.buffers); }

 private:
  [[nodiscard]] Bytes elements(std::int64_t rows) const {
    return size_of(shape_.dtype) * static_cast<std::uint64_t>(rows * ranks_ * shape_.heads * shape_.dim);
  }

  All2AllShape shape_;
  All2AllTiling tiling_;
  std::int32_t ranks_;
};

/// The one whose waves are fuller; none where both are alike.
inline Merge best_merge(const All2AllTasks& tasks, std::int64_t workers) {
  const Occupancy apart{tasks.per_block(), workers};
  const Occupancy merged{tasks.per_block() * std::min<std::int64_t>(tasks.blocks(), tasks.tiling().buffers), workers};
  return merged.balance() > apart.balance() ? Merge::blocks : Merge::none;
}

/// Which part a program of a launch plays. An even number of programs are pairs, even producers and odd consumers; an odd
/// number all do both, block by block: all of their part of a block is sent before they wait for what others send in it.
class All2AllCrew {
 public:
  explicit All2AllCrew(std::int32_t programs) : programs_(programs) {}

  [[nodiscard]] std::int32_t programs() const { return programs_; }
  [[nodiscard]] bool pairs() const { return programs_ % 2 == 0; }
  /// Of each role.
  [[nodiscard]] std::int32_t workers() const { return pairs() ? programs_ / 2 : programs_; }
  [[nodiscard]] std::int32_t worker(Core program) const { return pairs() ? program.value() / 2 : program.value(); }
  [[nodiscard]] bool produces(Core program) const { return !pairs() || program.value() % 2 == 0; }
  [[nodiscard]] bool consumes(Core program) const { return !pairs() || program.value() % 2 == 1; }
  [[nodiscard]] Core producer(std::int64_t worker) const { return Core{pairs() ? 2 * worker : worker}; }
  [[nodiscard]] Core consumer(std::int64_t worker) const { return Core{pairs() ? 2 * worker + 1 : worker}; }

 private:
  std::int32_t programs_;
};

}  // namespace shmoe::ops
