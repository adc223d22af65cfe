#pragma once
// A whole job in one thread: ranks, cores, memory and the operators as compiled, run once per schedule.
//
//   World world({.ranks = 2, .cores = 1});
//   RandomWalk strategy(seed);
//   Run run = world.run([](Communicator& comm) { return my_operator(comm, ...); }, strategy);
//   run.verdict.clean()
//
// The body runs on every rank, as under World::run_as_threads; a core that waits lets others go on.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/check/story.hpp"
#include "runtime/check/strategy.hpp"
#include "runtime/communicator.hpp"
#include "runtime/diagnosis/verdict.hpp"

namespace shmoe::runtime::check {

struct Shape {
  std::int32_t ranks = 2;
  std::int32_t cores = 1;
  Profile profile = kSafe;
  bool views = true;
  bool weak = true;               // false: what is sent lands at once
  std::uint64_t first_round = 0;  // the counters of every core start here
  Bytes heap{256 * 1024};
  Bytes unit{0};  // largest write that lands in one piece; 0: whole puts do
  /// Slots of the program's own, in the user data.
  std::function<void(shmem::SlotPlan&, const shmem::BlockMap&)> declare_slots = {};
  bool data_steps = false;  // reads and own writes are steps too: for programs that mean to race
  bool races = true;        // false: what is not ordered is not reported, and the run goes on
  std::size_t most_steps = 200'000;
};

using Body = std::function<Result<void>(Communicator&)>;

/// How one schedule ended.
struct Run {
  Verdict verdict;
  Deviations deviations;
  std::uint64_t decisions = 0;
  std::uint64_t fingerprint = 0;
  bool outdated = false;  // Strategy::start_again
  Story story;            // where asked for
};

class World {
 public:
  explicit World(Shape shape);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] const shmem::SlotPlan& slots() const;

  /// Order:   the heap, and what was written through the Fabric, are as at the start of every run
  Run run(const Body& body, Strategy& strategy, bool with_story = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shmoe::runtime::check
