// What comes over the bootstrap's sockets, and what stands in its files and variables. The first byte says which:
//
//   h hello   f frame header   e error   p parts, their number first   c id card
//   a address   m rendezvous file   s secret   n name of a job

#include "bootstrap/wire.hpp"

#include "bootstrap/endpoint.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/text.hpp"
#include "fuzz/target.hpp"

namespace shmoe::fuzz {
namespace {

using namespace bootstrap;
using Bytes = std::span<const std::byte>;

std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

/// What is accepted is written again byte by byte.
void is_written_as(Bytes written, Bytes in, std::string_view what) {
  holds(std::ranges::equal(written, in), fmt::format("a {} is written as it was read", what), hex(in));
}

void check_hello(Bytes in) {
  constexpr std::size_t kUsed = 44;  // the rest is not looked at
  if (in.size() < kHelloBytes) return;
  const auto hello = decode_hello(in.first<kHelloBytes>());
  if (hello) is_written_as(Bytes(encode(*hello)).first(kUsed), in.first(kUsed), "hello");
}

void check_header(Bytes in) {
  if (in.size() < kHeaderBytes) return;
  const auto header = decode_header(in.first<kHeaderBytes>());
  if (header) is_written_as(encode(*header), in.first(kHeaderBytes), "frame header");
}

void check_error(Bytes in) {
  const Error error = decode_error(in);
  holds(error.code != Errc::ok && !error.context.empty(), "an error has a code and a text", hex(in));
  holds(std::ranges::none_of(error.context, is_control), "an error of a peer is one printable line", hex(in));
  holds(error.context.size() <= std::max(kMaxErrorText, in.size()), "an error is as long as its bytes", hex(in));
  const Error again = decode_error(encode(error));
  const bool same = again.code == error.code && again.where == error.where && again.sys == error.sys &&
                    again.context == error.context.substr(0, kMaxErrorText);
  holds(same, "an error comes back as it went", hex(in));
}

void check_parts(Bytes in) {
  if (in.empty()) return;
  const auto parts = split_parts(in.subspan(1), std::to_integer<std::size_t>(in.front()));
  if (parts) is_written_as(join_parts(*parts), in.subspan(1), "result");
}

void check_card(Bytes in) {
  const auto card = decode_card(in);
  if (card) is_written_as(encode(*card), in, "card");
}

void check_address(std::string_view text) {
  const auto address = parse_address(text, "SHMOE_COMM_ID");
  if (!address) return is_told(address.error(), "SHMOE_COMM_ID");
  holds(address->text() == text, "an address is printed as it was given", text);
}

void check_meeting(std::string_view text) {
  const auto meeting = parse_meeting(std::string(text));
  if (!meeting) return;
  const auto again = parse_meeting(to_string(*meeting));
  holds(again && again->port == meeting->port && again->owner == meeting->owner && same(again->secret, meeting->secret),
        "a meeting comes back as it went", text);
}

void check_secret(std::string_view text) {
  const auto secret = secret_from_hex(text);
  if (!secret) return;
  const auto again = secret_from_hex(to_hex(*secret));
  holds(again && same(*again, *secret), "a secret comes back as it went", text);
}

void check_name(std::string_view text) {
  const std::string name = file_name_of(text);
  holds(name.size() <= 96 && name.find_first_of("/ \n") == std::string::npos, "a name fits into a folder", text);
  holds(name.size() > 64 || file_name_of(name) == name, "a name that fits stays", text);
  holds(std::ranges::none_of(quoted(text), is_control), "a quoted text is printable", text);
}

}  // namespace
}  // namespace shmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shmoe::fuzz;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::string_view text = text_of(data, size).substr(1);
  switch (data[0]) {
    case 'h': check_hello(bytes); break;
    case 'f': check_header(bytes); break;
    case 'e': check_error(bytes); break;
    case 'p': check_parts(bytes); break;
    case 'c': check_card(bytes); break;
    case 'a': check_address(text); break;
    case 'm': check_meeting(text); break;
    case 's': check_secret(text); break;
    case 'n': check_name(text); break;
    default: return -1;  // not worth keeping
  }
  return 0;
}
