#pragma once
// The fastest an ordinary process moves rows: what the limits are made of. It shares no code with the copies and sums of
// the operators, which it judges.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shmoe::apps {

enum class CopyKind : std::uint8_t { memcpy, streaming, rep_movsb };
inline constexpr std::array kCopyKinds{CopyKind::memcpy, CopyKind::streaming, CopyKind::rep_movsb};
inline constexpr std::array kCopyNames{"memcpy", "streaming stores", "rep movsb"};

/// Streaming stores are ordered by finish_copies alone; where a CPU has no rep movsb that kind is memcpy.
///
/// Shapes:  any length, the same of both; any address
void copy_by(CopyKind kind, std::span<std::byte> to, std::span<const std::byte> from);

/// Order:   the copies of this thread before its later stores
void finish_copies();

using RowSpan = std::span<const std::byte>;

enum class ReadKind : std::uint8_t { row_by_row, side_by_side };
inline constexpr std::array kReadKinds{ReadKind::row_by_row, ReadKind::side_by_side};
inline constexpr std::array kReadNames{"row by row", "rows side by side"};

/// Exclusive or of all bytes, folded to 8: the cheapest thing to do that still needs every one of them. Which byte lands
/// where is up to the instruction set; both kinds give the same.
///
/// Shapes:  any number of rows; side_by_side goes through all of them at once, and they are as long as the first
std::uint64_t read_rows(ReadKind kind, std::span<const RowSpan> rows);

}  // namespace shmoe::apps
