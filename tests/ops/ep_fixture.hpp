#pragma once
// Runs the normal path on threads as ranks and compares everything it leaves behind with the sequential reference.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/reference.hpp"
#include "runtime/world.hpp"
#include "tests/ops/ep_case.hpp"

namespace shmoe::test {

/// What a rank did end with.
struct Outcome {
  ops::LayoutTables layout;
  ops::NotifyTables notify;
  std::vector<std::int32_t> num_tokens_per_expert;
  std::vector<std::byte> received;  // capacity rows and two guard rows
  std::int64_t capacity = 0;
  std::vector<std::byte> scales;  // as long
  std::vector<std::byte> combined;
  std::vector<std::byte> gradients;
};

/// Empty where the outcome is the expected one, else the first difference.
std::string difference(const EpCase& input, const Expected& expected, std::int64_t rank, const Outcome& outcome);

/// The symmetric memory of a rank's steps, sized for the largest case.
struct Room {
  Offset counts[2];
  Offset recv_x;
  Offset expert_out;
  Offset recv_scales;
  Offset prob_grad;
};
Result<Room> allocate_room(runtime::Communicator& comm, std::span<const EpCase> cases);
Bytes heap_for(std::span<const EpCase> cases);

/// What the steps with one routing share: inputs, and what layout and notify make of them.
struct Tables {
  Tables(const EpCase& input, Rank rank) : routing(input.routing_of(rank.value())), experts(input.experts()) {}
  ops::Routing routing;
  ops::ExpertMap experts;
  ops::LayoutTables layout;
  ops::NotifyTables notify;
};

/// The arguments of a rank with tokens `x` in, `x` out; they refer to the tables.
ops::DispatchArgs dispatch_args(const EpCase& input, const Room& room, const Tables& tables,
                                std::span<const std::byte> x);
ops::CombineArgs combine_args(const EpCase& input, const Room& room, const Tables& tables, std::span<std::byte> x,
                              std::span<std::byte> gradients = {});

/// One rank's step, an operator at a time, with the experts before combine and guard rows around what is written.
Result<void> run_layout(runtime::Communicator& comm, Offset counts, Tables& tables);
Result<void> run_notify(runtime::Communicator& comm, const EpCase& input, Tables& tables);
Result<void> run_dispatch(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                          Outcome& outcome, std::span<std::int64_t> wait_cost = {});
Result<void> run_combine(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                         Outcome& outcome, std::span<std::int64_t> wait_cost = {});

/// Layout and notify of one rank.
Result<Tables> run_tables(runtime::Communicator& comm, const EpCase& input, Offset counts);
/// Dispatch, experts and combine of one rank; the tables may serve several payloads.
Result<Outcome> run_rows(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables);

/// One step of one rank; every buffer is filled with the canary before it is used.
Result<Outcome> run_step(runtime::Communicator& comm, const EpCase& input, const Room& room, std::int64_t step);

struct Setup {
  std::int32_t cores = 1;
  bool views = true;
  std::uint64_t weak_seed = 0;  // not 0: puts land late
  Profile profile = kSafe;
  std::int64_t steps = 1;  // step i runs case i % cases
  /// Runs on each rank before its first step.
  std::function<void(runtime::Communicator&)> before = {};
  runtime::FabricDecorator decorate = {};
};
runtime::Config config_for(const Setup& setup, Bytes heap);

/// Empty where every step of every rank is as expected, and nothing was written outside the rows.
std::string run_cases(std::span<const EpCase> cases, const Setup& setup);
inline std::string run_case(const EpCase& input, const Setup& setup = {}) { return run_cases({&input, 1}, setup); }

/// The outcomes of one step, for tests that look closer.
Result<std::vector<Outcome>> outcomes_of(const EpCase& input, const Setup& setup);

}  // namespace shmoe::test
