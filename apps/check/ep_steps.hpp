#pragma once
// The normal path on one rank of a checked world, step by step; every step compares what it leaves with the reference.

#include <optional>
#include <vector>

#include "apps/check/ep_problem.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/pipeline.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::apps {

class EpSteps {
 public:
  /// The problem outlives the steps.
  EpSteps(runtime::Communicator& comm, const EpProblem& problem) : comm_(&comm), problem_(&problem) {}

  /// Symmetric buffers.
  Result<void> allocate();
  /// Order:   barrier -> memory is given back
  Result<void> release();

  // Errors:  mismatch where the outcome is not the reference's; as the operators
  Result<void> layout(std::size_t round);
  Result<void> notify(std::size_t round);
  /// Room for the rows of the round, on every rank.
  Result<void> make_room(std::size_t round);
  Result<void> dispatch(std::size_t round);
  /// The rows that have arrived, and an answer to each.
  Result<void> experts(std::size_t round);
  Result<void> combine(std::size_t round);

 private:
  [[nodiscard]] std::size_t me() const { return comm_->rank().index(); }
  [[nodiscard]] const Extras& extras() const { return problem_->extras; }
  void expert(runtime::CoreContext& context, std::size_t round, std::size_t row, char& wrong);
  [[nodiscard]] Result<void> check_costs(std::size_t round) const;
  [[nodiscard]] const EpRound& at(std::size_t round) const { return problem_->rounds[round]; }

  runtime::Communicator* comm_;
  const EpProblem* problem_;
  std::optional<ops::EpBuffers> buffers_;
  Offset prob_grad_;
  ops::LayoutTables layout_;
  ops::NotifyTables notify_;
  std::vector<std::int64_t> wait_cost_;  // [R], where it is measured
};

}  // namespace shmoe::apps
