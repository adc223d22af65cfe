#pragma once
// 128 bits that only the ranks of one job know.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "shmem/result.hpp"

namespace shmoe::bootstrap {

struct Secret {
  std::array<std::byte, 16> bytes{};
};

/// From the kernel's random source.
///
/// Errors:  system: the kernel gives none
Result<Secret> random_secret();

/// A secret text of any length.
Secret hashed_secret(std::string_view text);

/// Takes the same time wherever the first difference is.
bool same(const Secret& a, const Secret& b);

std::string to_hex(const Secret& secret);
std::optional<Secret> secret_from_hex(std::string_view text);

}  // namespace shmoe::bootstrap
