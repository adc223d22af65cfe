#pragma once
// What is to be said of a job that somebody looks at from outside.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/diagnosis/job_view.hpp"
#include "runtime/diagnosis/prover.hpp"
#include "runtime/diagnosis/wait_graph.hpp"

namespace shmoe::runtime {

enum class Condition : std::uint8_t {
  running,
  straggler,  // ranks have waited for a while for one that goes on
  stopped,    // the same, and its process is stopped
  lost,       // the same, and its process has ended
  suspected,  // ranks seem to wait only for each other
  given_up,   // a rank has ended all waits with an error
  ended,      // no process is left
};

std::string_view name_of(Condition condition);

struct Assessment {
  Condition condition = Condition::running;
  std::string text;          // one sentence
  std::optional<Rank> rank;  // whom it is about, by world rank
};

/// One look at all communicators.
class JobLook {
 public:
  /// Errors:  as JobView::communicators.
  static Result<std::unique_ptr<JobLook>> take(JobView& job);

  [[nodiscard]] const JobView& job() const { return *job_; }
  [[nodiscard]] const Prover::Views& views() const { return *look_.views; }
  /// Of each view.
  [[nodiscard]] const std::vector<Sight>& sights() const { return look_.sights; }
  [[nodiscard]] const WaitGraph& graph() const { return *graph_; }
  [[nodiscard]] const std::vector<bool>& stuck() const { return look_.stuck; }
  [[nodiscard]] ProcessState state_of(Rank world) const { return states_[world.index()]; }
  /// How long the core has waited, of one that waits.
  [[nodiscard]] double waited_s(const CoreSight& core) const;

 private:
  explicit JobLook(const JobView& job) : job_(&job) {}

  const JobView* job_;
  std::vector<ProcessState> states_;
  Prover::Look look_;
  std::optional<WaitGraph> graph_;
  std::int64_t now_ns_ = 0;
};

/// A communicator in it.
struct CommunicatorLook {
  CommunicatorLook(const JobLook& at, std::size_t index)
      : job(&at), view(&at.views()[index]), sight(&at.sights()[index]) {}

  [[nodiscard]] ProcessState state_of(Rank member) const { return job->state_of(sight->world(member)); }
  [[nodiscard]] Standing standing(Rank member) const { return job->graph().standing(sight->world(member)); }
  /// World ranks that are in an operator of it, and seem to wait only for others that are stuck.
  [[nodiscard]] std::vector<Rank> stuck() const;
  [[nodiscard]] Assessment assess() const;

  const JobLook* job;
  const CommunicatorView* view;
  const Sight* sight;
};

}  // namespace shmoe::runtime
