#pragma once
// What dispatch and combine have in common: where the row of a (token, k) pair lies, and what all ranks must agree on
// before one is written or read.
//
//   e = topk_idx[t,k]      rank = owner(e)      row = put_offset[e*R + me] + send_token_idx[t,k]

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/place.hpp"
#include "ops/ep/quant.hpp"
#include "ops/handshake.hpp"
#include "shmem/layout.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

struct RowPlace {
  Rank owner;
  std::int64_t row = 0;
};

/// Where the pairs of a rank have their rows.
/// Shapes:  topk_idx [T, K]
/// Units:   rows; 64-bit
class RowMap {
 public:
  RowMap(Rank me, std::span<const std::int32_t> topk_idx, const ExpertMap& experts, const LayoutTables& layout,
         const NotifyTables& notify)
      : me_(me), topk_idx_(topk_idx), experts_(&experts), layout_(&layout), notify_(&notify) {}

  /// Nothing where the pair is dropped.
  [[nodiscard]] std::optional<RowPlace> of(std::int64_t pair) const {
    const std::int32_t id = topk_idx_[static_cast<std::size_t>(pair)];
    if (id < 0) return std::nullopt;
    const Expert expert{id};
    const std::int64_t first =
        notify_->put_offset[expert.index() * static_cast<std::size_t>(experts_->ranks()) + me_.index()];
    return RowPlace{experts_->owner(expert), first + layout_->send_token_idx[static_cast<std::size_t>(pair)]};
  }

  /// Why these tables are not the ones of this routing: then a row could land in another rank's part.
  ///
  /// Errors:  invalid_argument naming rank, token, k and value
  [[nodiscard]] std::optional<Error> fault() const;

  [[nodiscard]] Rank me() const { return me_; }
  [[nodiscard]] const ExpertMap& experts() const { return *experts_; }
  [[nodiscard]] const LayoutTables& layout() const { return *layout_; }
  [[nodiscard]] const NotifyTables& notify() const { return *notify_; }

 private:
  [[nodiscard]] std::optional<Error> shape_fault() const;
  /// Whether layout and notify counted the pairs [first, last).
  [[nodiscard]] bool counted(std::size_t first, std::size_t last) const;

  Rank me_;
  std::span<const std::int32_t> topk_idx_;
  const ExpertMap* experts_;
  const LayoutTables* layout_;
  const NotifyTables* notify_;
};

/// Nothing where a list of the costs of waiting is absent or has an entry for each rank.
/// Shapes:  wait_cost [R], or none
/// Errors:  invalid_argument with both lengths
std::optional<Error> cost_fault(std::span<const std::int64_t> wait_cost, std::int32_t ranks, Rank rank);

/// What a core takes to add up the rows of a token's pairs: rows where the fabric gives no views, and lists of `terms`.
Bytes row_sum_share(DType dtype, std::int64_t hidden, std::int64_t pairs, std::int64_t terms);

/// So that no product of sizes can wrap.
inline constexpr std::int64_t kMostHidden = std::int64_t{1} << 28;

/// The arguments that dispatch and combine share.
struct RowCall {
  const char* op;
  const char* buffer;  // its name in messages
  Offset at;           // symmetric [capacity, hidden] of dtype, or int8
  std::int64_t capacity = 0;
  DType dtype = DType::bf16;
  Quant quant = Quant::none;
  std::int64_t hidden = 0;
  std::span<const std::byte> tokens;  // x: read by dispatch, written by combine
};
RowBuffer rows_of(const RowCall& call);

/// Args: DispatchArgs or CombineArgs.
template <class Args>
RowMap rows_of(const Args& args, Rank me) {
  return {me, args.topk_idx, args.experts, args.layout, args.notify};
}

template <class Args>
RowCall row_call(const char* op, const char* buffer, Offset at, const Args& args, Quant quant = Quant::none) {
  return {.op = op,
          .buffer = buffer,
          .at = at,
          .capacity = args.capacity,
          .dtype = args.dtype,
          .quant = quant,
          .hidden = args.hidden,
          .tokens = args.x};
}

/// The card with everything the ranks must agree on, and the fault of this rank's arguments.
///
/// Errors:  capacity_exceeded with the rows needed and available, the same on all ranks; invalid_argument for shapes,
///          ids, tables of another communicator, the place of a buffer, or x in it
Handshake row_handshake(const RowCall& call, const RowMap& rows, const runtime::Communicator& comm);

}  // namespace shmoe::ops
