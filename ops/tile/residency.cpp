#include "ops/tile/residency.hpp"

#include <vector>

#include <fmt/format.h>

namespace shmoe::ops {
namespace {

/// A wait for, or a signal of, one value in a slot.
struct Step {
  bool waits = false;
  std::int64_t owner = 0;
  std::int64_t slot = 0;
  bool full = false;  // 1, else 0
  std::int64_t block = 0;
  std::int64_t task = 0;
};

class Rehearsal {
 public:
  Rehearsal(const All2AllTasks& tasks, const All2AllCrew& crew, Merge merge, std::int32_t cores)
      : tasks_(tasks),
        crew_(crew),
        merge_(merge),
        cores_(cores),
        words_(static_cast<std::size_t>(tasks.ranks() * tasks.tiling().buffers * tasks.per_block())) {
    for (std::int32_t rank = 0; rank < tasks.ranks(); ++rank) {
      for (std::int32_t core = 0; core < cores; ++core) seats_.push_back(seat(rank, core));
    }
  }

  std::optional<std::string> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Seat& seat : seats_) moved = advance(seat) || moved;
    }
    for (const Seat& seat : seats_) {
      if (seat.next == seat.steps.size()) continue;
      const Step& wait = seat.steps[seat.next];
      const auto [rank, program] = ender_of(wait, seat.rank);
      if (begun(rank, program)) continue;
      return fmt::format(
          "program {} of rank {} waits in block {} for program {} of rank {}, which begins on core {} only after "
          "program {} has ended",
          seat.program, seat.rank, wait.block, program.value(), rank, program.value() % cores_,
          program.value() - cores_);
    }
    return std::nullopt;
  }

 private:
  struct Seat {
    std::int64_t rank = 0;
    std::int32_t program = 0;
    std::vector<Step> steps;
    std::size_t next = 0;
  };

  [[nodiscard]] std::int64_t slot_of(std::int64_t block, std::int64_t source, std::int64_t u) const {
    return (tasks_.buffer_of(block) * tasks_.ranks() + source) * tasks_.per_peer() + u;
  }
  [[nodiscard]] Step step(std::int64_t rank, bool produces, bool waits, std::int64_t block, std::int64_t index) const {
    const All2AllTask task = tasks_.task(index);
    const std::int64_t owner = produces ? (rank + task.peer) % tasks_.ranks() : rank;
    const std::int64_t source = produces ? rank : task.peer;
    return {.waits = waits,
            .owner = owner,
            .slot = slot_of(block, source, task.u),
            .full = produces != waits,
            .block = block,
            .task = index};
  }
  [[nodiscard]] Seat seat(std::int64_t rank, std::int32_t program) const {
    Seat seat{.rank = rank, .program = program, .steps = {}};
    const Core self{program};
    for (std::int64_t block = 0; block < tasks_.blocks(); ++block) {
      const std::int64_t first = tasks_.first_task(block, crew_.worker(self), crew_.workers(), merge_);
      for (const bool produces : {true, false}) {
        if (!(produces ? crew_.produces(self) : crew_.consumes(self))) continue;
        for (const bool waits : {true, false}) {
          for (std::int64_t t = first; t < tasks_.per_block(); t += crew_.workers()) {
            seat.steps.push_back(step(rank, produces, waits, block, t));
          }
        }
      }
    }
    return seat;
  }
  char& word(const Step& step) {
    return words_[static_cast<std::size_t>(step.owner * tasks_.tiling().buffers * tasks_.per_block() + step.slot)];
  }
  bool advance(Seat& seat) {
    bool moved = false;
    for (; seat.next < seat.steps.size(); ++seat.next, moved = true) {
      const Step& step = seat.steps[seat.next];
      if (step.waits && (word(step) != 0) != step.full) return moved;
      if (!step.waits) word(step) = step.full ? 1 : 0;
    }
    if (seat.program + cores_ >= crew_.programs()) return moved;
    seat = this->seat(seat.rank, seat.program + cores_);
    return true;
  }
  /// Whose signal the wait of a rank needs: a full slot is the work of a producer, an empty one of a consumer.
  [[nodiscard]] std::pair<std::int64_t, Core> ender_of(const Step& wait, std::int64_t waiter) const {
    const All2AllTask task = tasks_.task(wait.task);
    const std::int64_t ranks = tasks_.ranks();
    const std::int64_t peer = wait.full ? (wait.owner - task.peer + ranks) % ranks : waiter;
    const std::int64_t index = task.u * ranks + peer;
    const std::int64_t past = merge_ == Merge::blocks ? tasks_.buffer_of(wait.block) * tasks_.per_block() : 0;
    const std::int64_t worker = (past + index) % crew_.workers();
    return {wait.full ? task.peer : wait.owner, wait.full ? crew_.producer(worker) : crew_.consumer(worker)};
  }
  [[nodiscard]] bool begun(std::int64_t rank, Core program) const {
    const auto at = static_cast<std::size_t>(rank * cores_ + program.value() % cores_);
    return program.value() <= seats_[at].program;
  }

  const All2AllTasks& tasks_;
  const All2AllCrew& crew_;
  Merge merge_;
  std::int32_t cores_;
  std::vector<char> words_;
  std::vector<Seat> seats_;
};

}  // namespace

std::optional<std::string> missing_program(const All2AllTasks& tasks, const All2AllCrew& crew, Merge merge,
                                           std::int32_t cores) {
  if (crew.programs() <= cores) return std::nullopt;
  return Rehearsal(tasks, crew, merge, cores).run();
}

}  // namespace shmoe::ops
