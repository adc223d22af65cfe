#pragma once
// Where the symmetric buffers of an operator may lie.

#include <cstdint>
#include <optional>

#include "ops/handshake.hpp"
#include "shmem/layout.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// A symmetric buffer of an operator, with a row, a count, a scale or a gradient in each place.
struct RowBuffer {
  const char* name;  // in messages
  Offset at;
  std::int64_t rows = 0;
  std::uint64_t row_bytes = 0;
};

/// Errors:  invalid_argument where it lies neither in the heap nor in the user data: it would cover flags
std::optional<Error> place_fault(const RowBuffer& buffer, const shmem::BlockMap& map, Rank rank);

}  // namespace shmoe::ops
