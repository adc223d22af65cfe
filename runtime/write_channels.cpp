#include "runtime/write_channels.hpp"

#include <algorithm>
#include <utility>

#include "shmem/contracts.hpp"

namespace shmoe::runtime {
namespace {

using shmem::Arrival;
using shmem::Time;
using shmem::WaitSpec;

/// How long a core waits or polls before its weak writes land all the same.
constexpr Time kPatience = std::chrono::milliseconds(20);
constexpr std::uint64_t kWord = 8;

}  // namespace

WriteChannels::WriteChannels(shmem::Fabric& next, const shmem::Peers& peers, Core core, std::uint64_t seed)
    : next_(&next), peers_(&peers), core_(core), random_(seed), epochs_(static_cast<std::size_t>(peers.size())) {}

bool WriteChannels::passes(Rank dst, Holding holding) const {
  return given_up_ || dst == peers_->rank || (holding == Holding::none && writes_.empty());
}

void WriteChannels::put(Rank dst, Offset to, std::span<const std::byte> from, Holding holding, SourceSite site) {
  go_on();
  if (passes(dst, holding)) return next_->put(dst, to, from, site);
  shmem::expect_place(*peers_, dst, to, Bytes{from.size()}, site);
  issue_data(dst, to, from, 0, holding, site);
}

void WriteChannels::signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, Holding holding,
                           SourceSite site) {
  go_on();
  if (passes(dst, holding)) return next_->signal(dst, slot, op, value, site);
  shmem::expect_signal(*peers_, dst, slot, op, value, site);
  issue_signal({.dst = dst, .slot = slot, .op = op, .value = value, .holding = holding, .site = site});
}

void WriteChannels::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                               std::uint64_t value, Holding holding, SourceSite site) {
  go_on();
  if (passes(dst, holding)) return next_->put_signal(dst, to, from, slot, op, value, site);
  shmem::expect_place(*peers_, dst, to, Bytes{from.size()}, site);
  shmem::expect_signal(*peers_, dst, slot, op, value, site);
  const std::uint64_t group = ++groups_;
  issue_data(dst, to, from, group, holding, site);
  issue_signal({.dst = dst, .slot = slot, .op = op, .value = value, .group = group, .holding = holding, .site = site});
}

/// A word lands as a whole.
void WriteChannels::issue_data(Rank dst, Offset to, std::span<const std::byte> from, std::uint64_t group,
                               Holding holding, SourceSite site) {
  const std::uint64_t words = from.size() / kWord;
  const bool torn = holding == Holding::weak && words > 1 && one_in(4);
  const std::size_t cut = torn ? kWord * (1 + random_() % (words - 1)) : from.size();
  for (const auto part : {from.first(cut), from.subspan(cut)}) {
    if (part.empty()) continue;
    issue({.dst = dst,
           .at = to,
           .size = part.size(),
           .data = {part.begin(), part.end()},
           .group = group,
           .holding = holding,
           .site = site});
    to = to + Bytes{part.size()};
  }
}

void WriteChannels::issue_signal(Write write) {
  write.at = peers_->slots->offset_of(write.slot);
  write.size = kWord;
  write.is_signal = true;
  issue(std::move(write));
}

void WriteChannels::issue(Write write) {
  write.epoch = epochs_[write.dst.index()];
  writes_.push_back(std::move(write));
  const Holding holding = writes_.back().holding;
  const bool at_once = holding == Holding::none || (holding == Holding::weak && one_in(4));
  if (at_once && may_land(writes_.size() - 1)) return land(writes_.size() - 1);
  writes_.back().told = entry_of(writes_.back()) != nullptr;
  if (!writes_.back().told) return;
  entry_of(writes_.back())->held.fetch_add(1, std::memory_order_relaxed);
  tell_held(writes_.back());
}

bool WriteChannels::may_land(std::size_t index) const {
  const Write& write = writes_[index];
  return std::none_of(writes_.begin(), writes_.begin() + static_cast<std::ptrdiff_t>(index), [&](const Write& earlier) {
    if (earlier.dst != write.dst) return false;
    const bool overlaps = earlier.at < write.at + Bytes{write.size} && write.at < earlier.at + Bytes{earlier.size};
    const bool own_data = write.is_signal && write.group != 0 && earlier.group == write.group;
    return earlier.epoch < write.epoch || overlaps || own_data;
  });
}

std::vector<std::size_t> WriteChannels::ready(bool on_hold_too) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if ((on_hold_too || writes_[i].holding != Holding::hold) && may_land(i)) found.push_back(i);
  }
  return found;
}

void WriteChannels::land(std::size_t index) {
  const Write write = std::move(writes_[index]);
  writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(index));
  if (write.is_signal) {
    next_->signal(write.dst, write.slot, write.op, write.value, write.site);
  } else {
    next_->put(write.dst, write.at, write.data, write.site);
  }
  if (!write.told) return;
  entry_of(write)->held.fetch_sub(1, std::memory_order_relaxed);
  const auto last = std::find_if(writes_.rbegin(), writes_.rend(), [&](const Write& other) {
    return other.told && other.dst == write.dst && other.slot == write.slot;
  });
  if (last != writes_.rend()) tell_held(*last);
}

shmem::LedgerEntry* WriteChannels::entry_of(const Write& write) const {
  if (!write.is_signal || !peers_->notes || peers_->control == nullptr) return nullptr;
  if (!peers_->slots->may_write(write.slot, write.dst, peers_->rank)) return nullptr;
  const std::uint32_t index = peers_->slots->ledger_index(write.dst, write.slot, core_);
  return &peers_->control_map.ledger(peers_->control, index);
}

/// The newest signal of an entry is the one that it describes, though an older one lands after it was issued.
void WriteChannels::tell_held(const Write& write) const {
  shmem::LedgerEntry& entry = *entry_of(write);
  entry.value.store(write.value, std::memory_order_relaxed);
  entry.core.store(static_cast<std::uint32_t>(core_.value()), std::memory_order_relaxed);
  entry.site.store(write.site.file, write.site.line);
}

void WriteChannels::land_all(bool on_hold_too) {
  for (auto landing = ready(on_hold_too); !landing.empty(); landing = ready(on_hold_too))
    land(landing[random_() % landing.size()]);
}

void WriteChannels::settle() {
  const auto unheld = [&] {
    const std::vector<std::size_t> all = ready(false);
    const auto found = std::ranges::find_if(all, [&](std::size_t i) { return writes_[i].holding == Holding::none; });
    return found == all.end() ? std::nullopt : std::optional(*found);
  };
  for (auto next = unheld(); next; next = unheld()) land(*next);
}

void WriteChannels::fence(Rank dst) {
  go_on();
  ++epochs_[dst.index()];
}

void WriteChannels::quiet() { land_all(true); }

void WriteChannels::go_on() {
  polls_since_.reset();
  for (auto landing = ready(false); !landing.empty() && one_in(2); landing = ready(false)) {
    land(landing[random_() % landing.size()]);
    settle();
  }
}

Result<Arrival> WriteChannels::wait(const WaitSpec& spec, SourceSite site) {
  go_on();
  if (!ready(false).empty() && one_in(2)) land_all(false);
  while (!ready(false).empty()) {
    WaitSpec impatient = spec;
    impatient.deadline = next_->now() + kPatience;
    if (spec.deadline) impatient.deadline = std::min(*impatient.deadline, *spec.deadline);
    Result<Arrival> early = next_->wait(impatient, site);
    if (early || early.error().code != Errc::deadline) return early;
    land_all(false);
  }
  return next_->wait(spec, site);
}

std::optional<Arrival> WriteChannels::test(const WaitSpec& spec, SourceSite site) {
  if (!ready(false).empty()) {
    const Time now = next_->now();
    if (now - polls_since_.value_or(now) > kPatience) land_all(false);
    if (!polls_since_) polls_since_ = now;
  }
  return next_->test(spec, site);
}

void WriteChannels::leave() { land_all(false); }

void WriteChannels::give_up() {
  given_up_ = true;
  writes_.clear();
}

}  // namespace shmoe::runtime
