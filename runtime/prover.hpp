#pragma once
// Proves that waits of a live job can never end.
//
//   look       the record of every core: is it in an operator, in which wait, since which epoch
//   suspect    the greatest set of ranks that only wait for each other, or for ranks that are gone
//   challenge  a fresh number to each of them; every waiting core looks at its slots once more and repeats the number
//   look again the same set, every epoch as before, every number repeated  -->  proven
//
// Each of them was in the same wait all the time and saw it unsatisfied after the challenge; nobody else may write what they
// wait for. So no later write can come. What this rests on: the declared writers are all there are (strict mode checks
// each signal), and waits of other communicators count as live.

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/sight.hpp"
#include "runtime/verdict.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// No member; Peers::rank of whoever looks on from outside of the job.
inline constexpr Rank kOutside{-1};

class Prover {
 public:
  /// What all cores were doing.
  struct Look {
    Sight sight;
    std::vector<std::uint64_t> epochs;  // of each core
    std::vector<bool> ended;            // each member
    std::vector<bool> stuck;            // as far as one look can tell
  };

  /// `gone`: whether a member has ended. `peers` has `controls`.
  Prover(const shmem::Peers& peers, std::function<bool(Rank member)> gone);

  /// Asked by every sleeping wait, again and again. The lowest of those that seem stuck carries the proof on by a step;
  /// a verdict comes once it is complete. Any core may ask. From outside whoever asks carries it on.
  std::optional<Verdict> ask(Core core);

  [[nodiscard]] Look look() const;
  /// The number that was last written to a member.
  [[nodiscard]] shmem::Challenge& challenge_of(Rank rank) const;

 private:
  struct Suspicion {
    std::uint64_t number;
    Look look;
  };

  [[nodiscard]] CoreSight look_at(Rank rank, Core core, std::uint64_t& epoch) const;
  [[nodiscard]] std::optional<WaitSight> wait_in(Rank rank, Core core) const;
  /// Of a slot that one rank writes, or one on each side.
  [[nodiscard]] LedgerSight ledger(Rank writer, Rank owner, Slot slot, shmem::Side side) const;
  [[nodiscard]] std::uint64_t magic(Rank rank, Core core) const;
  [[nodiscard]] std::vector<shmem::Event> events(Rank rank, Core core) const;
  [[nodiscard]] bool is_lowest(const Look& look, Core core) const;
  [[nodiscard]] bool stands_as_before(const Look& look) const;
  [[nodiscard]] bool all_repeat(std::uint64_t number, const Look& look) const;
  void challenge(Look look);
  /// Nobody who was the lowest before has asked something else since.
  [[nodiscard]] bool is_asked(const Look& look) const;
  [[nodiscard]] shmem::WaitRecord& record(Rank rank, Core core) const;

  const shmem::Peers* peers_;
  std::function<bool(Rank)> gone_;
  std::mutex mutex_;  // the cores of this rank ask side by side
  std::optional<Suspicion> suspicion_;
};

}  // namespace shmoe::runtime
