#include "runtime/fault_fabric.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/write_channels.hpp"
#include "shmem/hash.hpp"

namespace shmoe::runtime {
namespace {

using shmem::Arrival;
using shmem::Match;
using shmem::Time;
using shmem::WaitSpec;

/// How long a late look is put off where the word does not go past.
constexpr Time kLatest = std::chrono::seconds(5);

bool holds_back(const Fault& fault) { return fault.action == FaultAction::weak || fault.action == FaultAction::hold; }

bool is_of_rank(const Fault& fault, Rank rank) { return fault.at.rank.value_or(rank) == rank; }

}  // namespace

RankFaults::RankFaults(const FaultPlan& plan, Rank rank) : rank_(rank), seed_(plan.seed) {
  std::ranges::copy_if(plan.faults, std::back_inserter(faults_),
                       [rank](const Fault& fault) { return is_of_rank(fault, rank); });
}

std::span<std::uint8_t> RankFaults::marks() { return marks_.emplace_back(faults_.size(), std::uint8_t{0}); }

std::vector<Fault> RankFaults::missed() const {
  std::vector<Fault> missed;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const bool met = std::ranges::any_of(marks_, [i](const auto& row) { return row[i] != 0; });
    if (!met) missed.push_back(faults_[i]);
  }
  return missed;
}

FaultFabric::FaultFabric(std::unique_ptr<shmem::Fabric> next, std::shared_ptr<RankFaults> faults,
                         const shmem::Peers& peers, Core core)
    : PassingFabric(std::move(next)),
      faults_(std::move(faults)),
      peers_(&peers),
      slots_(peers.slots),
      pause_(this->next(), peers),
      abort_text_(peers.map->abort_text()),
      me_(peers.rank),
      random_(shmem::scattered(shmem::scattered(faults_->seed() + faults_->rank().index()) + core.index())) {
  const std::span<std::uint8_t> marks = faults_->marks();
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Fault& fault = faults_->faults()[i];
    const bool reaches = fault.action != FaultAction::redirect || fault.amount < peers.size();
    if (reaches && fault.at.core.value_or(core) == core) armed_.push_back({.fault = &fault, .mark = &marks[i]});
  }
  if (std::ranges::any_of(armed_, [](const Armed& armed) { return holds_back(*armed.fault); }))
    channels_ = std::make_unique<WriteChannels>(this->next(), peers, core, random_());
}

FaultFabric::~FaultFabric() = default;

bool FaultFabric::may_meet(FaultCall call) const {
  return std::ranges::any_of(armed_, [call](const Armed& armed) {
    return armed.fault->at.call == call || armed.fault->at.call == FaultCall::any;
  });
}

bool FaultFabric::is_family(const Fault& fault, std::optional<Slot> slot) const {
  return !fault.at.family || (slot && slots_->family_of(*slot).name == *fault.at.family);
}

FaultFabric::Fate FaultFabric::meet(FaultCall call, std::optional<Slot> slot, SourceSite site) {
  Fate fate;
  for (Armed& armed : armed_) {
    const FaultPoint& at = armed.fault->at;
    const bool such = at.call == call || at.call == FaultCall::any;
    if (!armed.here || !such || !is_family(*armed.fault, slot)) continue;
    ++armed.calls;
    if (armed.calls < at.first || armed.calls > at.last) continue;
    *armed.mark = 1;
    act(*armed.fault, fate, site);
  }
  return fate;
}

void FaultFabric::act(const Fault& fault, Fate& fate, SourceSite site) {
  switch (fault.action) {
    case FaultAction::drop:
    case FaultAction::skip: fate.lost = true; return;
    case FaultAction::tear: fate.bytes = static_cast<std::size_t>(fault.amount); return;
    case FaultAction::late: fate.late = true; return;
    case FaultAction::twice: fate.twice = true; return;
    case FaultAction::redirect: fate.receiver = Rank{fault.amount}; return;
    case FaultAction::slot: fate.slot += static_cast<std::uint64_t>(fault.amount); return;
    case FaultAction::weak: fate.holding = std::max(fate.holding, Holding::weak); return;
    case FaultAction::hold: fate.holding = Holding::hold; return;
    case FaultAction::value: fate.value += static_cast<std::uint64_t>(fault.amount); return;
    case FaultAction::delay: {
      const auto width = static_cast<std::uint64_t>((fault.longest - fault.shortest).count()) + 1;
      return pause_.until(next().now() + fault.shortest + Time{static_cast<std::int64_t>(random_() % width)}, site);
    }
    case FaultAction::stall: return pause_.until(Time::max(), site);
    // Both reach this thread before the call, and the others of the process with it.
    case FaultAction::stop: static_cast<void>(std::raise(SIGSTOP)); return;
    case FaultAction::kill: static_cast<void>(std::raise(SIGKILL)); return;
  }
}

/// As the ledgers tell it: more often than it was given back, by two.
bool FaultFabric::is_set_again(Rank owner, Slot slot) const {
  if (peers_->controls.empty()) return false;
  const auto times = [&](shmem::Side side) {
    const Rank writer = *slots_->writer_of(slot, owner, side);
    const std::uint32_t entry = slots_->ledger_index(owner, slot, Core{0}, side);
    return peers_->control_map.ledger(peers_->controls[writer.index()], entry).count.load(std::memory_order_acquire);
  };
  return times(shmem::Side::source) > times(shmem::Side::owner) + 1;
}

/// Any of the slots, since any of them may be the one. A flag that goes back to 0 does not grow past what is awaited.
bool FaultFabric::is_past(const WaitSpec& spec, SourceSite site) {
  if (spec.match == Match::sum && slots_->family_of(spec.slots.front()).goes_back()) {
    return std::ranges::any_of(spec.slots, [&](Slot slot) { return is_set_again(spec.where, slot); });
  }
  const std::uint64_t last = spec.match == Match::sum ? spec.upper : spec.value;
  const WaitSpec past{
      .where = spec.where, .slots = spec.slots, .match = Match::any, .compare = Compare::at_least, .value = last + 1};
  return next().test(past, site).has_value();
}

/// A protocol that cannot be overtaken is let go after a while.
void FaultFabric::hold_until_past(const WaitSpec& spec, SourceSite site) {
  pause_.until(
      next().now() + kLatest, [&] { return is_past(spec, site); }, site);
}

void FaultFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  if (to == abort_text_) give_up();
  const Fate fate = meet(FaultCall::put, std::nullopt, site);
  if (fate.lost) return;
  const Rank receiver = fate.receiver.value_or(dst);
  const auto landing = from.first(std::min(from.size(), fate.bytes.value_or(from.size())));
  if (channels_) return channels_->put(receiver, to, landing, fate.holding, site);
  next().put(receiver, to, landing, site);
}

void FaultFabric::get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) {
  const Fate fate = meet(FaultCall::get, std::nullopt, site);
  if (fate.lost) return;
  if (channels_) channels_->go_on();
  next().get(src, from, to.first(std::min(to.size(), fate.bytes.value_or(to.size()))), site);
}

std::span<const std::byte> FaultFabric::open_read(Rank src, Offset at, Bytes size, SourceSite site) {
  if (channels_) channels_->go_on();
  if (!may_meet(FaultCall::get)) return next().open_read(src, at, size, site);
  next().touch(shmem::Access::read, src, at, size, site);  // a range that is none is refused here
  return {};
}

std::span<std::byte> FaultFabric::open_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  const bool held_back = channels_ && dst != me_;
  if (!may_meet(FaultCall::put) && !held_back) return next().open_write(dst, at, size, site);
  next().touch(shmem::Access::write, dst, at, size, site);
  return {};
}

/// A slot before the first or behind the last is none, and the call is refused as such.
FaultFabric::Signal FaultFabric::altered(const Signal& sent, const Fate& fate) {
  constexpr std::uint64_t kNone = std::numeric_limits<Slot::rep>::max();
  return {.dst = fate.receiver.value_or(sent.dst),
          .slot = Slot{std::min(sent.slot.value() + fate.slot, kNone)},
          .op = sent.op,
          .value = sent.value + fate.value};
}

void FaultFabric::deliver(const Signal& signal, Holding holding, SourceSite site) {
  if (channels_) return channels_->signal(signal.dst, signal.slot, signal.op, signal.value, holding, site);
  next().signal(signal.dst, signal.slot, signal.op, signal.value, site);
}

void FaultFabric::signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) {
  const Fate fate = meet(FaultCall::signal, slot, site);
  if (fate.lost) return;
  const Signal signal = altered({.dst = dst, .slot = slot, .op = op, .value = value}, fate);
  deliver(signal, fate.holding, site);
  if (fate.twice) deliver(signal, fate.holding, site);
}

void FaultFabric::signal_each(std::span<const Rank> dsts, Slot slot, shmem::SignalOp op, std::uint64_t value,
                              SourceSite site) {
  if (!may_meet(FaultCall::signal) && !channels_) return next().signal_each(dsts, slot, op, value, site);
  for (const Rank dst : dsts) signal(dst, slot, op, value, site);
}

void FaultFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                             std::uint64_t value, SourceSite site) {
  const Fate fate = meet(FaultCall::put_signal, slot, site);
  if (fate.lost) return;
  const Signal signal = altered({.dst = dst, .slot = slot, .op = op, .value = value}, fate);
  const auto landing = from.first(std::min(from.size(), fate.bytes.value_or(from.size())));
  if (channels_) {
    channels_->put_signal(signal.dst, to, landing, signal.slot, op, signal.value, fate.holding, site);
  } else {
    next().put_signal(signal.dst, to, landing, signal.slot, op, signal.value, site);
  }
  if (fate.twice) deliver(signal, fate.holding, site);
}

void FaultFabric::fence(Rank dst, SourceSite site) {
  if (meet(FaultCall::fence, std::nullopt, site).lost) return;
  next().fence(dst, site);
  if (channels_) channels_->fence(dst);
}

void FaultFabric::quiet(SourceSite site) {
  if (meet(FaultCall::quiet, std::nullopt, site).lost) return;
  if (channels_) channels_->quiet();
  next().quiet(site);
}

/// What a wait returns that is left out: the words as they are.
Result<Arrival> FaultFabric::glance(const WaitSpec& spec, SourceSite site) {
  std::vector<std::uint64_t> words(spec.slots.size());
  const auto sum =
      next().test({.where = spec.where, .slots = spec.slots, .match = Match::sum, .observed = words}, site);
  if (!spec.observed.empty()) std::ranges::copy(words, spec.observed.begin());
  if (spec.match == Match::any) return Arrival{.index = 0, .value = words.front()};
  if (spec.match == Match::all) return Arrival{.index = words.size() - 1, .value = words.back()};
  return Arrival{.index = 0, .value = sum ? sum->value : 0};
}

Result<Arrival> FaultFabric::wait(const WaitSpec& spec, SourceSite site) {
  const std::optional<Slot> slot = spec.slots.empty() ? std::nullopt : std::optional(spec.slots.front());
  const Fate fate = meet(FaultCall::wait, slot, site);
  if (fate.lost) return glance(spec, site);
  if (fate.late) hold_until_past(spec, site);
  return channels_ ? channels_->wait(spec, site) : next().wait(spec, site);
}

std::optional<Arrival> FaultFabric::test(const WaitSpec& spec, SourceSite site) {
  return channels_ ? channels_->test(spec, site) : next().test(spec, site);
}

void FaultFabric::start(std::string_view op) {
  for (Armed& armed : armed_) {
    const FaultPoint& at = armed.fault->at;
    armed.calls = 0;
    armed.here = !at.op || *at.op == op;
    if (armed.here) ++armed.launches;
    armed.here = armed.here && armed.launches == at.launch.value_or(armed.launches);
  }
}

void FaultFabric::disarm() {
  for (Armed& armed : armed_) armed.here = false;
}

void FaultFabric::give_up() {
  disarm();
  if (channels_) channels_->give_up();
}

void FaultFabric::actor(const shmem::ActorEvent& event, SourceSite site) {
  if (event.kind == shmem::ActorEvent::Kind::start) start(event.op);
  if (event.kind == shmem::ActorEvent::Kind::leave || event.kind == shmem::ActorEvent::Kind::stop) {
    disarm();
    if (channels_) channels_->leave();
  }
  next().actor(event, site);
}

}  // namespace shmoe::runtime
