#include "apps/shmoe/payload.hpp"

#include <algorithm>

#include "apps/shmoe/counter_random.hpp"
#include "shmem/number.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {
namespace {

struct Bf16 {
  using Storage = std::uint16_t;
  static float load(Storage bits) { return shmem::bf16_to_float(bits); }
  static Storage store(float value) { return shmem::float_to_bf16(value); }
};
struct Fp16 {
  using Storage = std::uint16_t;
  static float load(Storage bits) { return shmem::fp16_to_float(bits); }
  static Storage store(float value) { return shmem::float_to_fp16(value); }
};
struct Fp32 {
  using Storage = float;
  static float load(Storage value) { return value; }
  static Storage store(float value) { return value; }
};

/// Calls body with the number format of a dtype.
template <class Body>
void with_format(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::bf16: return body(Bf16{});
    case DType::fp16: return body(Fp16{});
    case DType::fp32: return body(Fp32{});
  }
}

template <class Storage>
std::span<Storage> elements(std::span<std::byte> row) {
  return {reinterpret_cast<Storage*>(row.data()), row.size() / sizeof(Storage)};
}
template <class Storage>
std::span<const Storage> elements(std::span<const std::byte> row) {
  return {reinterpret_cast<const Storage*>(row.data()), row.size() / sizeof(Storage)};
}

}  // namespace

void fill_token(const TokenKey& key, DType dtype, std::span<std::byte> row) {
  const std::uint64_t base =
      random_at({key.seed, static_cast<std::uint64_t>(key.step), static_cast<std::uint64_t>(key.rank.value()),
                 static_cast<std::uint64_t>(key.token)});
  with_format(dtype, [&]<class Format>(Format) {
    const auto columns = elements<typename Format::Storage>(row);
    for (std::size_t first = 0; first < columns.size(); first += 8) {
      std::uint64_t random = shmem::scattered(base + first);
      const std::size_t last = std::min(first + 8, columns.size());
      for (std::size_t j = first; j < last; ++j, random >>= 8) {
        columns[j] = Format::store((static_cast<float>(random & 0xFFU) - 128.0F) / 64.0F);
      }
    }
  });
}

void run_expert(Expert expert, DType dtype, std::span<const std::byte> x, std::span<std::byte> y) {
  SHMOE_EXPECTS(x.size() == y.size(), "rows of {} and {} bytes", x.size(), y.size());
  with_format(dtype, [&]<class Format>(Format) {
    const auto in = elements<typename Format::Storage>(x);
    const auto out = elements<typename Format::Storage>(y);
    const float factor = 1.0F + static_cast<float>(expert.value() % 16) / 16.0F;
    const std::size_t shift = in.empty() ? 0 : expert.index() % in.size();
    const std::size_t unwrapped = in.size() - shift;
    for (std::size_t j = 0; j < unwrapped; ++j) out[j] = Format::store(Format::load(in[j + shift]) * factor);
    for (std::size_t j = unwrapped; j < in.size(); ++j)
      out[j] = Format::store(Format::load(in[j - unwrapped]) * factor);
  });
}

}  // namespace shmoe::apps
