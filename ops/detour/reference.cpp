#include "ops/detour/reference.hpp"

#include <cstring>
#include <type_traits>

#include "shmem/number.hpp"

namespace shmoe::ops {
namespace {

using Tensor = std::vector<std::byte>;

template <class T>
T element_of(const Tensor& x, std::int64_t index) {
  T value;
  std::memcpy(&value, x.data() + static_cast<std::size_t>(index) * sizeof value, sizeof value);
  return value;
}

template <class T>
void append(Tensor& y, T value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  y.insert(y.end(), first, first + sizeof value);
}

template <class T>
T combined(Reduction reduction, T a, T b) {
  if (reduction == Reduction::max) return b > a ? b : a;
  if (reduction == Reduction::min) return b < a ? b : a;
  if constexpr (std::is_same_v<T, float>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::int64_t>(a) + b);
  }
}

float widened(Element type, std::uint16_t bits) {
  return type == Element::fp16 ? shmem::fp16_to_float(bits) : shmem::bf16_to_float(bits);
}

/// One element, from all positions around from `position`.
void reduce_element(Element type, Reduction reduction, std::span<const Tensor> x, std::size_t position,
                    std::int64_t index, Tensor& y) {
  const auto around = [&](std::size_t step) -> const Tensor& { return x[(position + step) % x.size()]; };
  const auto fold = [&](auto read) {
    auto kept = read(around(0));
    for (std::size_t step = 1; step < x.size(); ++step) kept = combined(reduction, kept, read(around(step)));
    return kept;
  };
  if (type == Element::int32) {
    return append(y, fold([&](const Tensor& t) { return element_of<std::int32_t>(t, index); }));
  }
  if (type == Element::fp32) return append(y, fold([&](const Tensor& t) { return element_of<float>(t, index); }));
  const float sum = fold([&](const Tensor& t) { return widened(type, element_of<std::uint16_t>(t, index)); });
  append(y, type == Element::fp16 ? shmem::float_to_fp16(sum) : shmem::float_to_bf16(sum));
}

std::int64_t elements_of(Element type, std::span<const Tensor> x) {
  return static_cast<std::int64_t>(x.front().size()) / bytes_of_element(type);
}

}  // namespace

std::vector<Tensor> all_to_all_reference(Element type, std::span<const Tensor> x) {
  const std::int64_t elements = elements_of(type, x);
  const auto positions = static_cast<std::int64_t>(x.size());
  std::vector<Tensor> y(x.size());
  for (std::int64_t target = 0; target < positions; ++target) {
    const Slice chunk = split(elements, positions, target);
    for (const Tensor& source : x) {
      const std::byte* first = source.data() + chunk.first * bytes_of_element(type);
      Tensor& to = y[static_cast<std::size_t>(target)];
      to.insert(to.end(), first, first + chunk.size() * bytes_of_element(type));
    }
  }
  return y;
}

std::vector<Tensor> reduce_scatter_reference(Element type, Reduction reduction, std::span<const Tensor> x) {
  std::vector<Tensor> y(x.size());
  for (std::size_t position = 0; position < x.size(); ++position) {
    const Slice chunk =
        split(elements_of(type, x), static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(position));
    for (std::int64_t index = chunk.first; index < chunk.last; ++index) {
      reduce_element(type, reduction, x, position, index, y[position]);
    }
  }
  return y;
}

}  // namespace shmoe::ops
