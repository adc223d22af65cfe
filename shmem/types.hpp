#pragma once
// The vocabulary of the project: numbers that must not be mixed up are different types.

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <fmt/format.h>

namespace shmoe {

/// A number with a name. Two Strong types never convert into each other, so a peer is never used as a core.
template <class Tag, std::integral Rep>
class Strong {
 public:
  using rep = Rep;
  constexpr Strong() = default;
  constexpr explicit Strong(Rep value) : value_(value) {}
  template <std::integral Other>
  constexpr explicit Strong(Other value) : value_(static_cast<Rep>(value)) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  /// The value as a subscript.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  constexpr auto operator<=>(const Strong&) const = default;
  constexpr Strong& operator++() {
    ++value_;
    return *this;
  }

 private:
  Rep value_{};
};

using Rank = Strong<struct RankTag, std::int32_t>;
using Core = Strong<struct CoreTag, std::int32_t>;
using Expert = Strong<struct ExpertTag, std::int32_t>;
/// A flag word, by its dense number in a SlotPlan.
using Slot = Strong<struct SlotTag, std::uint32_t>;
/// The published name is "magic": the number of the kernel launch a flag belongs to.
using Round = Strong<struct RoundTag, std::uint64_t>;
/// Bytes from the start of a communicator's block; the same on every rank.
using Offset = Strong<struct OffsetTag, std::uint64_t>;
using Bytes = Strong<struct BytesTag, std::uint64_t>;

constexpr Offset operator+(Offset at, Bytes n) { return Offset{at.value() + n.value()}; }
constexpr Bytes operator-(Offset to, Offset from) { return Bytes{to.value() - from.value()}; }
constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.value() + b.value()}; }
constexpr Bytes operator*(Bytes a, std::uint64_t n) { return Bytes{a.value() * n}; }

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t granule) {
  return (value + granule - 1) / granule * granule;
}

/// Half-open run of items [first, last).
struct Slice {
  std::int64_t first = 0;
  std::int64_t last = 0;
  [[nodiscard]] constexpr std::int64_t size() const { return last - first; }
};

/// The split used everywhere: n items over `workers`; the first n % workers get one more.
constexpr Slice split(std::int64_t n, std::int64_t workers, std::int64_t worker) {
  const std::int64_t quotient = n / workers;
  const std::int64_t remainder = n % workers;
  const std::int64_t first = quotient * worker + (worker < remainder ? worker : remainder);
  return {first, first + quotient + (worker < remainder ? 1 : 0)};
}

/// Element types of token rows.
enum class DType : std::uint8_t { bf16, fp16, fp32 };

constexpr Bytes size_of(DType type) { return Bytes{type == DType::fp32 ? 4 : 2}; }
constexpr const char* name_of(DType type) {
  return type == DType::bf16 ? "bf16" : type == DType::fp16 ? "fp16" : "fp32";
}

}  // namespace shmoe

template <class Tag, class Rep>
struct std::hash<shmoe::Strong<Tag, Rep>> {
  std::size_t operator()(shmoe::Strong<Tag, Rep> s) const noexcept { return std::hash<Rep>{}(s.value()); }
};

template <class Tag, class Rep>
struct fmt::formatter<shmoe::Strong<Tag, Rep>> : fmt::formatter<Rep> {
  auto format(shmoe::Strong<Tag, Rep> s, fmt::format_context& ctx) const {
    return fmt::formatter<Rep>::format(s.value(), ctx);
  }
};
