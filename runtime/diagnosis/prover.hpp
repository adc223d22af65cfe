#pragma once
// Proves that waits of a live job can never end, through whichever of its communicators.
//
//   look       the record of every core in every communicator: is it in an operator, in which wait, since which epoch
//   suspect    the greatest set of ranks that only wait for each other, or for ranks that are gone
//   challenge  a fresh number to each of them; every waiting core looks at its slots once more and repeats the number
//   look again the same set, every epoch as before, every number repeated  -->  proven
//
// Each of them was in the same wait all the time and saw it unsatisfied after the challenge; nobody else may write what they
// wait for. So no later write can come. A rank signals from kernels only, and its communicators share one grid, which runs
// one launch at a time (Grid::claim), whichever thread calls: while a launch waits in one communicator, the rank can begin
// none in another. So whoever is stuck in one communicator signals in none; a rank that is in no launch counts as live for
// all of them, whatever its threads do, and so does one whose members do not agree on who they are.
//
// What this rests on: the declared writers are all there are (strict mode checks each signal). A limit that passes, or a host
// thread that aborts, ends a wait as well, and comes after the verdict.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/diagnosis/communicator_view.hpp"
#include "runtime/diagnosis/sight.hpp"
#include "runtime/diagnosis/verdict.hpp"

namespace shmoe::runtime {

struct Proof {
  Verdict verdict;
  std::vector<Rank> lost;  // world ranks that have ended without leaving their World, and that it rests on
};

class Prover {
 public:
  using Views = std::vector<CommunicatorView>;

  /// What all cores were doing.
  struct Look {
    std::unique_ptr<const Views> views;
    std::vector<Sight> sights;                       // of each view
    std::vector<std::vector<std::uint64_t>> epochs;  // of each core of it
    std::vector<bool> ended;                         // by world rank
    std::vector<bool> stuck;                         // by world rank, as far as one look can tell
  };

  struct Parts {
    Rank self;  // world rank; kOutside of whoever is none
    std::int32_t ranks;
    std::function<Views()> views;          // that there are now
    std::function<bool(Rank world)> gone;  // whether a rank has ended
  };
  explicit Prover(Parts parts) : parts_(std::move(parts)) {}

  /// Asked by every sleeping wait, again and again. The lowest of the ranks that seem stuck carries the proof on by a step;
  /// a verdict comes once it is complete. Any core may ask. From outside whoever asks carries it on.
  std::optional<Proof> ask(CommunicatorId id, Core core);
  std::optional<Proof> ask_from_outside() { return ask(CommunicatorId{0}, Core{0}); }

  [[nodiscard]] Look look() const;

 private:
  struct Suspicion {
    std::uint64_t number;
    Look look;
  };

  [[nodiscard]] bool is_lowest(const Look& look, CommunicatorId id, Core core) const;
  [[nodiscard]] bool stands_as_before(const Look& look) const;
  /// Nobody who was the lowest before has asked something else since.
  [[nodiscard]] bool is_asked(const Look& look) const;
  void challenge(Look look);

  Parts parts_;
  std::mutex mutex_;  // the cores of this rank ask side by side
  std::optional<Suspicion> suspicion_;
};

}  // namespace shmoe::runtime
