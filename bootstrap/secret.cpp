#include "bootstrap/secret.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid.hpp>
#include <sys/random.h>

namespace shmoe::bootstrap {

Result<Secret> random_secret() {
  Secret secret;
  for (;;) {
    const ssize_t got = ::getrandom(secret.bytes.data(), secret.bytes.size(), 0);
    if (got == static_cast<ssize_t>(secret.bytes.size())) return secret;
    if (got < 0 && errno != EINTR) {
      return Error{
          Errc::system, "cannot draw a random secret: allow getrandom in the filter of system calls", {}, errno};
    }
  }
}

Secret hashed_secret(std::string_view text) {
  boost::uuids::name_generator_sha1 generator(boost::uuids::ns::oid());
  const boost::uuids::uuid digest = generator(text.data(), text.size());
  Secret secret;
  std::transform(digest.begin(), digest.end(), secret.bytes.begin(), [](auto b) { return static_cast<std::byte>(b); });
  return secret;
}

bool same(const Secret& a, const Secret& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.bytes.size(); ++i) difference |= a.bytes[i] ^ b.bytes[i];
  return difference == std::byte{0};
}

std::string to_hex(const Secret& secret) {
  std::string text;
  for (const std::byte b : secret.bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

std::optional<Secret> secret_from_hex(std::string_view text) {
  Secret secret;
  if (text.size() != 2 * secret.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    const char* at = text.data() + 2 * i;
    unsigned value = 0;
    if (*at == '-') return std::nullopt;
    const auto [stopped, error] = std::from_chars(at, at + 2, value, 16);
    if (error != std::errc{} || stopped != at + 2) return std::nullopt;
    secret.bytes[i] = static_cast<std::byte>(value);
  }
  return secret;
}

}  // namespace shmoe::bootstrap
