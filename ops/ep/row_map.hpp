#pragma once
// Where the row of a (token, k) pair lies: what dispatch writes and combine reads.
//
//   e = topk_idx[t,k]      rank = owner(e)      row = put_offset[e*R + me] + send_token_idx[t,k]

#include <cstdint>
#include <optional>
#include <span>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "shmem/layout.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

struct RowPlace {
  Rank owner;
  std::int64_t row = 0;
};

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

 private:
  [[nodiscard]] std::optional<Error> shape_fault() const;
  [[nodiscard]] bool agrees(std::size_t pair) const;

  Rank me_;
  std::span<const std::int32_t> topk_idx_;
  const ExpertMap* experts_;
  const LayoutTables* layout_;
  const NotifyTables* notify_;
};

/// Rows of one symmetric buffer, and who says how many there are.
struct RowBuffer {
  const char* name;
  Offset at;
  std::int64_t capacity;
  DType dtype;
  std::int64_t hidden;
};

/// Errors:  capacity_exceeded with the rows needed and available, the same on all ranks; invalid_argument for a hidden
///          size below 1 or a buffer that reaches past the end of the block
std::optional<Error> row_buffer_fault(const RowBuffer& buffer, const shmem::BlockMap& map, const NotifyTables& notify,
                                      Rank rank);

/// Bytes of one row; rows lie without padding.
constexpr std::uint64_t row_bytes(DType dtype, std::int64_t hidden) {
  return size_of(dtype).value() * static_cast<std::uint64_t>(hidden);
}

}  // namespace shmoe::ops
