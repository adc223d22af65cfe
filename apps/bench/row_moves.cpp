#include "apps/bench/row_moves.hpp"

#include <algorithm>
#include <cstring>

#include "shmem/fence.hpp"

// Compiled once for each instruction set.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/bench/row_moves.cpp"  // NOLINT(bugprone-suspicious-include)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shmoe::apps::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Block = hn::ScalableTag<std::uint8_t>;
using BlockVec = hn::Vec<Block>;

/// To an address that is a whole number of vectors.
void stream_aligned(std::byte* to, const std::byte* from, std::size_t bytes) {
  const Block block;
  const std::size_t lane = hn::Lanes(block);
  auto* out = reinterpret_cast<std::uint8_t*>(to);
  const auto* in = reinterpret_cast<const std::uint8_t*>(from);
  std::size_t at = 0;
  for (; at + 4 * lane <= bytes; at += 4 * lane) {
    const BlockVec a = hn::LoadU(block, in + at);
    const BlockVec b = hn::LoadU(block, in + at + lane);
    const BlockVec c = hn::LoadU(block, in + at + 2 * lane);
    const BlockVec d = hn::LoadU(block, in + at + 3 * lane);
    hn::Stream(a, block, out + at);
    hn::Stream(b, block, out + at + lane);
    hn::Stream(c, block, out + at + 2 * lane);
    hn::Stream(d, block, out + at + 3 * lane);
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t lane = hn::Lanes(Block());
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % lane;
  const std::size_t head = past == 0 ? 0 : std::min(bytes, lane - past);
  std::memcpy(to, from, head);
  stream_aligned(to + head, from + head, bytes - head);
}

std::uint64_t folded(BlockVec vector) {
  HWY_ALIGN std::uint8_t lanes[HWY_MAX_BYTES];
  hn::Store(vector, Block(), lanes);
  std::uint64_t fold = 0;
  for (std::size_t i = 0; i < hn::Lanes(Block()); ++i) fold ^= std::uint64_t{lanes[i]} << (8 * (i % 8));
  return fold;
}

/// Bytes of rows from `at`, a multiple of 8, on: eight at a time, then each at its own place modulo 8.
std::uint64_t tails(std::span<const RowSpan> rows, std::size_t at) {
  std::uint64_t fold = 0;
  for (const RowSpan row : rows) {
    std::size_t i = at;
    for (; i + sizeof fold <= row.size(); i += sizeof fold) {
      std::uint64_t word = 0;
      std::memcpy(&word, row.data() + i, sizeof word);
      fold ^= word;
    }
    for (; i < row.size(); ++i) fold ^= std::to_integer<std::uint64_t>(row[i]) << (8 * (i % 8));
  }
  return fold;
}

/// Four vectors of each row at a time, before the next four: with one row that is row by row.
std::uint64_t read_side_by_side(std::span<const RowSpan> rows) {
  if (rows.empty()) return 0;
  const Block block;
  const std::size_t lane = hn::Lanes(block);
  const std::size_t bytes = rows.front().size();
  BlockVec a = hn::Zero(block);
  BlockVec b = a;
  BlockVec c = a;
  BlockVec d = a;
  std::size_t at = 0;
  for (; at + 4 * lane <= bytes; at += 4 * lane) {
    for (const RowSpan row : rows) {
      const auto* in = reinterpret_cast<const std::uint8_t*>(row.data()) + at;
      a = hn::Xor(a, hn::LoadU(block, in));
      b = hn::Xor(b, hn::LoadU(block, in + lane));
      c = hn::Xor(c, hn::LoadU(block, in + 2 * lane));
      d = hn::Xor(d, hn::LoadU(block, in + 3 * lane));
    }
  }
  return folded(hn::Xor(hn::Xor(a, b), hn::Xor(c, d))) ^ tails(rows, at);
}

}  // namespace shmoe::apps::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace shmoe::apps {
namespace detail {

HWY_EXPORT(stream_copy);
HWY_EXPORT(read_side_by_side);

void rep_movsb(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace detail

void copy_by(CopyKind kind, std::span<std::byte> to, std::span<const std::byte> from) {
  if (from.empty()) return;
  switch (kind) {
    case CopyKind::memcpy: std::memcpy(to.data(), from.data(), from.size()); return;
    case CopyKind::streaming: HWY_DYNAMIC_DISPATCH(detail::stream_copy)(to.data(), from.data(), from.size()); return;
    case CopyKind::rep_movsb: detail::rep_movsb(to.data(), from.data(), from.size()); return;
  }
}

void finish_copies() { shmem::store_fence(); }

std::uint64_t read_rows(ReadKind kind, std::span<const RowSpan> rows) {
  if (kind == ReadKind::side_by_side) return HWY_DYNAMIC_DISPATCH(detail::read_side_by_side)(rows);
  std::uint64_t fold = 0;
  for (const RowSpan& row : rows) fold ^= HWY_DYNAMIC_DISPATCH(detail::read_side_by_side)({&row, 1});
  return fold;
}

}  // namespace shmoe::apps

#endif  // HWY_ONCE
