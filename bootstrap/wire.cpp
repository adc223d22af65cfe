#include "bootstrap/wire.hpp"

#include <algorithm>

#include "bootstrap/text.hpp"

namespace shmoe::bootstrap {
namespace {

template <std::size_t N>
std::array<std::byte, N> padded(const Blob& blob) {
  std::array<std::byte, N> out{};
  std::copy_n(blob.begin(), std::min(blob.size(), N), out.begin());
  return out;
}

}  // namespace

void Packer::u32(std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out_.push_back(static_cast<std::byte>(value >> shift));
}

void Packer::u64(std::uint64_t value) {
  u32(static_cast<std::uint32_t>(value));
  u32(static_cast<std::uint32_t>(value >> 32));
}

void Packer::bytes(std::span<const std::byte> value) { out_.insert(out_.end(), value.begin(), value.end()); }

void Packer::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  bytes(std::as_bytes(std::span(value)));
}

std::optional<std::span<const std::byte>> Unpacker::bytes(std::size_t count) {
  if (count > in_.size()) {
    in_ = {};  // what follows is no longer in its place
    return std::nullopt;
  }
  const auto taken = in_.first(count);
  in_ = in_.subspan(count);
  return taken;
}

std::optional<std::uint32_t> Unpacker::u32() {
  const auto raw = bytes(4);
  if (!raw) return std::nullopt;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>((*raw)[i]) << (8 * i);
  return value;
}

std::optional<std::uint64_t> Unpacker::u64() {
  const auto low = u32();
  const auto high = u32();
  if (!low || !high) return std::nullopt;
  return std::uint64_t{*high} << 32 | *low;
}

std::optional<std::string> Unpacker::text() {
  const auto length = u32();
  const auto raw = length ? bytes(*length) : std::nullopt;
  if (!raw) return std::nullopt;
  std::string value(raw->size(), '\0');
  std::transform(raw->begin(), raw->end(), value.begin(), [](std::byte b) { return static_cast<char>(b); });
  return value;
}

std::array<std::byte, kHelloBytes> encode(const Hello& hello) {
  Packer out;
  out.u64(kHelloMagic);
  out.u32(hello.protocol);
  out.u32(hello.layout);
  out.u32(static_cast<std::uint32_t>(hello.size));
  out.u32(static_cast<std::uint32_t>(hello.rank));
  out.bytes(hello.secret.bytes);
  out.u32(hello.remaining_ms);
  return padded<kHelloBytes>(out.take());
}

std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes) {
  Unpacker in(bytes);
  if (in.u64() != kHelloMagic) return std::nullopt;
  Hello hello;
  hello.protocol = *in.u32();
  hello.layout = *in.u32();
  hello.size = static_cast<std::int32_t>(*in.u32());
  hello.rank = static_cast<std::int32_t>(*in.u32());
  const auto secret = *in.bytes(hello.secret.bytes.size());
  std::copy(secret.begin(), secret.end(), hello.secret.bytes.begin());
  hello.remaining_ms = *in.u32();
  return hello;
}

std::array<std::byte, kHeaderBytes> encode(const Header& header) {
  Packer out;
  out.u32(kFrameMagic);
  out.u32(header.length);
  out.u32(static_cast<std::uint32_t>(header.kind));
  out.u32(header.sequence);
  out.u32(header.remaining_ms);
  return padded<kHeaderBytes>(out.take());
}

std::optional<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  Unpacker in(bytes);
  if (in.u32() != kFrameMagic) return std::nullopt;
  Header header;
  header.length = *in.u32();
  const std::uint32_t kind = *in.u32();
  if (kind < static_cast<std::uint32_t>(Kind::welcome) || kind > static_cast<std::uint32_t>(Kind::failure))
    return std::nullopt;
  header.kind = static_cast<Kind>(kind);
  header.sequence = *in.u32();
  header.remaining_ms = *in.u32();
  return header;
}

Blob encode(const Error& error) {
  Packer out;
  out.u32(static_cast<std::uint32_t>(error.code));
  out.u32(static_cast<std::uint32_t>(error.where ? error.where->value() : -1));
  out.u32(static_cast<std::uint32_t>(error.sys));
  out.text(std::string_view(error.context).substr(0, kMaxErrorText));
  return out.take();
}

std::optional<Error> decode_failure(std::span<const std::byte> bytes) {
  Unpacker in(bytes);
  const auto code = in.u32();
  const auto where = in.u32();
  const auto sys = in.u32();
  auto text = in.text();
  if (!text || text->empty() || *code == 0 || *code > static_cast<std::uint32_t>(Errc::broken_contract))
    return std::nullopt;
  // It may be a stranger who listens at the address that was given.
  Error error{static_cast<Errc>(*code), printable(text->substr(0, kMaxErrorText)), {}, static_cast<int>(*sys)};
  if (static_cast<std::int32_t>(*where) >= 0) error.where = Rank{static_cast<std::int32_t>(*where)};
  return error;
}

Error decode_error(std::span<const std::byte> bytes) {
  return decode_failure(bytes).value_or(
      Error{Errc::io, "a failure was announced that does not parse: start the same build on every rank", {}, 0});
}

Blob join_parts(const std::vector<Blob>& parts) {
  Packer out;
  out.u32(static_cast<std::uint32_t>(parts.size()));
  for (const Blob& part : parts) out.u32(static_cast<std::uint32_t>(part.size()));
  for (const Blob& part : parts) out.bytes(part);
  return out.take();
}

std::optional<std::vector<Blob>> split_parts(std::span<const std::byte> bytes, std::size_t expected) {
  Unpacker in(bytes);
  if (in.u32() != expected) return std::nullopt;
  const auto lengths = in.bytes(4 * expected);
  if (!lengths) return std::nullopt;
  Unpacker next_length(*lengths);
  std::vector<Blob> parts;
  parts.reserve(expected);
  for (std::size_t i = 0; i < expected; ++i) {
    const auto part = in.bytes(*next_length.u32());
    if (!part) return std::nullopt;
    parts.emplace_back(part->begin(), part->end());
  }
  if (!in.empty()) return std::nullopt;
  return parts;
}

}  // namespace shmoe::bootstrap
