#include "runtime/call_card.hpp"

#include <algorithm>
#include <cstring>

#include "shmem/hash.hpp"
#include "shmem/result.hpp"

namespace shmoe::runtime {
namespace {

void copy_name(char* to, std::size_t capacity, std::string_view name) {
  SHMOE_EXPECTS(name.size() < capacity, "\"{}\" is longer than {} characters", name, capacity - 1);
  std::memcpy(to, name.data(), name.size());
}

std::uint64_t with_value(std::uint64_t digest, std::int64_t value) {
  return shmem::scattered(digest ^ static_cast<std::uint64_t>(value));
}

}  // namespace

CallCard::CallCard(std::string_view op) : digest_(shmem::fnv1a(op)) {
  static_assert(offsetof(CallCard, digest_) == 0, "whoever compares cards reads the first 8 bytes first");
  copy_name(op_, sizeof op_, op);
}

CallCard& CallCard::with(std::string_view name, std::int64_t value) {
  SHMOE_EXPECTS(count_ < kFields, "a call card holds {} fields; \"{}\" is one too many", kFields, name);
  Field& field = fields_[count_++];
  copy_name(field.name, sizeof field.name, name);
  field.value = value;
  digest_ = with_value(digest_, value);
  return *this;
}

CallCard& CallCard::with_ranks(std::string_view name, std::span<const Rank> ranks) {
  SHMOE_EXPECTS(ranks_.name[0] == 0 && count_ == 0, "\"{}\": a call card holds one list of ranks, before its fields",
                name);
  copy_name(ranks_.name, sizeof ranks_.name, name);
  ranks_.count = ranks.size();
  ranks_.digest = shmem::kFnvStart;
  for (const Rank rank : ranks) ranks_.digest = shmem::scattered(ranks_.digest ^ rank.index());
  std::ranges::transform(ranks.first(std::min(ranks.size(), kNamedRanks)), ranks_.first,
                         [](Rank rank) { return static_cast<std::int16_t>(rank.value()); });
  digest_ = with_value(digest_, static_cast<std::int64_t>(ranks_.digest));
  return *this;
}

bool CallCard::is_whole() const {
  if (count_ > kFields || std::memchr(op_, 0, sizeof op_) == nullptr) return false;
  std::uint64_t digest = shmem::fnv1a(op_);
  if (ranks_.name[0] != 0) digest = with_value(digest, static_cast<std::int64_t>(ranks_.digest));
  for (std::size_t i = 0; i < count_; ++i) digest = with_value(digest, fields_[i].value);
  return digest == digest_;
}

std::optional<std::string> CallCard::difference(const CallCard& other, Rank mine, Rank theirs) const {
  if (!is_whole() || !other.is_whole()) {
    return fmt::format(
        "the call card of rank {} cannot be read, its digest is not that of its fields: the write of it was torn, or "
        "something wrote over it; look for puts of that rank to places that are not its operators'",
        is_whole() ? theirs : mine);
  }
  if (std::strncmp(op_, other.op_, sizeof op_) != 0 || count_ != other.count_) {
    return fmt::format(
        "rank {} calls {} while rank {} calls {}: every rank must call the same operators in the same "
        "order",
        theirs, other.op_, mine, op_);
  }
  for (std::size_t i = 0; i < count_; ++i) {
    if (fields_[i].value != other.fields_[i].value) {
      return fmt::format("{} is {} on rank {} and {} on rank {}: every rank must pass the same", fields_[i].name,
                         other.fields_[i].value, theirs, fields_[i].value, mine);
    }
  }
  return ranks_difference(other, mine, theirs);
}

std::optional<std::string> CallCard::ranks_difference(const CallCard& other, Rank mine, Rank theirs) const {
  if (ranks_.digest == other.ranks_.digest) return std::nullopt;
  const std::size_t count = std::min({ranks_.count, other.ranks_.count, std::uint64_t{kNamedRanks}});
  const auto named = std::span{ranks_.first}.first(count);
  const auto position = static_cast<std::size_t>(std::ranges::mismatch(named, other.ranks_.first).in1 - named.begin());
  if (position < count) {
    return fmt::format("{}[{}] is rank {} on rank {} and rank {} on rank {}: every rank must pass the same",
                       ranks_.name, position, other.ranks_.first[position], theirs, ranks_.first[position], mine);
  }
  return fmt::format("{} has {} ranks on rank {} and {} on rank {}, the first {} alike: every rank must pass the same",
                     ranks_.name, other.ranks_.count, theirs, ranks_.count, mine, count);
}

}  // namespace shmoe::runtime
