#pragma once
// Where the buffers of an operator may lie.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/handshake.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// A symmetric buffer of an operator, with a row, a count, a scale or a gradient in each place.
struct RowBuffer {
  const char* name;  // in messages
  Offset at;
  std::int64_t rows = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t alignment = 1;  // of its offset
};

/// Errors:  invalid_argument where it begins at no multiple of its alignment, or lies neither in the heap nor in the
///          user data: it would cover flags; or over slots that the plan has in the user data, with the name of their
///          family
std::optional<Error> place_fault(const RowBuffer& buffer, const runtime::Communicator& comm);

/// Memory of this rank that a call reads or writes.
struct OwnMemory {
  const char* name;  // in messages
  std::span<const std::byte> bytes;
};
/// This rank's part of a buffer that place_fault has passed.
OwnMemory own_part(const RowBuffer& buffer, const runtime::Communicator& comm);

/// Errors:  invalid_argument where the two share bytes: one would be overwritten while the other is in use
std::optional<Error> overlap_fault(const OwnMemory& a, const OwnMemory& b, Rank rank);

}  // namespace shmoe::ops
