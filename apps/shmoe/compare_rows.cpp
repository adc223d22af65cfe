#include "apps/shmoe/compare_rows.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ops/ep/reference.hpp"

namespace shmoe::apps {

std::optional<std::string> row_difference(DType dtype, std::span<const std::byte> found,
                                          std::span<const std::byte> expected) {
  if (std::memcmp(found.data(), expected.data(), expected.size()) == 0) return std::nullopt;
  const auto columns = static_cast<std::int64_t>(expected.size() / size_of(dtype).value());
  for (std::int64_t column = 0; column < columns; ++column) {
    const float here = ops::reference::load(dtype, found, column);
    const float there = ops::reference::load(dtype, expected, column);
    if (std::isnan(here) && std::isnan(there)) continue;
    if (std::bit_cast<std::uint32_t>(here) != std::bit_cast<std::uint32_t>(there)) {
      return fmt::format("has {} in column {}, not {}", here, column, there);
    }
  }
  return std::nullopt;
}

Error wrong_result_of(Rank rank, std::int64_t step, std::string_view what) {
  return Error{
      .code = Errc::mismatch,
      .context = fmt::format(
          "wrong result on rank {} in step {}: {}; in profile safe and without a plan of faults it is a bug of "
          "shmoe: report it with this command line",
          rank, step, what),
      .where = rank};
}

}  // namespace shmoe::apps
