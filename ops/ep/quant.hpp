#pragma once
// How dispatch sends a row: as it is, or as int8 with one fp32 scale.
//
//   none   recv_x [capacity, H] of dtype
//   int8   recv_x [capacity, H] int8, recv_scales [capacity] fp32:  x[j] is about recv_x[row][j] * recv_scales[row]

#include <cstdint>

#include "shmem/types.hpp"

namespace shmoe::ops {

enum class Quant : std::uint8_t { none, int8 };

/// False of a number that was cast to one.
constexpr bool is_known(DType dtype) { return dtype <= DType::fp32; }
constexpr bool is_known(Quant quant) { return quant <= Quant::int8; }
constexpr const char* name_of(Quant quant) { return quant == Quant::none ? "none" : "int8"; }

/// Bytes of one row; rows lie without padding.
constexpr std::uint64_t row_bytes(DType dtype, std::int64_t hidden, Quant quant = Quant::none) {
  return (quant == Quant::int8 ? 1 : size_of(dtype).value()) * static_cast<std::uint64_t>(hidden);
}

}  // namespace shmoe::ops
