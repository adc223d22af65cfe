#pragma once
// Runs the normal path on threads as ranks and compares everything it leaves behind with the sequential reference.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/reference.hpp"
#include "runtime/world.hpp"

namespace shmoe::test {

/// What no operator may leave or touch.
inline constexpr std::byte kCanary{0xA5};

/// The input of all ranks for one step. Payloads follow from the seed.
struct EpCase {
  std::uint64_t seed = 1;
  DType dtype = DType::bf16;
  std::int64_t hidden = 1;
  ops::reference::Problem problem;

  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(problem.ranks.size()); }
  [[nodiscard]] std::size_t row_bytes() const {
    return static_cast<std::size_t>(hidden) * (dtype == DType::fp32 ? 4 : 2);
  }
  [[nodiscard]] ops::ExpertMap experts() const;
  [[nodiscard]] std::vector<std::byte> tokens_of(std::int64_t rank) const;
  [[nodiscard]] ops::Routing routing_of(std::int64_t rank) const;
  /// Seed and shape, to repeat it.
  [[nodiscard]] std::string describe() const;
};

struct Shape {
  std::int32_t experts = 16;
  std::int32_t topk = 2;
  std::int64_t hidden = 64;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> tokens = {5, 5, 5, 5};  // of each rank
  int dropped_percent = 0;
  bool weights = true;
  bool own_map = false;  // an owner table drawn at random instead of the even split
};

/// Draws ids and weights; `choose` overrules the ids.
using Choose = std::function<std::int64_t(std::int64_t rank, std::int64_t token, std::int64_t k)>;
EpCase make_case(std::uint64_t seed, const Shape& shape, const Choose& choose = {});

/// y = x * (expert + 1), rounded to the row's type: exact, and so different for each expert, in fp32.
void apply_expert(DType dtype, std::int64_t expert, std::span<const std::byte> x, std::span<std::byte> y);

/// What each rank must end with.
struct Expected {
  ops::reference::Answer answer;
  std::vector<std::vector<std::byte>> received;  // rows of each rank
  std::vector<std::vector<std::byte>> combined;
};
Expected expect(const EpCase& input);

/// What a rank did end with.
struct Outcome {
  ops::LayoutTables layout;
  ops::NotifyTables notify;
  std::vector<std::int32_t> num_tokens_per_expert;
  std::vector<std::byte> received;  // capacity rows and two guard rows
  std::int64_t capacity = 0;
  std::vector<std::byte> combined;
};

/// Empty where the outcome is the expected one, else the first difference.
std::string difference(const EpCase& input, const Expected& expected, std::int64_t rank, const Outcome& outcome);

/// The symmetric memory of a rank's steps, sized for the largest case.
struct Room {
  Offset counts[2];
  Offset recv_x;
  Offset expert_out;
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
ops::CombineArgs combine_args(const EpCase& input, const Room& room, const Tables& tables, std::span<std::byte> x);

/// One rank's step, an operator at a time, with the experts before combine and guard rows around what is written.
Result<void> run_layout(runtime::Communicator& comm, Offset counts, Tables& tables);
Result<void> run_notify(runtime::Communicator& comm, Tables& tables);
Result<void> run_dispatch(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                          Outcome& outcome);
Result<void> run_combine(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                         Outcome& outcome);

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
