#include "runtime/diagnosis/outside_proof.hpp"

#include <algorithm>
#include <vector>

#include "runtime/diagnosis/prover.hpp"
#include "shmem/last_words.hpp"

namespace shmoe::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// How often a sleeping core asks and answers, and a little more.
std::chrono::milliseconds tick_of(std::int32_t ranks) {
  return std::chrono::milliseconds(60) * std::max(1, ranks / 32);
}

class OutsideProof {
 public:
  explicit OutsideProof(Prover::Parts parts) : ranks_(parts.ranks), prover_(std::move(parts)) {
    numbers_ = numbers_in(prover_.look());
  }

  /// True when there is nothing more to ask.
  bool step() {
    const Prover::Look look = prover_.look();
    if (std::ranges::none_of(look.stuck, [](bool yes) { return yes; })) return true;
    if (std::vector<std::uint64_t> now = numbers_in(look); now != numbers_) {
      numbers_ = std::move(now);
      quiet_from_ = Clock::now() + 3 * tick_of(ranks_);  // a rank needs two of its own looks
    }
    if (Clock::now() < quiet_from_) return false;
    proof_ = prover_.ask_from_outside();
    numbers_ = numbers_in(look);
    return proof_.has_value();
  }
  [[nodiscard]] const std::optional<Proof>& proof() const { return proof_; }

 private:
  /// The last challenges of all members.
  static std::vector<std::uint64_t> numbers_in(const Prover::Look& look) {
    std::vector<std::uint64_t> numbers;
    for (const CommunicatorView& view : *look.views) {
      for (Rank rank{0}; rank.value() < view.peers.size(); ++rank)
        numbers.push_back(view.challenge(rank).number.load());
    }
    return numbers;
  }

  std::int32_t ranks_;
  Prover prover_;
  std::vector<std::uint64_t> numbers_;  // as this one has left them
  Clock::time_point quiet_from_ = Clock::time_point::min();
  std::optional<Proof> proof_;
};

}  // namespace

std::chrono::milliseconds proof_limit(std::int32_t ranks) {
  return std::max<std::chrono::milliseconds>(std::chrono::seconds(1), 10 * tick_of(ranks));
}

std::optional<Proof> prove_from_outside(Prover::Parts parts, std::chrono::milliseconds limit) {
  OutsideProof proof(std::move(parts));
  shmem::wait_until([&] { return proof.step(); }, limit);
  return proof.proof();
}

}  // namespace shmoe::runtime
