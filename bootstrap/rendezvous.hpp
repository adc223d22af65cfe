#pragma once
// What the ranks tell each other at the start, and how they decide together whether to go on.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/socket_exchange.hpp"
#include "bootstrap/wire.hpp"
#include "shmem/result.hpp"

namespace shmoe::bootstrap {

/// Something every rank must have the same value of.
struct Agreement {
  std::string name;
  std::string value;
  std::string setting = {};  // the variable to set; empty: SHMOE_ and the name in capitals
};

/// Something the others want to know; may differ.
struct Fact {
  std::string name;
  std::string value;
};

struct IdCard {
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot
  std::string boot_id;           // the same on all ranks of one host, in whatever container
  std::string host;
  std::vector<Agreement> agreements;
  std::vector<Fact> facts;

  /// The value of a fact, or nothing.
  [[nodiscard]] const std::string* fact(std::string_view name) const;
};

/// As it goes over the wire.
Blob encode(const IdCard& card);
/// Nothing where the bytes are no card of this build.
std::optional<IdCard> decode_card(std::span<const std::byte> bytes);

inline constexpr const char* kBootIdFile = "/proc/sys/kernel/random/boot_id";

/// The card of this process, without agreements and facts.
///
/// Errors:  io: the boot id file cannot be read or is empty
Result<IdCard> id_card_of_this_process(const std::filesystem::path& boot_id_file = kBootIdFile);

/// Everyone's card, in rank order.
///
/// Errors:  mismatch on all ranks where the agreements differ; those of all_gather
Result<std::vector<IdCard>> exchange_cards(SocketExchange& exchange, const IdCard& mine);

/// Hosts, told apart by boot id: all containers of one host are one node.
int node_count(std::span<const IdCard> cards);

/// Every rank states how its own `step` ended; if it failed anywhere, all ranks return the first failed rank's error.
///
/// Order:   everything a rank did before has happened when another rank returns
/// Errors:  any; `where` is the rank that failed
Result<void> agree(SocketExchange& exchange, const Result<void>& mine, std::string_view step);

}  // namespace shmoe::bootstrap
