#pragma once
// What the tests of the checker share: worlds, small steps of a program, and all outcomes of a program.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "runtime/check/explore.hpp"
#include "runtime/check/world.hpp"

namespace shmoe::runtime::check::test {

inline Shape two_ranks() { return {.ranks = 2, .cores = 1}; }

/// A kernel that outlives the call it is handed to.
using StoredKernel = std::function<void(CoreContext&)>;

/// A body that launches one kernel.
inline Body one_launch(StoredKernel kernel, std::string op = "test") {
  return [kernel = std::move(kernel), op = std::move(op)](Communicator& comm) { return comm.launch(op, kernel); };
}

/// The n-th word of the user data; they do not touch.
inline Offset cell(std::uint64_t n) { return Offset{64 * n}; }
/// The flag of the first buffer that `from` may set.
inline Slot flag(CoreContext& context, std::int64_t from, std::uint64_t buffer = 0) {
  return context.slots().flag().at(buffer, Rank{from});
}

inline void put(CoreContext& context, std::int64_t to, Offset at, std::uint64_t value,
                SourceSite site = SourceSite::here()) {
  context.put(Rank{to}, at, std::initializer_list<std::uint64_t>{value}, site);
}
inline std::uint64_t get(CoreContext& context, std::int64_t from, Offset at, SourceSite site = SourceSite::here()) {
  std::uint64_t value = 0;
  context.get(Rank{from}, at, std::span{&value, 1}, shmem::Witness::own(), site);
  return value;
}
/// Sets the flag that this rank has at another one.
inline void notify(CoreContext& context, std::int64_t to, std::uint64_t value, std::uint64_t buffer = 0,
                   SourceSite site = SourceSite::here()) {
  context.signal(Rank{to}, flag(context, context.rank().value(), buffer), shmem::SignalOp::set, value, site);
}
/// Until the flag of another rank here holds at least the value.
inline std::uint64_t await(CoreContext& context, std::int64_t from, std::uint64_t value, std::uint64_t buffer = 0,
                           SourceSite site = SourceSite::here()) {
  shmem::Token token = context.wait(flag(context, from, buffer), Compare::at_least, value, site);
  const std::uint64_t word = token.arrival().value;
  std::move(token).ordering_only();
  return word;
}

/// Rank 0 writes a row at rank 1 and notifies; rank 1 waits and reads.
inline Body hand_over(bool with_fence) {
  return one_launch([with_fence](CoreContext& context) {
    if (context.rank() == Rank{0}) {
      const std::uint64_t row[2] = {1, 2};
      context.put(Rank{1}, cell(0), row);
      if (with_fence) context.fence(Rank{1});
      notify(context, 1, 1);
    } else {
      await(context, 0, 1);
      std::uint64_t row[2] = {};
      context.get(Rank{1}, cell(0), row, shmem::Witness::own());
    }
  });
}

/// The flag "pulse" of every rank, which any rank may set and clear.
inline void declare_pulse(shmem::SlotPlan& slots, const shmem::BlockMap& map) {
  slots.declare({.name = "pulse", .base = map.user_data.at + Bytes{64 * 1024}, .writers = shmem::Writers::any_rank});
}
/// Two rounds in which rank 0 writes and sets the pulse of rank 1, and rank 1 reads, clears it and acknowledges, or the
/// other way round.
inline void two_pulses(CoreContext& context, bool ack_first,
                       const std::function<void(std::uint64_t round, std::uint64_t value)>& read) {
  const Slot pulse = context.slots().family("pulse").at(0, Rank{0});
  for (std::uint64_t round = 1; round <= 2; ++round) {
    if (context.rank() == Rank{0}) {
      put(context, 1, cell(0), round);
      context.fence(Rank{1});
      context.signal(Rank{1}, pulse, shmem::SignalOp::set, 1);
      await(context, 1, round);
    } else {
      context.wait(pulse, Compare::equal, 1).ordering_only();
      read(round, get(context, 1, cell(0)));
      if (ack_first) notify(context, 0, round);
      context.signal(Rank{1}, pulse, shmem::SignalOp::set, 0);
      if (!ack_first) notify(context, 0, round);
    }
  }
}

/// Every schedule of a body.
struct Explored {
  std::set<std::string> outcomes;
  std::uint64_t runs = 0;
  bool exhausted = false;
};

/// `outcome` is asked after each run.
inline Explored explore_all(World& world, const Body& body, const std::function<std::string(const Run&)>& outcome,
                            std::uint64_t most_runs) {
  Explored all;
  Bounded strategy(Bounded::Price::delays, 1'000'000);
  while (all.runs < most_runs && !all.exhausted) {
    strategy.begin_run();
    const Run run = world.run(body, strategy);
    ++all.runs;
    all.outcomes.insert(outcome(run));
    if (run.outdated) {
      strategy.start_again();
    } else {
      all.exhausted = !strategy.end_run(run.decisions);
    }
  }
  return all;
}

/// What the cores of a litmus have seen, by place.
using Seen = std::vector<std::uint64_t>;
using Litmus = std::function<void(CoreContext&, Seen&)>;

/// Every outcome of the litmus, sorted: "0 1, 1 1"; "stuck" where nobody can go on, else the name of another verdict.
/// The litmus does not race as far as this is concerned.
inline std::string outcomes(Shape shape, std::size_t places, const Litmus& litmus) {
  shape.races = false;
  shape.data_steps = true;
  World world(shape);
  Seen seen;
  const Body body = one_launch([&](CoreContext& context) { litmus(context, seen); });
  seen.assign(places, 0);
  const Explored all = explore_all(
      world, body,
      [&](const Run& run) {
        const Seen now = std::exchange(seen, Seen(places, 0));
        if (run.verdict.clean()) return fmt::format("{}", fmt::join(now, " "));
        return run.verdict.stuck.empty() ? std::string(name_of(run.verdict.kind)) : "stuck";
      },
      2'000'000);
  return all.exhausted ? fmt::format("{}", fmt::join(all.outcomes, ", ")) : "not exhausted";
}

/// The verdict on the default schedule, or on the first failing one of all.
inline Outcome explore(World& world, const Body& body, std::uint64_t most_runs = 200'000) {
  Explorer explorer(world, body);
  Bounded all(Bounded::Price::delays, 1'000'000);
  return explorer.explore("all", all, {.runs = most_runs});
}
inline Verdict verdict_of(const Shape& shape, const Body& body) {
  World world(shape);
  return explore(world, body).failure.verdict;
}
inline Verdict verdict_of(const Shape& shape, const StoredKernel& kernel) {
  return verdict_of(shape, one_launch(kernel));
}

/// Whether a test is satisfied, for programs that only want to know.
inline bool holds(std::optional<shmem::Token> seen) {
  if (seen) std::move(*seen).ordering_only();
  return seen.has_value();
}

}  // namespace shmoe::runtime::check::test
