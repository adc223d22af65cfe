#pragma once
// Where the ranks meet: an address somebody gave, the rendezvous file of the job, or the published default.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/launch.hpp"
#include "bootstrap/secret.hpp"
#include "shmem/result.hpp"

namespace shmoe::bootstrap {

struct Address {
  std::array<std::uint8_t, 4> octets{};
  std::uint16_t port = 0;

  [[nodiscard]] bool is_loopback() const { return octets[0] == 127; }
  [[nodiscard]] std::string text() const;
  bool operator==(const Address&) const = default;
};

/// Exactly a.b.c.d:port, decimal, no leading zeros, port 1 to 65535, an address one host can own.
///
/// Errors:  invalid_argument names `source` (the variable or argument) and the value
Result<Address> parse_address(std::string_view text, std::string_view source);

enum class EndpointKind : std::uint8_t { alone, given_address, rendezvous_file, published_default };

struct Endpoint {
  EndpointKind kind = EndpointKind::alone;
  std::string source;          // which argument, variable or rule chose it
  Address address{};           // given_address, published_default
  Secret secret{};             // given_address, published_default
  std::filesystem::path file;  // rendezvous_file
};

/// The published default of the peer project.
inline constexpr Address kPublishedDefault{{127, 0, 0, 1}, 10067};

/// Argument, SHMOE_COMM_ID, CAM_COMM_ID, rendezvous file, and the published default only where there can be no
/// runtime folder. A given value that does not parse is an error, never a reason to take the next one.
///
/// Errors:  invalid_argument for a bad address, or one that is not loopback without SHMOE_SECRET; permission
Result<Endpoint> choose_endpoint(std::optional<std::string_view> argument, const Environment& environment,
                                 const Launch& launch, const std::filesystem::path& temporary = "/tmp");

}  // namespace shmoe::bootstrap
