#pragma once
// Figures that a program prints about a job that it starts, one a run.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shmem/result.hpp"

namespace shmoe::apps {

struct ChildRuns {
  std::function<std::vector<std::string>()> command;  // of each run
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::int64_t repeats = 1;  // counted; one more comes before: it finds the programs on the disk
  int exit_code = 0;         // that the job must end with
};

/// The number with which each run's output begins.
/// Errors:  what start_child refuses; system where a run ends otherwise, or prints no number
Result<std::vector<double>> child_figures(const ChildRuns& runs);

}  // namespace shmoe::apps
