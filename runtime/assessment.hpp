#pragma once
// What is to be said of a communicator that somebody looks at from outside.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/job_view.hpp"
#include "runtime/prover.hpp"
#include "runtime/wait_graph.hpp"

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
  std::optional<Rank> rank;  // whom it is about
};

/// One look at one communicator.
struct CommunicatorLook {
  explicit CommunicatorLook(const JobView& job, CommunicatorView made);
  CommunicatorLook(const CommunicatorLook&) = delete;
  CommunicatorLook& operator=(const CommunicatorLook&) = delete;

  [[nodiscard]] ProcessState state_of(Rank member) const { return states[member.index()]; }
  /// How long the core has waited, of one that waits.
  [[nodiscard]] double waited_s(const CoreSight& core) const;
  [[nodiscard]] Assessment assess(const JobView& job) const;

  CommunicatorView view;
  std::vector<ProcessState> states;
  Prover prover;
  Prover::Look look;
  WaitGraph graph;
  std::int64_t now_ns;
};

}  // namespace shmoe::runtime
