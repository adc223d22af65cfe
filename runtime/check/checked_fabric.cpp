#include "runtime/check/checked_fabric.hpp"

#include <algorithm>

#include "runtime/check/landed.hpp"
#include "shmem/contracts.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime::check {

using shmem::Arrival;
using shmem::Match;
using shmem::SignalOp;
using shmem::WaitSpec;

bool HeapRanges::covers(Rank rank, Offset at, Bytes size) const {
  const auto& ranges = live_[rank.index()];
  auto next = ranges.upper_bound(at.value());
  if (next == ranges.begin()) return false;
  return at.value() + size.value() <= std::prev(next)->second;
}

void HeapRanges::remove(Rank rank, Offset at, Bytes size) {
  auto& ranges = live_[rank.index()];
  auto range = ranges.lower_bound(at.value());
  while (range != ranges.end() && range->first < at.value() + size.value()) range = ranges.erase(range);
  while (range != ranges.begin() && std::prev(range)->second > at.value()) (--range)->second = at.value();
}

void Machine::found(VerdictKind kind, std::string text) {
  scheduler.stop();
  if (verdict.clean()) verdict = {.kind = kind, .text = std::move(text), .stuck = {}};
}

void Machine::found(std::optional<Race> race) {
  if (!race || !report_races) return;
  const bool first = verdict.clean();
  found(race->kind, std::move(race->text));
  if (first) verdict.conflict = race->conflict;
}

void CheckedFabric::check_place(Rank rank, Offset at, Bytes size, SourceSite site) const {
  shmem::expect_place(*peers_, rank, at, size, site);
  for (const shmem::SlotFamily& family : peers_->slots->families()) {
    const std::uint64_t end = family.base.value() + shmem::kSlotStride * family.count();
    if (at.value() >= end || family.base >= at + size) continue;
    machine_->found(VerdictKind::bad_address,
                    fmt::format("rank {} uses [{:#x}, +{}) of rank {} at {}:{} as data, where the slots of {} lie",
                                peers_->rank, at.value(), size, rank, site.file, site.line, family.name));
  }
  if (size.value() == 0 || at < peers_->map->heap.at || machine_->heaps.covers(rank, at, size)) return;
  machine_->found(
      VerdictKind::bad_address,
      fmt::format("rank {} uses [{:#x}, +{}) of rank {} at {}:{}, which is no allocated symmetric memory there: "
                  "not allocated yet (allocate, then meet in a barrier), freed, or past the end of its block",
                  peers_->rank, at.value(), size, rank, site.file, site.line));
}

/// Before an act on a slot that others may look at.
void CheckedFabric::visible(Rank owner, Slot slot, SourceSite site) {
  if (machine_->scheduler.shared(core_, owner, slot)) machine_->scheduler.step(core_, site);
}

void CheckedFabric::send(Rank dst, Offset to, std::span<const std::byte> from, std::uint32_t group, SourceSite site) {
  machine_->scheduler.act();
  machine_->tell(
      {.kind = Step::Kind::put, .core = core_, .rank = dst, .at = to, .size = Bytes{from.size()}, .site = site});
  machine_->found(machine_->races.on_write(core_, dst, to, Bytes{from.size()}, site));
  if (immediate(dst)) {
    machine_->memory.write(dst, to, from);
    if (dst != peers_->rank) machine_->races.on_quiet(core_);  // it has landed
  } else {
    machine_->memory.send(channel(dst), to, from, group, site);
  }
}

void CheckedFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  const Unseen unseen;
  check_place(dst, to, Bytes{from.size()}, site);
  if (machine_->data_steps && immediate(dst)) machine_->scheduler.step(core_, site);
  if (silent()) return;
  send(dst, to, from, 0, site);
}

void CheckedFabric::read(Rank src, Offset from, std::span<std::byte> to, SourceSite site) {
  check_place(src, from, Bytes{to.size()}, site);
  if (machine_->data_steps) machine_->scheduler.step(core_, site);
  copy_landed(to.data(), {machine_->memory.of(src) + from.value(), to.size()});
  if (silent()) return;
  machine_->tell(
      {.kind = Step::Kind::get, .core = core_, .rank = src, .at = from, .size = Bytes{to.size()}, .site = site});
  machine_->found(machine_->races.on_read(core_, src, from, Bytes{to.size()}, machine_->memory, site));
}

void CheckedFabric::get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) {
  const Unseen unseen;
  read(src, from, to, site);
}

std::span<const std::byte> CheckedFabric::open_read(Rank src, Offset at, Bytes size, SourceSite site) {
  const Unseen unseen;
  if (!peers_->views) return {};
  Staged& staged = reads_.emplace_back(Staged{src, at, std::vector<std::byte>(size.value())});
  read(src, at, staged.bytes, site);
  return staged.bytes;
}

void CheckedFabric::close_read(Rank src, Offset at, Bytes size, SourceSite site) {
  const Unseen unseen;
  const auto staged = std::find_if(reads_.begin(), reads_.end(), [&](const Staged& s) {
    return s.rank == src && s.at == at && s.bytes.size() == size.value();
  });
  if (staged != reads_.end()) reads_.erase(staged);
  if (silent()) return;
  machine_->found(machine_->races.on_read(core_, src, at, size, machine_->memory, site));
}

std::span<std::byte> CheckedFabric::open_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  const Unseen unseen;
  if (!peers_->views) return {};
  check_place(dst, at, size, site);
  Staged& staged = writes_.emplace_back(Staged{dst, at, std::vector<std::byte>(size.value())});
  copy_landed(staged.bytes.data(), {machine_->memory.of(dst) + at.value(), size.value()});
  return staged.bytes;
}

void CheckedFabric::close_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  const Unseen unseen;
  const auto staged = std::find_if(writes_.begin(), writes_.end(), [&](const Staged& s) {
    return s.rank == dst && s.at == at && s.bytes.size() == size.value();
  });
  if (staged == writes_.end()) return;
  put(dst, at, staged->bytes, site);
  writes_.erase(staged);
}

void CheckedFabric::notify(Rank dst, Slot slot, SignalOp op, std::uint64_t value, std::uint32_t group,
                           SourceSite site) {
  machine_->scheduler.act();
  const Offset at = peers_->slots->offset_of(slot);
  machine_->tell({.kind = Step::Kind::signal, .core = core_, .rank = dst, .slot = slot, .value = value, .site = site});
  const Stamp stamp = machine_->races.on_signal(core_, dst, group != 0, site);
  if (immediate(dst)) {
    machine_->memory.apply(dst, at, op, value);
    machine_->races.on_landing(dst, slot, op, stamp);
  } else {
    machine_->memory.send_signal(channel(dst), slot, at, op, value, group, stamp, site);
  }
}

void CheckedFabric::signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) {
  const Unseen unseen;
  shmem::expect_signal(*peers_, dst, slot, op, value, site);
  if (immediate(dst)) visible(dst, slot, site);
  if (silent()) return;
  notify(dst, slot, op, value, 0, site);
}

void CheckedFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op,
                               std::uint64_t value, SourceSite site) {
  const Unseen unseen;
  check_place(dst, to, Bytes{from.size()}, site);
  shmem::expect_signal(*peers_, dst, slot, op, value, site);
  if (immediate(dst)) {
    put(dst, to, from, site);
    signal(dst, slot, op, value, site);
    return;
  }
  if (silent()) return;
  const std::uint32_t group = from.empty() ? 0 : ++machine_->memory.channel(channel(dst)).groups;
  send(dst, to, from, group, site);
  notify(dst, slot, op, value, group, site);
}

void CheckedFabric::fence(Rank dst, SourceSite site) {
  const Unseen unseen;
  shmem::expect_rank(*peers_, dst, site);
  if (silent()) return;
  machine_->tell({.kind = Step::Kind::fence, .core = core_, .rank = dst, .site = site});
  machine_->races.on_fence(core_, dst);
  if (!immediate(dst)) ++machine_->memory.channel(channel(dst)).epoch;
}

void CheckedFabric::quiet(SourceSite site) {
  const Unseen unseen;
  machine_->scheduler.quiet(core_, site);
  if (silent()) return;
  machine_->tell({.kind = Step::Kind::quiet, .core = core_, .rank = peers_->rank, .site = site});
  machine_->races.on_quiet(core_);
}

void CheckedFabric::saw(const WaitSpec& spec, std::size_t index, SourceSite site) {
  const Slot slot = spec.slots[index];
  const std::uint64_t value = load_landed(machine_->memory.of(spec.where) + peers_->slots->offset_of(slot).value());
  machine_->races.on_seen(core_, spec.where, slot, site);
  machine_->tell(
      {.kind = Step::Kind::seen, .core = core_, .rank = spec.where, .slot = slot, .value = value, .site = site});
  if (!spec.observed.empty()) spec.observed[index] = value;
}

/// Every slot of the wait that has to do with its end has been seen.
Arrival CheckedFabric::arrive(const WaitSpec& spec, SourceSite site) {
  const auto word = [&](std::size_t i) { return machine_->scheduler.word(spec.where, spec.slots[i]); };
  Arrival arrival;
  if (spec.match == Match::any) {
    while (!shmem::satisfies(spec.compare, word(arrival.index), spec.value)) ++arrival.index;
    arrival.value = word(arrival.index);
    saw(spec, arrival.index, site);
  } else {
    for (std::size_t i = 0; i < spec.slots.size(); ++i) {
      arrival.value += word(i);
      saw(spec, i, site);
    }
  }
  return arrival;
}

Error CheckedFabric::interrupted(const WaitSpec& spec, SourceSite site) const {
  const Scheduler& scheduler = machine_->scheduler;
  const CoreState& me = scheduler.core(core_);
  if (scheduler.ending()) {
    return Error{.code = scheduler.stuck() ? Errc::deadlock : Errc::aborted,
                 .context = "the checker has ended this run",
                 .site = site};
  }
  const Slot slot = spec.slots[std::min(me.pause.done, spec.slots.size() - 1)];
  const shmem::SleepingWait wait{.spec = spec,
                                 .slot = slot,
                                 .seen = scheduler.word(spec.where, slot),
                                 .waited = shmem::Time{0},
                                 .op = me.op,
                                 .round = me.round,
                                 .core = Core{core_ % (scheduler.cores() / static_cast<std::size_t>(peers_->size()))},
                                 .site = site};
  if (me.pause.timed_out) {
    return Error{
        .code = Errc::deadline, .context = shmem::describe(wait, *peers_), .where = peers_->rank, .site = site};
  }
  std::optional<Error> error = peers_->overseer ? peers_->overseer(wait) : std::nullopt;
  return error.value_or(Error{.code = Errc::aborted, .context = "somebody gave up", .site = site});
}

Result<Arrival> CheckedFabric::wait(const WaitSpec& spec, SourceSite site) {
  const Unseen unseen;
  shmem::expect_wait(*peers_, spec, site);
  Scheduler& scheduler = machine_->scheduler;
  bool others = false;
  for (const Slot slot : spec.slots) {
    others |= scheduler.shared(core_, spec.where, slot);
    scheduler.looked_at(spec.where, slot);
  }
  if (others && scheduler.satisfied(spec, 0)) scheduler.step(core_, site);
  std::optional<shmem::Time> deadline = spec.deadline;
  if (!deadline && peers_->wait_limit) deadline = scheduler.now() + *peers_->wait_limit;

  const std::size_t parts = spec.match == Match::all ? spec.slots.size() : 1;
  std::uint64_t last = 0;
  for (std::size_t done = 0; done < parts; ++done) {
    if (!scheduler.ending() && !scheduler.satisfied(spec, done)) {
      machine_->tell({.kind = Step::Kind::wait,
                      .core = core_,
                      .rank = spec.where,
                      .slot = spec.slots[done],
                      .value = spec.value,
                      .compare = spec.compare,
                      .site = site});
    }
    while (scheduler.ending() || !scheduler.satisfied(spec, done)) {
      if (!scheduler.wait(core_, spec, done, deadline, site)) return interrupted(spec, site);
    }
    if (spec.match != Match::all) return arrive(spec, site);
    last = scheduler.word(spec.where, spec.slots[done]);
    saw(spec, done, site);
  }
  return Arrival{.index = parts - 1, .value = last};
}

std::optional<Arrival> CheckedFabric::test(const WaitSpec& spec, SourceSite site) {
  const Unseen unseen;
  shmem::expect_wait(*peers_, spec, site);
  Scheduler& scheduler = machine_->scheduler;
  for (const Slot slot : spec.slots) {
    (void)scheduler.shared(core_, spec.where, slot);
    scheduler.looked_at(spec.where, slot);
  }
  scheduler.step(core_, site);
  if (silent()) throw Interrupted(interrupted(spec, site));
  bool holds = scheduler.satisfied(spec, 0);
  for (std::size_t i = 1; spec.match == Match::all && holds && i < spec.slots.size(); ++i) {
    holds = scheduler.satisfied(spec, i);
  }
  scheduler.core(core_).polls = !holds;
  if (!holds) return std::nullopt;
  if (spec.match != Match::all) return arrive(spec, site);
  for (std::size_t i = 0; i < spec.slots.size(); ++i) saw(spec, i, site);
  return Arrival{.index = spec.slots.size() - 1, .value = scheduler.word(spec.where, spec.slots.back())};
}

void CheckedFabric::touch(shmem::Access access, Rank owner, Offset at, Bytes size, SourceSite site) {
  const Unseen unseen;
  check_place(owner, at, size, site);
  if (silent()) return;
  if (access == shmem::Access::write) {
    machine_->found(machine_->races.on_write(core_, owner, at, size, site));
  } else {
    machine_->found(machine_->races.on_read(core_, owner, at, size, machine_->memory, site));
  }
}

void CheckedFabric::actor(const shmem::ActorEvent& event, SourceSite site) {
  const Unseen unseen;
  CoreState& me = machine_->scheduler.core(core_);
  if (event.kind == shmem::ActorEvent::Kind::enter) {
    me.op = event.op;
    me.round = event.round;
    machine_->tell(
        {.kind = Step::Kind::enter, .core = core_, .rank = peers_->rank, .site = site, .op = std::string(event.op)});
  } else {
    me.op.clear();
  }
  if (event.kind == shmem::ActorEvent::Kind::stop) machine_->memory.die(core_);
}

}  // namespace shmoe::runtime::check
