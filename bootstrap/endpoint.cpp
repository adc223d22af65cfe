#include "bootstrap/endpoint.hpp"

#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/text.hpp"

namespace shmoe::bootstrap {
namespace {

/// A decimal number without sign, blanks or leading zeros.
std::optional<std::uint32_t> plain_number(std::string_view text, std::uint32_t highest) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  const auto value = parse_whole<std::uint32_t>(text);
  return value && *value <= highest ? value : std::nullopt;
}

std::optional<std::array<std::uint8_t, 4>> octets_of(std::string_view text) {
  std::array<std::uint8_t, 4> octets{};
  for (std::size_t i = 0; i < octets.size(); ++i) {
    const auto dot = text.find('.');
    if ((dot == std::string_view::npos) != (i + 1 == octets.size())) return std::nullopt;
    const auto octet = plain_number(text.substr(0, dot), 255);
    if (!octet) return std::nullopt;
    octets[i] = static_cast<std::uint8_t>(*octet);
    text.remove_prefix(dot == std::string_view::npos ? text.size() : dot + 1);
  }
  return octets;
}

Error bad_address(std::string_view text, std::string_view source, std::string_view why) {
  return Error{
      Errc::invalid_argument,
      fmt::format("{} is {}, {}: give a.b.c.d:port, for example 127.0.0.1:10067", source, bootstrap::quoted(text), why),
      {},
      0};
}

struct Given {
  std::string text;
  std::string source;
};

std::optional<Given> given_address(std::optional<std::string_view> argument, const Environment& environment) {
  if (argument) return Given{std::string(*argument), "the address argument"};
  for (const char* name : {"SHMOE_COMM_ID", "CAM_COMM_ID"}) {
    if (auto value = environment(name)) return Given{std::move(*value), name};
  }
  return std::nullopt;
}

Result<Endpoint> at_address(EndpointKind kind, const Address& address, std::string source, const Launch& launch) {
  if (!launch.secret && !address.is_loopback()) {
    return Error{Errc::invalid_argument,
                 fmt::format("{} is {}, which other hosts can reach: set the same SHMOE_SECRET on every rank", source,
                             address.text()),
                 {},
                 0};
  }
  // The job is part of the secret: ranks of two jobs that were given one address turn each other away.
  const Secret secret = hashed_secret(fmt::format("{}\n{}", launch.secret.value_or(""), launch.job_id));
  return Endpoint{kind, std::move(source), address, secret, {}};
}

}  // namespace

std::string Address::text() const {
  return fmt::format("{}.{}.{}.{}:{}", octets[0], octets[1], octets[2], octets[3], port);
}

Result<Address> parse_address(std::string_view text, std::string_view source) {
  if (text.empty()) return bad_address(text, source, "which is empty");
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return bad_address(text, source, "which has no port");
  const auto octets = octets_of(text.substr(0, colon));
  if (!octets) return bad_address(text, source, "which does not start with four numbers from 0 to 255");
  if ((*octets)[0] == 0 || (*octets)[0] >= 224)
    return bad_address(text, source, "which is not the address of one host");
  const auto port = plain_number(text.substr(colon + 1), 65535);
  if (!port || *port == 0) return bad_address(text, source, "which does not end with a port from 1 to 65535");
  return Address{*octets, static_cast<std::uint16_t>(*port)};
}

Result<Endpoint> choose_endpoint(std::optional<std::string_view> argument, const Environment& environment,
                                 const Launch& launch, const std::filesystem::path& temporary) {
  if (const auto given = given_address(argument, environment)) {
    const auto address = parse_address(given->text, given->source);
    if (!address) return address.error();
    return at_address(EndpointKind::given_address, *address, given->source, launch);
  }
  if (launch.size == 1) return Endpoint{EndpointKind::alone, "a job of one rank", {}, {}, {}};
  const auto folder = runtime_folder(environment, temporary);
  if (!folder && folder.error().code != Errc::not_found) return folder.error();
  if (!folder) return at_address(EndpointKind::published_default, kPublishedDefault, "the published default", launch);
  return Endpoint{EndpointKind::rendezvous_file, "the rendezvous file", {}, {}, meeting_path(*folder, launch.job_id)};
}

}  // namespace shmoe::bootstrap
