#include "shmem/wait.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "shmem/futex.hpp"
#include "shmem/ladder.hpp"

namespace shmoe::shmem {
namespace {

using namespace std::chrono_literals;

/// How often a sleeping wait asks its overseer, who looks after all members: with many of them, less often.
Time tick_of(const Peers& peers) { return 50ms * std::max(1, peers.size() / 32); }

constexpr std::size_t kMaxWaitv = 128;

struct Bell {
  std::atomic_ref<std::uint32_t> sequence;
  std::atomic_ref<std::uint32_t> sleepers;

  explicit Bell(std::byte* slot)
      : sequence(*reinterpret_cast<std::uint32_t*>(slot + 8)), sleepers(*reinterpret_cast<std::uint32_t*>(slot + 12)) {}
  [[nodiscard]] std::uint32_t* futex(std::byte* slot) const { return reinterpret_cast<std::uint32_t*>(slot + 8); }
};

std::atomic_ref<std::uint64_t> word(std::byte* slot) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(slot));
}

/// The number that was last written for this rank.
std::uint64_t challenge_to(const Peers& peers) {
  const std::byte* place = peers.place(peers.rank, peers.map->challenge(), Bytes{sizeof(Challenge)});
  return reinterpret_cast<const Challenge*>(place)->number.load(std::memory_order_seq_cst);
}

Time clock_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

bool satisfies(Compare compare, std::uint64_t seen, std::uint64_t value) {
  switch (compare) {
    case Compare::equal: return seen == value;
    case Compare::at_least: return seen >= value;
    case Compare::not_equal: return seen != value;
    case Compare::at_most: return seen <= value;
  }
  return false;
}

std::optional<Rank> awaited_writer(const SlotPlan& plan, Slot slot, Rank owner, Compare compare, std::uint64_t value) {
  if (!satisfies(compare, 0, value)) return plan.writer_of(slot, owner, Side::source);
  const bool only_zero = value == 0 && (compare == Compare::equal || compare == Compare::at_most);
  return only_zero ? plan.writer_of(slot, owner, Side::owner) : plan.writer_of(slot, owner);
}

void store_word(std::byte* slot, SignalOp op, std::uint64_t value) {
  if (op == SignalOp::set) {
    word(slot).store(value, std::memory_order_release);
  } else {
    word(slot).fetch_add(value, std::memory_order_release);
  }
}

void ring(std::byte* slot, Sharing sharing) {
  const Bell bell(slot);
  if (bell.sleepers.load(std::memory_order_seq_cst) == 0) return;
  bell.sequence.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(bell.futex(slot), sharing);
}

void store_and_ring(std::byte* slot, SignalOp op, std::uint64_t value, Sharing sharing) {
  // Sequentially consistent against the sleeper's {sleepers + 1, look again}: one of the two sees the other.
  if (op == SignalOp::set) {
    word(slot).store(value, std::memory_order_seq_cst);
  } else {
    word(slot).fetch_add(value, std::memory_order_seq_cst);
  }
  ring(slot, sharing);
}

void wake_waiters(const Peers& peers, Rank member) {
  for (Core core{0}; core.value() < peers.control_map.cores; ++core) {
    const WaitRecord& record = peers.control_map.record(peers.controls[member.index()], core);
    if (record.epoch.load(std::memory_order_seq_cst) % 2 == 0) continue;
    const Rank where{record.where.load(std::memory_order_relaxed)};
    const Slot slot{record.slot.load(std::memory_order_relaxed)};
    if (where.value() >= 0 && where.value() < peers.size()) ring(peers.place(where, slot), peers.sharing);
  }
}

std::uint64_t load_slot(const Peers& peers, Rank owner, Slot slot) {
  return word(peers.place(owner, slot)).load(std::memory_order_seq_cst);
}

std::uint64_t load_word(const Peers& peers, Rank owner, Offset at) {
  return word(peers.place(owner, at, Bytes{sizeof(std::uint64_t)})).load(std::memory_order_relaxed);
}

std::byte* Waiter::place(const WaitSpec& spec, std::size_t index) const {
  return peers_->place(spec.where, spec.slots[index]);
}

bool Waiter::all(const WaitSpec& spec, Progress& progress, Arrival& arrival) const {
  while (progress.done < spec.slots.size()) {
    progress.blocking = progress.done;
    progress.seen = load_slot(*peers_, spec.where, spec.slots[progress.done]);
    if (!satisfies(spec.compare, progress.seen, spec.value)) return false;
    if (!spec.observed.empty()) spec.observed[progress.done] = progress.seen;
    ++progress.done;
  }
  arrival = {.index = spec.slots.size() - 1, .value = progress.seen};
  return true;
}

bool Waiter::any(const WaitSpec& spec, Progress& progress, Arrival& arrival) const {
  progress.blocking = 0;
  for (std::size_t i = 0; i < spec.slots.size(); ++i) {
    const std::uint64_t seen = load_slot(*peers_, spec.where, spec.slots[i]);
    if (i == 0) progress.seen = seen;
    if (!spec.observed.empty()) spec.observed[i] = seen;
    if (satisfies(spec.compare, seen, spec.value)) {
      arrival = {.index = i, .value = seen};
      return true;
    }
  }
  return false;
}

bool Waiter::sum(const WaitSpec& spec, Progress& progress, Arrival& arrival) const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < spec.slots.size(); ++i) {
    const std::uint64_t seen = load_slot(*peers_, spec.where, spec.slots[i]);
    if (!spec.observed.empty()) spec.observed[i] = seen;
    total += seen;
  }
  progress.blocking = 0;
  progress.seen = total;
  arrival = {.index = 0, .value = total};
  return total >= spec.value && total <= spec.upper;
}

bool Waiter::satisfied(const WaitSpec& spec, Progress& progress, Arrival& arrival) const {
  switch (spec.match) {
    case Match::all: return all(spec, progress, arrival);
    case Match::any: return any(spec, progress, arrival);
    case Match::sum: return sum(spec, progress, arrival);
  }
  return false;
}

std::optional<Arrival> Waiter::test(const WaitSpec& spec) const {
  Progress progress;
  Arrival arrival;
  if (!satisfied(spec, progress, arrival)) return std::nullopt;
  return arrival;
}

bool Waiter::sleep_once(const WaitSpec& spec, Progress& progress, Arrival& arrival, Time limit) const {
  // One false slot carries an `all`; `any` and `sum` may be ended by each of their slots.
  const std::size_t first = spec.match == Match::all ? progress.done : 0;
  const std::size_t count = spec.match == Match::all ? 1 : std::min(spec.slots.size(), kMaxWaitv);
  std::array<futex_waitv, kMaxWaitv> bells{};
  const std::uint32_t flags = FUTEX_32 | (sharing_ == Sharing::threads ? FUTEX_PRIVATE_FLAG : 0U);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* slot = place(spec, first + i);
    const Bell bell(slot);
    bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
    bells[i].val = bell.sequence.load(std::memory_order_seq_cst);
    bells[i].uaddr = reinterpret_cast<std::uintptr_t>(bell.futex(slot));
    bells[i].flags = flags;
  }
  const bool done = satisfied(spec, progress, arrival);
  const bool moved_on = spec.match == Match::all && progress.done != first;
  if (!done && !moved_on) {
    if (count < spec.slots.size() && spec.match != Match::all) limit = std::min<Time>(limit, 1ms);
    if (count == 1) {
      futex_sleep(reinterpret_cast<std::uint32_t*>(bells[0].uaddr), static_cast<std::uint32_t>(bells[0].val), limit,
                  sharing_);
    } else {
      futex_sleep_any({bells.data(), count}, limit, sharing_);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    Bell(place(spec, first + i)).sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
  return done;
}

Result<Arrival> Waiter::sleep(const WaitSpec& spec, Progress& progress, const Activity& activity, SourceSite site) {
  const Time start = clock_now();
  std::optional<Time> deadline = spec.deadline;
  if (!deadline && peers_->wait_limit && *peers_->wait_limit < Time::max() - start)
    deadline = start + *peers_->wait_limit;
  const Time tick = tick_of(*peers_);
  Time next_tick = start + tick;
  Arrival arrival;
  while (true) {
    const Time now = clock_now();
    const SleepingWait self{.spec = spec,
                            .slot = spec.slots[progress.blocking],
                            .seen = progress.seen,
                            .waited = now - start,
                            .op = activity.op,
                            .round = activity.round,
                            .core = activity.core,
                            .site = site};
    record_->slot.store(self.slot.value(), std::memory_order_relaxed);
    if (deadline && now >= *deadline) {
      return Error{
          .code = Errc::deadline,
          .context = fmt::format("{}; see what its writer does with `shmoe inspect`, or {}", describe(self, *peers_),
                                 spec.deadline ? "wait longer" : "raise SHMOE_WAIT_LIMIT_MS"),
          .where = is_overrun(self, *peers_->slots) ? peers_->slots->writer_of(self.slot, spec.where) : std::nullopt,
          .site = site};
    }
    if (now >= next_tick) {
      if (peers_->overseer) {
        if (std::optional<Error> verdict = peers_->overseer(self)) {
          // Whoever ends right after its last signal is no loss: the word was there before the end.
          if (satisfied(spec, progress, arrival)) return arrival;
          return *std::move(verdict);
        }
      }
      next_tick = now + tick;
    }
    const Time limit = deadline ? std::min(next_tick, *deadline) - now : next_tick - now;
    if (sleep_once(spec, progress, arrival, limit)) return arrival;
    const std::uint64_t challenge = challenge_to(*peers_);  // before the look that answers it
    if (satisfied(spec, progress, arrival)) return arrival;
    record_->echo.store(challenge, std::memory_order_seq_cst);
  }
}

Result<Arrival> Waiter::wait(const WaitSpec& spec, const Activity& activity, SourceSite site) {
  Progress progress;
  Arrival arrival;
  const auto ready = [&] { return satisfied(spec, progress, arrival); };
  // Written only by whoever goes on waiting: it costs as much as the way of a signal between two cores.
  if (spin(peers_->crowd, ready)) return arrival;

  const auto go_on = [&] {
    return yield(peers_->crowd, ready) ? Result<Arrival>(arrival) : sleep(spec, progress, activity, site);
  };
  if (!peers_->notes) return go_on();
  write_record(spec, progress, activity, site);
  record_->epoch.fetch_add(1, std::memory_order_seq_cst);
  write_event(EventKind::wait_begin, spec.value, spec, activity, site);
  Result<Arrival> result = go_on();
  record_->epoch.fetch_add(1, std::memory_order_seq_cst);
  write_event(result ? EventKind::wait_end : EventKind::wait_failed, result ? result->value : progress.seen, spec,
              activity, site);
  return result;
}

void Waiter::write_event(EventKind kind, std::uint64_t value, const WaitSpec& spec, const Activity& activity,
                         SourceSite site) {
  Event event{.time_ns = clock_now().count(),
              .value = value,
              .round = activity.round,
              .rank = spec.where,
              .slot = spec.slots.front(),
              .count = static_cast<std::uint16_t>(std::min<std::size_t>(spec.slots.size(), UINT16_MAX)),
              .kind = kind,
              .line = site.line};
  event.set_text(site.file);
  ring_->write(event);
}

void Waiter::write_record(const WaitSpec& spec, const Progress& progress, const Activity& activity, SourceSite site) {
  WaitRecord& record = *record_;
  record.value.store(spec.value, std::memory_order_relaxed);
  record.round.store(activity.round.value(), std::memory_order_relaxed);
  record.since_ns.store(clock_now().count(), std::memory_order_relaxed);
  record.slot.store(spec.slots[progress.blocking].value(), std::memory_order_relaxed);
  record.count.store(static_cast<std::uint32_t>(spec.slots.size()), std::memory_order_relaxed);
  record.where.store(spec.where.value(), std::memory_order_relaxed);
  record.match.store(static_cast<std::uint8_t>(spec.match), std::memory_order_relaxed);
  record.compare.store(static_cast<std::uint8_t>(spec.compare), std::memory_order_relaxed);
  // The limit of a SyncAll is not its caller's: whoever passes it fails like any wait that passes the general limit.
  const bool sync_all = peers_->slots->family_of(spec.slots.front()).name == "sync_all";
  record.may_give_up.store(spec.deadline && !sync_all ? 1 : 0, std::memory_order_relaxed);
  record.site.store(site.file, site.line);
  if (spec.match == Match::all) return;
  list_->upper.store(spec.upper, std::memory_order_relaxed);
  for (std::size_t i = 0; i < std::min(spec.slots.size(), WaitList::kLongest); ++i) {
    list_->slots[i].store(spec.slots[i].value(), std::memory_order_relaxed);
  }
}

namespace {

/// "0x200 (barrier 2)": words of barriers are always the library's own; any other slot holds what its users agreed on.
std::string meaning(std::uint64_t word, const SleepingWait& wait, const Peers& peers) {
  if (word == 0 || wait.spec.match == Match::sum || peers.slots->family_of(wait.slot).name != "barrier") {
    return fmt::format("{:#x}", word);
  }
  if (peers.flag_word == FlagWord::magic32_value32) {
    return fmt::format("{:#x} (magic {}, value {})", word, word >> 32, word & 0xFFFF'FFFFU);
  }
  const Errc raised = error_in(word);
  return fmt::format("{:#x} (barrier {}{})", word, word >> 8,
                     raised == Errc::ok ? "" : fmt::format(", error: {}", name_of(raised)));
}

/// "== 0x7", or of a sum "in [0x3, 0x5]".
std::string expectation(const SleepingWait& wait, const Peers& peers) {
  const WaitSpec& spec = wait.spec;
  if (spec.match == Match::sum && spec.upper != std::numeric_limits<std::uint64_t>::max()) {
    return fmt::format("in [{:#x}, {:#x}]", spec.value, spec.upper);
  }
  const Compare compare = spec.match == Match::sum ? Compare::at_least : spec.compare;
  return fmt::format("{} {}", sign_of(compare), meaning(spec.value, wait, peers));
}

/// The slot that the text is about, and what the others of the wait are.
std::string waited_for(const SleepingWait& wait, const Peers& peers) {
  const std::string slot = peers.slots->describe(wait.slot);
  const std::size_t count = wait.spec.slots.size();
  if (count == 1) return slot;
  if (wait.spec.match == Match::sum) return fmt::format("the sum of {} slots with {}", count, slot);
  return wait.spec.match == Match::all ? fmt::format("{} (the first of {} slots that is still missing)", slot, count)
                                       : fmt::format("{} (any of {} slots ends the wait)", slot, count);
}

}  // namespace

bool is_overrun(const SleepingWait& wait, const SlotPlan& plan) {
  return wait.spec.match == Match::all && wait.spec.compare == Compare::equal && wait.seen > wait.spec.value &&
         !plan.family_of(wait.slot).goes_back();
}

std::string describe(const SleepingWait& wait, const Peers& peers) {
  const std::string scope = peers.scope.empty() ? "" : fmt::format(" ({})", peers.scope);
  return fmt::format(
      "rank {}{} core {} in {} round {} waited {:.1f} s at {}:{} for {} in rank {}'s memory to be {}, sees {}{}",
      peers.rank, scope, wait.core, wait.op.empty() ? "no operator" : wait.op, wait.round,
      std::chrono::duration<double>(wait.waited).count(), wait.site.file, wait.site.line, waited_for(wait, peers),
      wait.spec.where, expectation(wait, peers), meaning(wait.seen, wait, peers),
      is_overrun(wait, *peers.slots) ? ", which is past it" : "");
}

}  // namespace shmoe::shmem
