#pragma once
// a2e and e2a as they were published: windows at fixed distances, no barrier, roles for the last two cores.
//
//   base(r, m)   (m mod 2) * 800 MiB + 512 * r                   m: calls of both operators, this one included
//   data(r, m)   base(r, m) + 2 MiB                              both sizes may be smaller: PublishedSizes
//                a2e  | never written, 4 B | ids, i32 | scales, fp32 | x, bf16 |     e2a  | rows, bf16 |
//   flags        base(expert, m) + 32 * (k * ratio + index)      k: 1 ids, 2 scales, 3 x; nobody raises 4
//                base(attention, m)                              of e2a
//
// Rows of an attention rank on its expert rank: batch / ceil(A / E) in a2e, batch / (own number of ranks) in e2a. Where A is
// no multiple of E these differ, and e2a hands back the wrong rows.

#include <cstdint>
#include <span>
#include <string>

#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"

namespace shmoe::ops {

/// Offsets in a window, for messages and for comparison; flags lie in slots of ours.
class PublishedWindow {
 public:
  explicit PublishedWindow(const AfdShape& shape) : shape_(&shape) {}

  [[nodiscard]] Bytes base(Rank rank, std::uint64_t magic) const {
    return shape_->published.half * (magic & 1) + Bytes{512} * rank.index();
  }
  [[nodiscard]] Bytes data(Rank rank, std::uint64_t magic) const { return base(rank, magic) + shape_->published.flags; }
  /// Flag k of an attention rank, in the window of its expert rank.
  [[nodiscard]] Bytes flag(std::uint64_t k, Rank attention, std::uint64_t magic) const;
  static Bytes ids() { return Bytes{4}; }
  [[nodiscard]] Bytes scales(std::int64_t batch) const { return ids() + pairs(batch) * 4; }
  [[nodiscard]] Bytes x(std::int64_t batch) const { return ids() + pairs(batch) * 8; }
  [[nodiscard]] Bytes end(std::int64_t batch) const {
    return x(batch) + Bytes{shape_->row_bytes()} * static_cast<std::uint64_t>(batch);
  }

 private:
  [[nodiscard]] Bytes pairs(std::int64_t batch) const {
    return Bytes{static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(shape_->topk)};
  }

  const AfdShape* shape_;
};

/// Up to the end of the block of the last rank in the second half.
Bytes published_window_bytes(const AfdShape& shape);

/// Pieces of ceil(n / used); cores from `used` on get none, and the last ones may get none.
Slice published_slice(std::int64_t n, std::int64_t used, Core core);

/// Most ranks that an expert rank serves: what a2e divides a batch by.
std::int64_t published_ratio(const Assignment& ranks);

/// Why the published operators refuse this shape, or would do nothing for it and leave the peers waiting. Empty: they run.
std::string published_refusal(const AfdShape& shape, const runtime::Communicator& comm);
/// The same of a rank's batch.
/// Shapes:  active_mask [batch], or none
std::string published_refusal(std::int64_t batch, std::span<const std::uint8_t> active_mask);

/// Order:   none but that of the flags: whoever calls a2e again before its expert has answered overtakes it
void published_a2e_kernel(runtime::CoreContext& context, const A2eArgs& args, A2eTables& tables);
/// Order:   as published_a2e_kernel
void published_e2a_kernel(runtime::CoreContext& context, const E2aArgs& args);

}  // namespace shmoe::ops
