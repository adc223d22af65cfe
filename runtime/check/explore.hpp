#pragma once
// Many schedules of one program, until one fails, the bound is exhausted, or the budget is spent.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/check/strategy.hpp"
#include "runtime/check/world.hpp"

namespace shmoe::runtime::check {

struct Budget {
  std::uint64_t runs = 1000;
  std::chrono::milliseconds time{0};  // 0: no limit
};

/// What a campaign has found out.
struct Outcome {
  std::string strategy;    // that found the failure, or the last one
  std::uint64_t runs = 0;  // schedules
  std::uint64_t most_decisions = 0;
  bool exhausted = false;  // a bounded strategy saw every schedule within its bound
  Run failure;             // of the first failing schedule; clean where none failed
};

/// Called now and then with the schedules so far.
using Progress = std::function<void(const Outcome&)>;

class Explorer {
 public:
  Explorer(World& world, const Body& body) : world_(&world), body_(&body) {}

  /// Every n-th schedule is run a second time: the same choices must give the same run.
  Outcome explore(std::string_view name, Strategy& strategy, const Budget& budget, const Progress& progress = {});
  /// random, then pct1 to pct3, then delay2, each with its share of the budget.
  Outcome portfolio(std::uint64_t seed, const Budget& budget, const Progress& progress = {});

  Run replay(const Deviations& deviations, bool with_story = false);
  /// Fewer and smaller deviations that still give a verdict of this kind.
  Run shrink(const Run& failure);

 private:
  World* world_;
  const Body* body_;
};

}  // namespace shmoe::runtime::check
