#pragma once
// Runs the cores of all ranks as fibers of one thread, one step at a time, and lets the strategy choose who goes next:
// a core, or a channel with something to deliver.
//
//   a core runs until its next visible step: a wait, a test, a quiet that must wait, a signal to its own rank
//   nobody can go on and somebody waits        -> virtual time moves to the next deadline, or the wait is stuck for ever
//
// A slot that the cores of a rank of one core keep among themselves is no visible step. Should another actor touch it all
// the same, `outdated()` says that schedules explored before do not count.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/check/fiber.hpp"
#include "runtime/check/memory.hpp"
#include "runtime/check/strategy.hpp"
#include "shmem/fabric.hpp"
#include "shmem/signal.hpp"

namespace shmoe::runtime::check {

/// What a core is stopped at.
struct Pause {
  enum class Kind : std::uint8_t { none, step, wait, quiet, join };
  Kind kind = Kind::none;
  const shmem::WaitSpec* wait = nullptr;
  std::size_t done = 0;  // of an all-wait: slots seen so far
  std::optional<shmem::Time> deadline = {};
  bool timed_out = false;
  SourceSite site = {};
};

/// One core of one rank.
struct CoreState {
  Fiber fiber;
  Pause pause;
  bool busy = false;        // has a body
  std::size_t running = 0;  // cores that its launch waits for
  bool polls = false;       // its last test failed
  std::string op;
  Round round;
};

class Scheduler {
 public:
  /// Called for each unit that lands.
  using OnLanding = std::function<void(std::size_t channel, const Unit& unit)>;

  Scheduler(std::int32_t ranks, std::int32_t cores, const shmem::SlotPlan& slots, Memory& memory, OnLanding on_landing);

  /// Runs the bodies given by start() to their end, or to where nobody can go on: then `stuck()` is true and every wait
  /// returns when end() has been called.
  void run(Strategy& strategy, std::size_t most_steps);
  void start(std::size_t core, std::function<void()> body);
  /// Lets every fiber run to its end: waits fail, nothing is sent any more.
  void end();
  void reset();

  // From within a core.
  /// An act that nobody else sees, so that a core that does nothing else comes to an end, too.
  void act() {
    if (++steps_ <= most_steps_ || ending_) return;
    too_long_ = true;
    throw Interrupted(Error{.code = Errc::aborted, .context = "the step limit of the checker"});
  }
  /// The next step is visible to others.
  void step(std::size_t core, SourceSite site);
  /// Until the next slot of the wait is satisfied; false where the deadline passed or the run ends.
  /// Order:   none; the caller joins what it saw
  bool wait(std::size_t core, const shmem::WaitSpec& spec, std::size_t done, std::optional<shmem::Time> deadline,
            SourceSite site);
  /// Order:   what the core sent has landed on return
  void quiet(std::size_t core, SourceSite site);
  void join(std::size_t core);

  /// Whether another actor has touched the slot in this or an earlier run.
  bool shared(std::size_t actor, Rank owner, Slot slot);
  [[nodiscard]] bool satisfied(const shmem::WaitSpec& spec, std::size_t done) const;
  [[nodiscard]] std::uint64_t word(Rank owner, Slot slot) const {
    return memory_->word(owner, slots_->offset_of(slot));
  }

  /// Whether a wait or a test has looked at the slot in this run.
  [[nodiscard]] bool awaited(Rank owner, Slot slot) const { return awaited_[owner.index()][slot.index()] == run_; }
  void looked_at(Rank owner, Slot slot) { awaited_[owner.index()][slot.index()] = run_; }

  [[nodiscard]] CoreState& core(std::size_t core) { return cores_[core]; }
  [[nodiscard]] const CoreState& core(std::size_t core) const { return cores_[core]; }
  [[nodiscard]] std::size_t cores() const { return cores_.size(); }
  [[nodiscard]] bool ending() const { return ending_; }
  [[nodiscard]] bool stuck() const { return stuck_; }
  [[nodiscard]] bool too_long() const { return too_long_; }
  /// The run has gone wrong; it stops at the next step.
  void stop() { stopping_ = true; }
  [[nodiscard]] shmem::Time now() const { return now_; }
  [[nodiscard]] const Deviations& deviations() const { return deviations_; }
  [[nodiscard]] std::uint64_t decisions() const { return decisions_; }
  /// Of everything that could have gone on, at every decision.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }
  /// Slots have become visible since the last call.
  bool outdated() { return std::exchange(outdated_, false); }

 private:
  static constexpr std::uint32_t kNobody = 0xFFFF'FFFFU;

  /// Who goes next; channels deliver on the way. Nobody: the run is over.
  std::uint32_t choose();
  void collect();
  bool pass_time();
  [[nodiscard]] bool can_go_on(std::size_t core) const;
  [[nodiscard]] bool given_up(std::size_t core) const;
  void deliver(std::size_t channel);
  std::size_t decide(const Decision& decision);
  void pause(std::size_t core);
  void resume(std::size_t core);

  const shmem::SlotPlan* slots_;
  std::int32_t per_rank_;
  Memory* memory_;
  OnLanding on_landing_;
  std::vector<CoreState> cores_;
  Strategy* strategy_ = nullptr;
  std::vector<ActorId> options_;
  std::vector<ActorId> units_;
  std::vector<std::vector<ActorId>> owners_;         // [rank][slot]: who has touched it; nobody, or several
  std::vector<std::vector<std::uint64_t>> awaited_;  // [rank][slot]: the last run in which somebody looked
  std::uint64_t run_ = 1;
  std::uint32_t current_ = 0;
  std::uint32_t next_ = kNobody;
  bool polling_ = false;
  std::size_t steps_ = 0;
  std::size_t most_steps_ = 0;
  Deviations deviations_;
  std::uint64_t decisions_ = 0;
  std::uint64_t fingerprint_ = 0;
  shmem::Time now_{0};
  bool ending_ = false;
  bool stopping_ = false;
  bool stuck_ = false;
  bool too_long_ = false;
  bool outdated_ = false;
};

}  // namespace shmoe::runtime::check
