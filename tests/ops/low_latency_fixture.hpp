#pragma once
// Runs the low-latency path on threads as ranks and compares everything it leaves behind with the sequential reference.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"
#include "ops/low_latency/reference.hpp"
#include "tests/ops/ep_fixture.hpp"

namespace shmoe::test {

/// An EpCase with what only the low-latency path takes.
struct LowLatencyCase {
  EpCase base;  // of the routed experts
  ops::SharedExperts shared = {};
  std::vector<std::vector<std::uint8_t>> mask = {};  // as it is passed: [T] or [T, K] of each rank
  std::vector<float> scales = {};                    // [S + E, H]
  std::optional<float> static_scale = {};
  ops::GroupList expert_token_nums = ops::GroupList::counts;
  bool copies_answers = false;   // ori_x
  bool adds_shared_x = false;    // shared_expert_x
  bool published_quant = false;  // 127 / largest, without an epsilon

  [[nodiscard]] std::string describe() const;
  [[nodiscard]] ops::reference::LowLatencyProblem problem() const;
  /// Any bytes that look like tokens.
  [[nodiscard]] std::vector<std::byte> shared_x_of(std::int64_t rank) const;
};

/// What each rank must end with.
struct LowLatencyExpected {
  ops::reference::Problem problem;  // widened
  ops::reference::Answer answer;
  std::vector<std::int64_t> ep_recv_count;
  std::vector<std::vector<std::byte>> received, scales, answers, combined;  // of each rank
};
LowLatencyExpected expect(const LowLatencyCase& input);

/// Symmetric memory of a step: rows for the largest of the cases and two guard rows.
struct LowLatencyRoom {
  Offset expand_x, expert_out, dynamic_scales;
};
Result<LowLatencyRoom> allocate_low_latency_room(runtime::Communicator& comm, std::span<const LowLatencyCase> cases);

/// One rank's step; what it holds must outlive its calls.
class LowLatencyStep {
 public:
  LowLatencyStep(runtime::Communicator& comm, const LowLatencyCase& input, const LowLatencyExpected& expected,
                 const LowLatencyRoom& room, ops::LowLatencyTables& tables);

  [[nodiscard]] ops::DispatchLowLatencyArgs dispatch_args() const;
  [[nodiscard]] ops::CombineLowLatencyArgs combine_args();

  /// Fills the rows with the canary.
  void clear_rows();
  /// The first difference of what dispatch left behind, or nothing.
  [[nodiscard]] std::string received_difference() const;
  /// Answers to the rows received, where combine looks for them.
  void run_experts();
  void clear_sums();
  [[nodiscard]] std::string sums_difference() const;

  /// All of it.
  Result<void> run(std::string& difference);

 private:
  [[nodiscard]] std::size_t me() const { return comm_->rank().index(); }
  [[nodiscard]] std::int64_t capacity() const { return expected_->answer.total_recv_tokens; }

  runtime::Communicator* comm_;
  const LowLatencyCase* input_;
  const LowLatencyExpected* expected_;
  LowLatencyRoom room_;
  ops::LowLatencyTables* tables_;
  ops::Routing routing_;
  ops::ExpertMap experts_;
  std::vector<std::byte> x_, answers_, shared_x_, sums_;
};

runtime::Config low_latency_config(const Setup& setup, std::span<const LowLatencyCase> cases);

/// Empty where every step of every rank is as expected, and nothing was written outside the rows.
std::string run_low_latency(std::span<const LowLatencyCase> cases, const Setup& setup);
inline std::string run_low_latency(const LowLatencyCase& input, const Setup& setup = {}) {
  return run_low_latency({&input, 1}, setup);
}

/// What a rank of a test holds: two rooms, for calls by turns.
struct LowLatencyBench {
  runtime::Communicator& comm;
  LowLatencyRoom rooms[2];
};
/// Runs `part` on every rank. Empty where each ended well.
std::string on_low_latency_ranks(const LowLatencyCase& input, const Setup& setup,
                                 const std::function<Result<void>(LowLatencyBench&)>& part);

/// Nothing special about it.
LowLatencyCase plain_low_latency(std::uint64_t seed, std::vector<std::int64_t> tokens = {3, 2},
                                 std::int32_t experts = 6, std::int32_t topk = 2);

/// A case drawn from a seed, with every option that can be drawn for its number of ranks.
LowLatencyCase draw_low_latency(std::uint64_t seed, std::int32_t ranks);

}  // namespace shmoe::test
