#include "runtime/check/race.hpp"

#include <algorithm>
#include <utility>

namespace shmoe::runtime::check {

RaceDetector::RaceDetector(std::int32_t ranks, std::int32_t cores)
    : ranks_(static_cast<std::size_t>(ranks)),
      cores_(static_cast<std::size_t>(cores)),
      actors_(ranks_ * cores_),
      clocks_(actors_, Clock{.known = std::vector<std::uint64_t>(actors_ + actors_ * ranks_), .payloads = {}}),
      issued_(actors_ * ranks_),
      fenced_(actors_ * ranks_),
      heard_(actors_ * actors_),
      memory_(ranks_),
      slots_(ranks_) {
  reset();
}

void RaceDetector::Clock::join(const Clock& other) {
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], other.known[i]);
  for (const Payload& payload : other.payloads) {
    if (std::find(payloads.begin(), payloads.end(), payload) == payloads.end()) payloads.push_back(payload);
  }
}

bool RaceDetector::knows(std::size_t core, const Write& write) const {
  const Clock& clock = clocks_[core];
  if (write.channel == kLocal) return write.core == core || clock.known[write.core] >= write.tick;
  if (clock.known[actors_ + write.channel] >= write.position) return true;
  return std::find(clock.payloads.begin(), clock.payloads.end(), Payload{write.channel, write.position}) !=
         clock.payloads.end();
}

bool RaceDetector::knows(std::size_t core, const Read& read) const {
  return read.core == core || clocks_[core].known[read.core] >= read.tick;
}

std::string RaceDetector::name(std::size_t core) const {
  return fmt::format("rank {} core {}", core / cores_, core % cores_);
}

std::string RaceDetector::place(Rank owner, std::uint64_t first, std::uint64_t end) const {
  return fmt::format("[{:#x}, +{}) of rank {}", first, end - first, owner);
}

bool RaceDetector::heard_after(std::size_t core, const Write& write) const {
  return clocks_[core].known[write.core] >= write.tick;
}

std::string RaceDetector::remedy(std::size_t reader, const Write& write) const {
  if (!heard_after(reader, write)) {
    return fmt::format("nothing that {} waited for was sent after that: a wait for a signal of {} would order them",
                       name(reader), name(write.core));
  }
  const Heard& heard = heard_[reader * actors_ + write.core];
  if (!heard.any || heard.tick < write.tick) {
    return fmt::format(
        "signals lead from {} to {} after that, but the put was not complete when the first of them was "
        "sent: quiet at {} before it signals would order them",
        name(write.core), name(reader), name(write.core));
  }
  const auto dst = Rank{write.channel % ranks_};
  return fmt::format(
      "the signal sent at {}:{} and waited for at {}:{} does not cover it: fence({}) or quiet between {}:{} "
      "and {}:{} would order them",
      heard.sent.file, heard.sent.line, heard.seen.file, heard.seen.line, dst, write.site.file, write.site.line,
      heard.sent.file, heard.sent.line);
}

std::span<RaceDetector::Cells::iterator> RaceDetector::cells(Rank owner, std::uint64_t first, std::uint64_t end) {
  Cells& all = memory_[owner.index()];
  touched_.clear();
  const auto split = [&](std::uint64_t at) {
    auto next = all.lower_bound(at);
    if (next == all.begin()) return;
    const auto before = std::prev(next);
    if (before->second.end <= at) return;
    Cell upper = before->second;
    before->second.end = at;
    all.emplace_hint(next, at, std::move(upper));
  };
  split(first);
  split(end);
  std::uint64_t at = first;
  auto next = all.lower_bound(first);
  while (at < end) {
    if (next == all.end() || next->first > at) {
      const std::uint64_t gap_end = next == all.end() ? end : std::min(end, next->first);
      next = all.emplace_hint(next, at, Cell{.end = gap_end, .write = {}, .before = {}, .reads = {}});
    }
    touched_.push_back(next);
    at = next->second.end;
    ++next;
  }
  return touched_;
}

std::optional<Race> RaceDetector::on_write(std::size_t core, Rank owner, Offset at, Bytes size, SourceSite site) {
  if (size.value() == 0) return std::nullopt;
  const bool local = core / cores_ == owner.index();
  const std::size_t channel = core * ranks_ + owner.index();
  Write write{.core = static_cast<std::uint32_t>(core),
              .channel = local ? kLocal : static_cast<std::uint32_t>(channel),
              .position = local ? 0 : ++issued_[channel],
              .tick = clocks_[core].known[core],
              .site = site};
  std::optional<Race> race;
  for (const auto& cell : cells(owner, at.value(), at.value() + size.value())) {
    const auto& [first, c] = *cell;
    if (!race) {
      for (const Read& read : c.reads) {
        if (knows(core, read)) continue;
        race = Race{
            VerdictKind::overwrite_before_read,
            fmt::format("{} at {}:{} overwrites {}, which {} reads at {}:{}, and nothing orders the read before: a "
                        "signal of {} after its read, waited for by {} before the write, would",
                        name(core), site.file, site.line, place(owner, first, c.end), name(read.core), read.site.file,
                        read.site.line, name(read.core), name(core)),
            conflict(owner, *cell, side(read.core, false, read.site), side(core, true, site))};
        break;
      }
    }
    // Two writes of one channel to one place keep their order.
    const bool ordered = !c.write || (!local && c.write->channel == write.channel) || knows(core, *c.write);
    if (!race && !ordered) {
      race = Race{VerdictKind::unordered_write,
                  fmt::format("{} at {}:{} writes {}, which {} writes at {}:{}, in no order: {}", name(core), site.file,
                              site.line, place(owner, first, c.end), name(c.write->core), c.write->site.file,
                              c.write->site.line, remedy(core, *c.write)),
                  conflict(owner, *cell, side(c.write->core, true, c.write->site), side(core, true, site))};
    }
    cell->second.before = std::exchange(cell->second.write, write);
    cell->second.reads.clear();
  }
  return race;
}

/// Where the reader may count on the write before, the later one has come too early; else this one is not ordered yet.
Race RaceDetector::read_race(std::size_t core, Rank owner, const Cells::value_type& cell, const Memory& memory,
                             SourceSite site) const {
  const auto& [first, c] = cell;
  const bool landed = !memory.on_its_way(owner, Offset{first}, Bytes{c.end - first});
  const Write& write = *c.write;
  const std::string both =
      fmt::format("{} at {}:{} reads {}, which {} writes at {}:{}", name(core), site.file, site.line,
                  place(owner, first, c.end), name(write.core), write.site.file, write.site.line);
  const Conflict sides = conflict(owner, cell, side(write.core, true, write.site), side(core, false, site));
  if (c.before && knows(core, *c.before) && !heard_after(core, write)) {
    return {VerdictKind::overwrite_before_read,
            fmt::format("{} again, and nothing orders the read before: a signal of {} after its read, waited for by {} "
                        "before it writes again, would (or a wait is missing before the read)",
                        both, name(core), name(write.core)),
            sides};
  }
  return {landed ? VerdictKind::unordered_read : VerdictKind::stale_value,
          fmt::format("{}, and nothing orders the write before{}: {}", both,
                      landed ? "" : "; it had not landed, so the value is an old one", remedy(core, write)),
          sides};
}

std::optional<Race> RaceDetector::on_read(std::size_t core, Rank owner, Offset at, Bytes size, const Memory& memory,
                                          SourceSite site) {
  if (size.value() == 0) return std::nullopt;
  std::optional<Race> race;
  for (const auto& cell : cells(owner, at.value(), at.value() + size.value())) {
    Cell& c = cell->second;
    if (!race && c.write && !knows(core, *c.write)) race = read_race(core, owner, *cell, memory, site);
    const Read read{.core = static_cast<std::uint32_t>(core), .tick = clocks_[core].known[core], .site = site};
    const auto mine = std::find_if(c.reads.begin(), c.reads.end(), [&](const Read& r) { return r.core == core; });
    if (mine == c.reads.end()) {
      c.reads.push_back(read);
    } else {
      *mine = read;
    }
  }
  return race;
}

void RaceDetector::on_fence(std::size_t core, Rank dst) {
  const std::size_t channel = core * ranks_ + dst.index();
  fenced_[channel] = issued_[channel];
}

void RaceDetector::on_quiet(std::size_t core) {
  for (std::size_t dst = 0; dst < ranks_; ++dst) {
    const std::size_t channel = core * ranks_ + dst;
    channel_known(core, channel) = fenced_[channel] = issued_[channel];
  }
}

Stamp RaceDetector::on_signal(std::size_t core, Rank dst, bool payload, SourceSite site) {
  if (sent_count_ == sent_.size()) sent_.emplace_back();
  Sent& sent = sent_[sent_count_];
  std::uint64_t& tick = clocks_[core].known[core];
  sent.clock = clocks_[core];
  sent.core = static_cast<std::uint32_t>(core);
  sent.tick = tick;
  sent.site = site;
  const std::size_t channel = core * ranks_ + dst.index();
  std::uint64_t& known = sent.clock.known[actors_ + channel];
  known = std::max(known, fenced_[channel]);
  if (payload) sent.clock.payloads.push_back({static_cast<std::uint32_t>(channel), issued_[channel]});
  ++tick;
  return static_cast<Stamp>(sent_count_++);
}

RaceDetector::SlotClock& RaceDetector::slot(Rank owner, Slot slot) {
  std::vector<SlotClock>& all = slots_[owner.index()];
  if (all.size() <= slot.index()) all.resize(slot.index() + 1);
  SlotClock& entry = all[slot.index()];
  if (entry.run != run_) {
    entry.run = run_;
    entry.clock.known.assign(actors_ + actors_ * ranks_, 0);
    entry.clock.payloads.clear();
    entry.stamps.clear();
  }
  return entry;
}

void RaceDetector::on_landing(Rank owner, Slot at, shmem::SignalOp op, Stamp stamp) {
  SlotClock& entry = slot(owner, at);
  // Signals of one core to one slot keep their order, so the earlier ones have landed too.
  const bool later = !entry.stamps.empty() && sent_[entry.stamps.back()].core == sent_[stamp].core;
  if (op == shmem::SignalOp::set && later) {
    entry.clock.join(sent_[stamp].clock);
    entry.stamps.assign(1, stamp);
  } else if (op == shmem::SignalOp::set) {
    entry.clock = sent_[stamp].clock;
    entry.stamps.assign(1, stamp);
  } else {
    entry.clock.join(sent_[stamp].clock);
    entry.stamps.push_back(stamp);
  }
}

void RaceDetector::on_seen(std::size_t core, Rank owner, Slot at, SourceSite site) {
  const SlotClock& entry = slot(owner, at);
  clocks_[core].join(entry.clock);
  for (const Stamp stamp : entry.stamps) {
    const Sent& sent = sent_[stamp];
    Heard& heard = heard_[core * actors_ + sent.core];
    if (heard.any && heard.tick > sent.tick) continue;
    heard = {.any = true, .tick = sent.tick, .sent = sent.site, .seen = site};
  }
}

void RaceDetector::on_fork(std::size_t host, std::size_t core) {
  clocks_[core].join(clocks_[host]);
  ++clocks_[host].known[host];
}

void RaceDetector::on_join(std::size_t host, std::size_t core) {
  clocks_[host].join(clocks_[core]);
  ++clocks_[core].known[core];
}

void RaceDetector::reset() {
  ++run_;
  for (std::size_t core = 0; core < actors_; ++core) {
    std::fill(clocks_[core].known.begin(), clocks_[core].known.end(), 0);
    clocks_[core].payloads.clear();
    clocks_[core].known[core] = 1;  // 0 is "knows nothing of it"
  }
  std::fill(issued_.begin(), issued_.end(), 0);
  std::fill(fenced_.begin(), fenced_.end(), 0);
  std::fill(heard_.begin(), heard_.end(), Heard{});
  sent_count_ = 0;
  for (Cells& cells : memory_) cells.clear();
}

}  // namespace shmoe::runtime::check
