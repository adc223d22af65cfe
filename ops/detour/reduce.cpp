#include "ops/detour/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "shmem/number.hpp"
#include "shmem/result.hpp"

namespace shmoe::ops {
namespace {

using ReducedRow = std::span<const std::byte>;

/// Elements that are reduced together: they stay in the nearest cache, and the compiler knows how many they are.
constexpr std::size_t kBlock = 512;

template <class T>
T load_at(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof value, sizeof value);
  return value;
}

// How an element is read, kept while it is reduced, and written.

struct Fp16Element {
  using Stored = std::uint16_t;
  using Kept = float;
  static float keep(std::uint16_t bits) { return shmem::fp16_to_float(bits); }
  static std::uint16_t store(float value) { return shmem::float_to_fp16(value); }
};
struct Bf16Element {
  using Stored = std::uint16_t;
  using Kept = float;
  static float keep(std::uint16_t bits) { return shmem::bf16_to_float(bits); }
  static std::uint16_t store(float value) { return shmem::float_to_bf16(value); }
};
struct Fp32Element {
  using Stored = float;
  using Kept = float;
  static float keep(float value) { return value; }
  static float store(float value) { return value; }
};
struct Int32Element {
  using Stored = std::int32_t;
  using Kept = std::int32_t;
  static std::int32_t keep(std::int32_t value) { return value; }
  static std::int32_t store(std::int32_t value) { return value; }
};

struct Sum {
  static float of(float a, float b) { return a + b; }
  static std::int32_t of(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
};
struct Largest {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};
struct Smallest {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};

template <class Type, class Op>
void reduce_block(std::span<const ReducedRow> rows, std::size_t first, std::size_t count, std::byte* out) {
  using Stored = typename Type::Stored;
  std::array<typename Type::Kept, kBlock> kept;
  const auto pass = [&](auto n) {
    const std::byte* own = rows[0].data() + first * sizeof(Stored);
    for (std::size_t i = 0; i < n; ++i) kept[i] = Type::keep(load_at<Stored>(own, i));
    for (const ReducedRow& row : rows.subspan(1)) {
      const std::byte* from = row.data() + first * sizeof(Stored);
      for (std::size_t i = 0; i < n; ++i) kept[i] = Op::of(kept[i], Type::keep(load_at<Stored>(from, i)));
    }
    for (std::size_t i = 0; i < n; ++i) {
      const Stored value = Type::store(kept[i]);
      std::memcpy(out + (first + i) * sizeof value, &value, sizeof value);
    }
  };
  if (count == kBlock) return pass(std::integral_constant<std::size_t, kBlock>{});
  pass(count);
}

template <class Type, class Op>
void reduce_as(std::span<const ReducedRow> rows, std::span<std::byte> out) {
  const std::size_t elements = out.size() / sizeof(typename Type::Stored);
  for (std::size_t first = 0; first < elements; first += kBlock) {
    reduce_block<Type, Op>(rows, first, std::min(kBlock, elements - first), out.data());
  }
}

template <class Type>
void reduce_by(Reduction reduction, std::span<const ReducedRow> rows, std::span<std::byte> out) {
  switch (reduction) {
    case Reduction::sum: return reduce_as<Type, Sum>(rows, out);
    case Reduction::max: return reduce_as<Type, Largest>(rows, out);
    case Reduction::min: return reduce_as<Type, Smallest>(rows, out);
  }
}

}  // namespace

void reduce_rows(Element type, Reduction reduction, std::span<const ReducedRow> rows, std::span<std::byte> out) {
  SHMOE_EXPECTS(!rows.empty(), "no rows to reduce");
  SHMOE_EXPECTS(out.size() % static_cast<std::size_t>(bytes_of_element(type)) == 0, "{} bytes are no whole {} elements",
                out.size(), name_of(type));
  for (const ReducedRow& row : rows) {
    SHMOE_EXPECTS(row.size() == out.size(), "a row of {} bytes is reduced to {}", row.size(), out.size());
  }
  switch (type) {
    case Element::fp16: return reduce_by<Fp16Element>(reduction, rows, out);
    case Element::bf16: return reduce_by<Bf16Element>(reduction, rows, out);
    case Element::fp32: return reduce_by<Fp32Element>(reduction, rows, out);
    case Element::int32: return reduce_by<Int32Element>(reduction, rows, out);
  }
}

}  // namespace shmoe::ops
