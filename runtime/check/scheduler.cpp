#include "runtime/check/scheduler.hpp"

#include <algorithm>
#include <utility>

#include "shmem/wait.hpp"

namespace shmoe::runtime::check {
namespace {

constexpr ActorId kUntouched = 0xFFFF'FFFFU;
constexpr ActorId kShared = 0xFFFF'FFFEU;
// How often the cores of a run that is over are resumed; each call after the other fails, so few are needed.
constexpr std::size_t kMostRounds = 10'000;

}  // namespace

Scheduler::Scheduler(std::int32_t ranks, std::int32_t cores, const shmem::SlotPlan& slots, Memory& memory,
                     OnLanding on_landing)
    : slots_(&slots),
      per_rank_(cores),
      memory_(&memory),
      on_landing_(std::move(on_landing)),
      owners_(static_cast<std::size_t>(ranks), std::vector<ActorId>(slots.size(), kUntouched)),
      awaited_(static_cast<std::size_t>(ranks), std::vector<std::uint64_t>(slots.size())) {
  for (std::int32_t core = 0; core < ranks * cores; ++core) cores_.emplace_back();
  // Whether a step is visible must not depend on the schedules before, or a recording is of no use elsewhere. Only a
  // rank of one core is alone with the slots that its own cores write.
  for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (cores == 1 && slots.family_of(Slot{slot}).writers == shmem::Writers::own_cores) continue;
    for (std::vector<ActorId>& owners : owners_) owners[slot] = kShared;
  }
}

void Scheduler::start(std::size_t core, std::function<void()> body) {
  cores_[core].busy = true;
  cores_[core].pause = {.kind = Pause::Kind::step};
  cores_[core].fiber.assign(std::move(body));
}

bool Scheduler::satisfied(const shmem::WaitSpec& spec, std::size_t done) const {
  const auto holds = [&](Slot slot) { return shmem::satisfies(spec.compare, word(spec.where, slot), spec.value); };
  switch (spec.match) {
    case shmem::Match::all: return holds(spec.slots[done]);
    case shmem::Match::any: return std::any_of(spec.slots.begin(), spec.slots.end(), holds);
    case shmem::Match::sum: {
      std::uint64_t sum = 0;
      for (const Slot slot : spec.slots) sum += word(spec.where, slot);
      return sum >= spec.value && sum <= spec.upper;
    }
  }
  return false;
}

/// The rank, or one it works with, has given up: its waits end.
bool Scheduler::given_up(std::size_t core) const {
  const auto rank = Rank{core / static_cast<std::size_t>(per_rank_)};
  return word(rank, slots_->abort().at(0, Rank{0})) != 0;
}

bool Scheduler::can_go_on(std::size_t core) const {
  const CoreState& state = cores_[core];
  if (!state.busy) return false;
  switch (state.pause.kind) {
    case Pause::Kind::none:
    case Pause::Kind::step: return true;
    case Pause::Kind::wait:
      return state.pause.timed_out || satisfied(*state.pause.wait, state.pause.done) || given_up(core);
    case Pause::Kind::quiet: return memory_->all_landed(core);
    case Pause::Kind::join: return state.running == 0;
  }
  return false;
}

void Scheduler::collect() {
  options_.clear();
  const auto all = static_cast<ActorId>(cores_.size() + memory_->channels());
  const auto consider = [&](ActorId actor) {
    const bool able = actor < cores_.size() ? can_go_on(actor) : !memory_->channel(actor - cores_.size()).empty();
    if (able) options_.push_back(actor);
  };
  const bool polls = polling_ && current_ < cores_.size();
  for (ActorId i = polls ? 1 : 0; i < all; ++i) consider((current_ + i) % all);
  if (polls) consider(current_);
}

std::size_t Scheduler::decide(const Decision& decision) {
  if (decision.options == 1) return 0;
  for (const ActorId actor : decision.actors) fingerprint_ = (fingerprint_ ^ actor) * 1099511628211U;
  fingerprint_ = (fingerprint_ ^ decision.options) * 1099511628211U;
  const std::size_t option = strategy_->pick(decision);
  if (option != 0) deviations_.push_back({decisions_, static_cast<std::uint32_t>(option)});
  ++decisions_;
  return option;
}

void Scheduler::deliver(std::size_t channel) {
  const Channel& way = memory_->channel(channel);
  units_.clear();
  for (std::size_t i = 0; i < way.units.size(); ++i) {
    if (way.may_land(i)) units_.push_back(static_cast<ActorId>(i));
  }
  const std::size_t option = decide({.actors = {}, .options = units_.size() + (way.dead ? 1 : 0)});
  if (option == units_.size()) return memory_->drop(channel);
  const std::size_t unit = units_[option];
  const Unit landed = memory_->land(channel, unit);
  if (landed.is_signal) {
    (void)shared(cores_.size() + channel, memory_->destination(channel), landed.slot);
  }
  on_landing_(channel, landed);
}

/// A wait with a deadline fails only when nothing else can happen any more.
bool Scheduler::pass_time() {
  CoreState* first = nullptr;
  for (CoreState& state : cores_) {
    if (!state.busy || state.pause.kind != Pause::Kind::wait || !state.pause.deadline) continue;
    if (first == nullptr || *state.pause.deadline < *first->pause.deadline) first = &state;
  }
  if (first == nullptr) return false;
  now_ = std::max(now_, *first->pause.deadline);
  first->pause.timed_out = true;
  return true;
}

std::uint32_t Scheduler::choose() {
  while (!stopping_) {
    if (too_long_ || ++steps_ > most_steps_) {
      too_long_ = true;
      return kNobody;
    }
    collect();
    if (options_.empty()) {
      if (pass_time()) continue;
      stuck_ = std::any_of(cores_.begin(), cores_.end(), [](const CoreState& state) { return state.busy; });
      return kNobody;
    }
    const bool polls = polling_ && options_.back() == current_;
    const std::size_t option = decide({.actors = options_,
                                       .options = options_.size(),
                                       .current_can_go_on = options_[0] == current_,
                                       .last_polls = polls && options_.size() > 1});
    current_ = options_[option];
    polling_ = false;
    if (current_ < cores_.size()) return current_;
    deliver(current_ - cores_.size());
  }
  return kNobody;
}

void Scheduler::resume(std::size_t core) {
  CoreState& state = cores_[core];
  state.fiber.resume();
  if (state.fiber.idle()) state.busy = false;
}

void Scheduler::run(Strategy& strategy, std::size_t most_steps) {
  strategy_ = &strategy;
  most_steps_ = most_steps;
  next_ = choose();
  while (next_ != kNobody) {
    const std::uint32_t core = std::exchange(next_, kNobody);
    resume(core);
    // It ended, or it has chosen who is next.
    if (!cores_[core].busy) next_ = choose();
  }
}

void Scheduler::end() {
  ending_ = true;
  // A core may start others even now, so again until nobody is left.
  std::size_t rounds = 0;
  for (bool left = true; left;) {
    left = false;
    SHMOE_EXPECTS(++rounds < kMostRounds,
                  "the run is over and every wait fails, but the program does not end: it tries again for ever");
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      if (!cores_[core].busy) continue;
      if (cores_[core].pause.kind == Pause::Kind::join && cores_[core].running > 0) continue;
      resume(core);
      left = true;
    }
  }
}

void Scheduler::reset() {
  ++run_;
  for (CoreState& state : cores_) {
    state.pause = {};
    state.running = 0;
    state.polls = false;
    state.op.clear();
    state.round = Round{};
  }
  current_ = 0;
  next_ = kNobody;
  polling_ = ending_ = stopping_ = stuck_ = too_long_ = false;
  steps_ = 0;
  deviations_.clear();
  decisions_ = 0;
  fingerprint_ = 14695981039346656037U;
  now_ = shmem::Time{0};
}

/// Stops here until chosen again.
void Scheduler::pause(std::size_t core) {
  next_ = choose();
  if (next_ == core) {
    next_ = kNobody;
  } else {
    cores_[core].fiber.suspend();
  }
  cores_[core].pause.kind = Pause::Kind::none;
}

void Scheduler::step(std::size_t core, SourceSite site) {
  if (ending_) return;
  polling_ = cores_[core].polls;
  cores_[core].polls = false;
  cores_[core].pause = {.kind = Pause::Kind::step, .site = site};
  pause(core);
}

bool Scheduler::wait(std::size_t core, const shmem::WaitSpec& spec, std::size_t done,
                     std::optional<shmem::Time> deadline, SourceSite site) {
  if (ending_) return false;
  cores_[core].polls = false;
  Pause& state = cores_[core].pause;
  state = {.kind = Pause::Kind::wait, .wait = &spec, .done = done, .deadline = deadline, .site = site};
  pause(core);
  return !ending_ && !state.timed_out && satisfied(spec, done);
}

void Scheduler::quiet(std::size_t core, SourceSite site) {
  if (ending_ || memory_->all_landed(core)) return;
  cores_[core].pause = {.kind = Pause::Kind::quiet, .site = site};
  pause(core);
}

void Scheduler::join(std::size_t core) {
  if (cores_[core].running == 0) return;
  cores_[core].pause = {.kind = Pause::Kind::join};
  if (ending_) {
    cores_[core].fiber.suspend();
  } else {
    pause(core);
  }
}

bool Scheduler::shared(std::size_t actor, Rank owner, Slot slot) {
  ActorId& owned_by = owners_[owner.index()][slot.index()];
  if (owned_by == kShared) return true;
  if (owned_by == kUntouched) owned_by = static_cast<ActorId>(actor);
  if (owned_by == actor) return false;
  owned_by = kShared;
  outdated_ = true;
  return true;
}

}  // namespace shmoe::runtime::check
