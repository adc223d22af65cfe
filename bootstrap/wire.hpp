#pragma once
// The bytes on the bootstrap's sockets. All numbers are little-endian.
//
//   hello, 64 bytes, once from every client          frame header, 20 bytes, before every payload
//   +0   magic        u64                            +0   magic         u32
//   +8   protocol     u32                            +4   payload bytes u32
//   +12  layout       u32                            +8   kind          u32
//   +16  size         i32                            +12  sequence      u32
//   +20  rank         i32                            +16  remaining     u32, ms until the sender gives up
//   +24  secret       16 bytes
//   +40  remaining    u32, ms until the sender gives up
//   +44  zero         20 bytes

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/secret.hpp"
#include "shmem/result.hpp"

namespace shmoe::bootstrap {

using Blob = std::vector<std::byte>;

inline constexpr std::uint64_t kHelloMagic = 0x3154'4f4f'424d'4853ULL;
inline constexpr std::uint32_t kFrameMagic = 0x4642'4d53U;
inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::size_t kHelloBytes = 64;
inline constexpr std::size_t kHeaderBytes = 20;
inline constexpr std::size_t kMaxErrorText = 2048;
inline constexpr std::uint32_t kLongestFailure = 16 + kMaxErrorText;  // payload

/// Appends numbers and texts.
class Packer {
 public:
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void bytes(std::span<const std::byte> value);
  /// Length and characters.
  void text(std::string_view value);
  [[nodiscard]] Blob take() { return std::move(out_); }

 private:
  Blob out_;
};

/// Takes them off again; nothing once the bytes have run out.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> in) : in_(in) {}
  std::optional<std::uint32_t> u32();
  std::optional<std::uint64_t> u64();
  std::optional<std::span<const std::byte>> bytes(std::size_t count);
  std::optional<std::string> text();
  [[nodiscard]] bool empty() const { return in_.empty(); }

 private:
  std::span<const std::byte> in_;
};

struct Hello {
  std::uint32_t protocol = kProtocol;
  std::uint32_t layout = 0;
  std::int32_t size = 0;
  std::int32_t rank = 0;
  Secret secret;
  std::uint32_t remaining_ms = 0;
};

std::array<std::byte, kHelloBytes> encode(const Hello& hello);
/// Nothing where the magic is not ours.
std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes);

enum class Kind : std::uint32_t { welcome = 1, contribution = 2, result = 3, failure = 4 };

struct Header {
  std::uint32_t length = 0;
  Kind kind = Kind::welcome;
  std::uint32_t sequence = 0;
  std::uint32_t remaining_ms = 0;
};

std::array<std::byte, kHeaderBytes> encode(const Header& header);
std::optional<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

/// The payload of a failure: the error as every rank returns it.
Blob encode(const Error& error);
/// Fit for one line of a terminal, whatever was sent. Nothing where it does not parse.
std::optional<Error> decode_failure(std::span<const std::byte> bytes);
/// The same, with an error that says so where it does not parse.
Error decode_error(std::span<const std::byte> bytes);

/// The payload of a result: number of parts, their lengths, their bytes.
Blob join_parts(const std::vector<Blob>& parts);
std::optional<std::vector<Blob>> split_parts(std::span<const std::byte> bytes, std::size_t expected);

}  // namespace shmoe::bootstrap
