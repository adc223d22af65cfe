#include "runtime/outside_proof.hpp"

#include <algorithm>
#include <vector>

#include "runtime/prover.hpp"
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
  OutsideProof(const shmem::Peers& peers, const std::function<bool(Rank)>& gone)
      : ranks_(peers.size()), prover_(peers, gone), numbers_(numbers()) {}

  /// True when there is nothing more to ask.
  bool step() {
    const std::vector<bool> stuck = prover_.look().stuck;
    if (std::ranges::none_of(stuck, [](bool yes) { return yes; })) return true;
    if (numbers() != numbers_) {
      numbers_ = numbers();
      quiet_from_ = Clock::now() + 3 * tick_of(ranks_);  // a rank needs two of its own looks
    }
    if (Clock::now() < quiet_from_) return false;
    verdict_ = prover_.ask(Core{0});
    numbers_ = numbers();
    return verdict_.has_value();
  }
  [[nodiscard]] const std::optional<Verdict>& verdict() const { return verdict_; }

 private:
  [[nodiscard]] std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> numbers;
    for (Rank rank{0}; rank.value() < ranks_; ++rank) numbers.push_back(prover_.challenge_of(rank).number.load());
    return numbers;
  }

  std::int32_t ranks_;
  Prover prover_;
  std::vector<std::uint64_t> numbers_;  // as this one has left them
  Clock::time_point quiet_from_ = Clock::time_point::min();
  std::optional<Verdict> verdict_;
};

}  // namespace

std::chrono::milliseconds proof_limit(std::int32_t ranks) {
  return std::max<std::chrono::milliseconds>(std::chrono::seconds(1), 10 * tick_of(ranks));
}

std::optional<Verdict> prove_from_outside(const shmem::Peers& peers, const std::function<bool(Rank)>& gone,
                                          std::chrono::milliseconds limit) {
  OutsideProof proof(peers, gone);
  shmem::wait_until([&] { return proof.step(); }, limit);
  return proof.verdict();
}

}  // namespace shmoe::runtime
