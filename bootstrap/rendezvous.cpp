#include "bootstrap/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <set>

#include <unistd.h>

#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/text.hpp"

namespace shmoe::bootstrap {
namespace {

constexpr std::uint32_t kCardVersion = 1;
constexpr std::size_t kMaxShown = 200;  // characters of a value in an error

std::string setting_of(const Agreement& item) {
  if (!item.setting.empty()) return item.setting;
  std::string name = "SHMOE_" + item.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::isalnum(c) ? static_cast<char>(std::toupper(c)) : '_'; });
  return name;
}

const Agreement* find(const IdCard& card, std::string_view name) {
  const auto at =
      std::find_if(card.agreements.begin(), card.agreements.end(), [&](const auto& item) { return item.name == name; });
  return at == card.agreements.end() ? nullptr : &*at;
}

/// Fit for one line, whatever a rank has sent.
std::string shown(const std::string& text) { return printable(text.substr(0, kMaxShown)); }

std::string says(std::size_t rank, const std::string& name, const Agreement* item) {
  return item != nullptr ? fmt::format("rank {} has {} {}", rank, shown(name), shown(item->value))
                         : fmt::format("rank {} does not state {}", rank, shown(name));
}

Error disagreement(const std::vector<IdCard>& cards, std::size_t rank, const Agreement& item) {
  return Error{
      Errc::mismatch,
      fmt::format("{}, {}: start every rank with the same {}", says(rank, item.name, find(cards[rank], item.name)),
                  says(0, item.name, find(cards[0], item.name)), shown(setting_of(item))),
      Rank{rank}, 0};
}

/// What one card states and the other does not state alike.
const Agreement* first_difference(const IdCard& mine, const IdCard& other) {
  for (const auto& item : mine.agreements) {
    const Agreement* counterpart = find(other, item.name);
    if (counterpart == nullptr || counterpart->value != item.value) return &item;
  }
  return nullptr;
}

Result<void> check_agreement(const std::vector<IdCard>& cards) {
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    const Agreement* item = first_difference(cards[0], cards[rank]);
    if (item == nullptr) item = first_difference(cards[rank], cards[0]);
    if (item != nullptr) return disagreement(cards, rank, *item);
  }
  return {};
}

}  // namespace

Blob encode(const IdCard& card) {
  Packer out;
  out.u32(kCardVersion);
  out.u64(static_cast<std::uint64_t>(card.pid));
  out.u64(card.start_time);
  out.text(card.boot_id);
  out.text(card.host);
  out.u32(static_cast<std::uint32_t>(card.agreements.size()));
  for (const auto& item : card.agreements) {
    out.text(item.name);
    out.text(item.value);
    out.text(item.setting);
  }
  out.u32(static_cast<std::uint32_t>(card.facts.size()));
  for (const auto& item : card.facts) {
    out.text(item.name);
    out.text(item.value);
  }
  return out.take();
}

std::optional<IdCard> decode_card(std::span<const std::byte> bytes) {
  Unpacker in(bytes);
  if (in.u32() != kCardVersion) return std::nullopt;
  const auto pid = in.u64();
  const auto start_time = in.u64();
  auto boot_id = in.text();
  auto host = in.text();
  if (!host) return std::nullopt;
  IdCard card{static_cast<std::int64_t>(*pid), *start_time, std::move(*boot_id), std::move(*host), {}, {}};
  const auto agreements = in.u32();
  for (std::uint32_t i = 0; i < agreements.value_or(0); ++i) {
    auto name = in.text();
    auto value = in.text();
    auto setting = in.text();
    if (!setting) return std::nullopt;
    card.agreements.push_back({std::move(*name), std::move(*value), std::move(*setting)});
  }
  const auto facts = in.u32();
  for (std::uint32_t i = 0; i < facts.value_or(0); ++i) {
    auto name = in.text();
    auto value = in.text();
    if (!value) return std::nullopt;
    card.facts.push_back({std::move(*name), std::move(*value)});
  }
  if (!facts || !in.empty()) return std::nullopt;
  return card;
}

const std::string* IdCard::fact(std::string_view name) const {
  const auto at = std::find_if(facts.begin(), facts.end(), [&](const Fact& item) { return item.name == name; });
  return at == facts.end() ? nullptr : &at->value;
}

Result<IdCard> id_card_of_this_process(const std::filesystem::path& boot_id_file) {
  const auto owner = this_process();
  if (!owner) return owner.error();
  IdCard card;
  card.pid = owner->pid;
  card.start_time = owner->start_time;
  std::ifstream file(boot_id_file);
  if (!std::getline(file, card.boot_id) || card.boot_id.empty()) {
    return Error{Errc::io, fmt::format("cannot read the boot id from {}: mount /proc", boot_id_file.native()), {}, 0};
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) card.host = host.data();
  return card;
}

Result<std::vector<IdCard>> exchange_cards(SocketExchange& exchange, const IdCard& mine) {
  const auto gathered = exchange.all_gather(encode(mine));
  if (!gathered) return Error(gathered.error()).within("exchange of id cards");
  std::vector<IdCard> cards;
  for (const auto& bytes : *gathered) {
    auto card = decode_card(bytes);
    if (!card) {
      return Error{
          Errc::io,
          fmt::format("the id card of rank {} does not parse: start the same build on every rank", cards.size()),
          Rank{cards.size()}, 0};
    }
    cards.push_back(std::move(*card));
  }
  if (auto agreed = check_agreement(cards); !agreed) return agreed.error();
  return cards;
}

int node_count(std::span<const IdCard> cards) {
  std::set<std::string_view> boots;
  for (const auto& card : cards) boots.insert(card.boot_id);
  return static_cast<int>(boots.size());
}

Result<void> agree(SocketExchange& exchange, const Result<void>& mine, std::string_view step) {
  const auto gathered = exchange.all_gather(mine ? Blob{} : encode(mine.error()));
  if (!gathered) return Error(gathered.error()).within(step);
  for (std::size_t rank = 0; rank < gathered->size(); ++rank) {
    if ((*gathered)[rank].empty()) continue;
    Error error = decode_error((*gathered)[rank]);
    error.where = Rank{rank};
    return std::move(error).within(fmt::format("{} failed on rank {}", step, rank));
  }
  return {};
}

}  // namespace shmoe::bootstrap
