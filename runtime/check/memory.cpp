#include "runtime/check/memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/check/landed.hpp"

namespace shmoe::runtime::check {
namespace {

bool overlap(const Unit& a, const Unit& b) {
  return a.at.value() < b.at.value() + b.size && b.at.value() < a.at.value() + a.size;
}

}  // namespace

bool Channel::may_land(std::size_t index) const {
  const Unit& unit = units[index];
  return std::none_of(units.begin(), units.begin() + static_cast<std::ptrdiff_t>(index), [&](const Unit& earlier) {
    return earlier.epoch < unit.epoch || overlap(earlier, unit) ||
           (unit.is_signal && unit.group != 0 && earlier.group == unit.group);
  });
}

Memory::Memory(shmem::ThreadMemory memory, std::int32_t ranks, std::int32_t cores, Bytes unit)
    : memory_(std::move(memory)),
      ranks_(ranks),
      unit_(unit.value()),
      channels_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(cores) * static_cast<std::size_t>(ranks)) {}

std::uint64_t Memory::word(Rank rank, Offset at) const {
  std::uint64_t word = 0;
  std::memcpy(&word, of(rank) + at.value(), sizeof word);
  return word;
}

void Memory::write(Rank owner, Offset at, std::span<const std::byte> from) {
  if (from.empty()) return;
  std::byte* to = of(owner) + at.value();
  copy_landed(to, from);
  journal_.push_back({to, from.size()});
}

void Memory::apply(Rank owner, Offset at, shmem::SignalOp op, std::uint64_t value) {
  std::byte* word = of(owner) + at.value();
  op == shmem::SignalOp::set ? store_landed(word, value) : add_landed(word, value);
  journal_.push_back({word, sizeof value});
}

void Memory::send(std::size_t channel, Offset to, std::span<const std::byte> from, std::uint32_t group,
                  SourceSite site) {
  Channel& way = channels_[channel];
  const std::size_t piece = unit_ == 0 ? from.size() : unit_;
  for (std::size_t first = 0; first < from.size(); first += piece) {
    const auto part = from.subspan(first, std::min(piece, from.size() - first));
    way.units.push_back({.epoch = way.epoch,
                         .at = to + Bytes{first},
                         .size = static_cast<std::uint32_t>(part.size()),
                         .payload = static_cast<std::uint32_t>(way.store.size()),
                         .group = group,
                         .site = site});
    way.store.insert(way.store.end(), part.begin(), part.end());
  }
}

void Memory::send_signal(std::size_t channel, Slot slot, Offset at, shmem::SignalOp op, std::uint64_t value,
                         std::uint32_t group, Stamp stamp, SourceSite site) {
  Channel& way = channels_[channel];
  way.units.push_back({.epoch = way.epoch,
                       .at = at,
                       .size = sizeof value,
                       .is_signal = true,
                       .op = op,
                       .value = value,
                       .slot = slot,
                       .group = group,
                       .stamp = stamp,
                       .site = site});
}

void Memory::die(std::size_t core) {
  for (Rank dst{0}; dst.value() < ranks_; ++dst) channels_[index_of(core, dst)].dead = true;
}

void Memory::drop(std::size_t channel) {
  channels_[channel].units.clear();
  channels_[channel].store.clear();
}

Unit Memory::land(std::size_t channel, std::size_t unit) {
  Channel& way = channels_[channel];
  const Unit landed = way.units[unit];
  const Rank owner = destination(channel);
  if (landed.is_signal) {
    apply(owner, landed.at, landed.op, landed.value);
  } else {
    write(owner, landed.at, {way.store.data() + landed.payload, landed.size});
  }
  way.units.erase(way.units.begin() + static_cast<std::ptrdiff_t>(unit));
  if (way.units.empty()) way.store.clear();
  return landed;
}

bool Memory::on_its_way(Rank owner, Offset at, Bytes size) const {
  const Unit range{.at = at, .size = static_cast<std::uint32_t>(size.value())};
  for (std::size_t i = owner.index(); i < channels_.size(); i += static_cast<std::size_t>(ranks_)) {
    for (const Unit& unit : channels_[i].units) {
      if (!unit.is_signal && overlap(unit, range)) return true;
    }
  }
  return false;
}

bool Memory::all_landed(std::size_t core) const {
  const auto first = channels_.begin() + static_cast<std::ptrdiff_t>(index_of(core, Rank{0}));
  return std::all_of(first, first + ranks_, [](const Channel& channel) { return channel.empty(); });
}

void Memory::reset() {
  for (const Written& written : journal_) std::memset(written.first, 0, written.size);
  journal_.clear();
  for (Channel& channel : channels_) {
    channel.units.clear();
    channel.store.clear();
    channel.epoch = 0;
    channel.groups = 0;
    channel.dead = false;
  }
}

}  // namespace shmoe::runtime::check
