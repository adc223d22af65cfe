#pragma once
// What every contender works on: the same routing, tokens and expert outputs, and what must come of them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/bench/row_buffer.hpp"
#include "apps/shmoe/batch.hpp"
#include "ops/ep/expert_map.hpp"
#include "ops/ep/quant.hpp"
#include "ops/ep/reference.hpp"
#include "ops/ep/routing.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::apps {

struct EpShape {
  DType dtype = DType::bf16;
  ops::Quant quant = ops::Quant::none;  // of dispatch
  std::int64_t tokens = 128;            // of a rank
  std::int64_t hidden = 7168;
  std::int32_t topk = 8;
  std::int32_t experts = 256;
  std::uint64_t seed = 1;
};

/// Of one rank. The routing is drawn from measured load and stays the same over the blocks; a token is known by whoever
/// knows its rank and number, and so is the answer of an expert to it.
class Workload {
 public:
  /// Collective. Errors of memory are of this rank alone.
  ///
  /// Errors:  as Communicator::allocate
  static Result<std::unique_ptr<Workload>> create(runtime::Communicator& comm, const EpShape& shape);

  [[nodiscard]] const EpShape& shape() const { return shape_; }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] Rank rank() const { return comm_->rank(); }
  [[nodiscard]] std::int32_t ranks() const { return comm_->ranks(); }
  [[nodiscard]] const ops::ExpertMap& experts() const { return experts_; }
  [[nodiscard]] const ops::Routing& routing() const { return routing_; }
  [[nodiscard]] std::size_t tokens() const { return static_cast<std::size_t>(shape_.tokens); }
  [[nodiscard]] std::size_t pairs() const { return routing_.topk_idx().size(); }
  /// This rank's tokens [T, H].
  [[nodiscard]] std::span<const std::byte> x() const { return x_.bytes(); }
  [[nodiscard]] std::span<const std::byte> token(std::size_t t) const { return x_.bytes(t * row_bytes_, row_bytes_); }

  /// Rows that this rank receives, and the most that any rank does.
  [[nodiscard]] std::size_t rows() const { return answer_.rows[rank().index()].size(); }
  [[nodiscard]] std::size_t most_rows() const { return static_cast<std::size_t>(answer_.total_recv_tokens); }
  /// Of all ranks together.
  [[nodiscard]] std::int64_t all_pairs() const { return static_cast<std::int64_t>(pairs()) * ranks(); }
  /// On which rank the row of a pair of this rank lies, and where there.
  [[nodiscard]] Rank owner_of(std::size_t pair) const;
  [[nodiscard]] std::int64_t row_of(std::size_t pair) const { return answer_.row_of[rank().index()][pair]; }

  /// What the experts of this rank answer to its rows.
  void fill_answers(std::span<std::byte> answers) const;

  /// Whether `rows`, and the `scales` of int8 rows, are the received ones, expert-major, to the bit.
  [[nodiscard]] bool are_received(std::span<const std::byte> rows, std::span<const float> scales) const;
  /// Whether `tokens` are the combined ones, to the bit.
  [[nodiscard]] bool are_combined(std::span<const std::byte> tokens) const;

 private:
  Workload(runtime::Communicator& comm, const EpShape& shape, Offset tokens_at);
  void combine_by_reference();
  [[nodiscard]] std::span<const std::byte> token_of(const ops::reference::Origin& origin) const;
  [[nodiscard]] bool are_quantised(std::span<const std::byte> rows, std::span<const float> scales) const;

  runtime::Communicator* comm_;
  EpShape shape_;
  Offset tokens_at_;  // symmetric [T, H]: a copy of x for the peers to compare with
  std::size_t row_bytes_;
  ops::ExpertMap experts_;
  ops::reference::Problem problem_;
  ops::reference::Answer answer_;
  ops::Routing routing_;
  RowBuffer x_;
  std::vector<std::byte> combined_;
};

}  // namespace shmoe::apps
