#pragma once
// The ranks of a job as child processes: started together, watched together, ended together.
//
//   launcher ──┬── guardian        leads the process group; kills it when the launcher's end of their pipe closes
//              ├── rank 0          in the guardian's group, dies with the launcher (parent-death signal)
//              └── rank 1 ...      whatever a rank starts is in the group too

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shmem/result.hpp"

namespace shmoe::apps {

struct GroupPlan {
  std::string name = "shmoe run";  // who speaks in the messages
  std::int32_t ranks = 1;
  std::vector<std::string> command = {};                              // program and arguments
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to ours, beside SHMOE_RANK and the like
  bool prefix = true;                                                 // "[2] " before the lines of rank 2
  bool report_exits = true;                   // name a rank that exits non-zero; signals always are
  bool survive = false;                       // the others go on when a rank is killed by a signal
  std::chrono::milliseconds limit{0};         // of the whole job; 0: none
  std::chrono::milliseconds patience{3'000};  // for survivors to end with an error of their own
  std::chrono::milliseconds grace{5'000};     // from SIGTERM to SIGKILL
};

inline constexpr int kExitTimeout = 124;

/// How a job ended.
struct GroupEnd {
  int code = 0;
  std::optional<int> told;  // the signal by which the launcher was told to end
};

/// Runs the ranks to their end. The code is that of the first rank that failed, and of several that end at the same time
/// of a killed one, then of one with a verdict (85, 86); one that is killed while others report goes before one that only
/// failed; 128 + signal for one that was killed or where the launcher itself
/// is told to end before any has failed, kExitTimeout past the limit. Where others survive, a killed rank gives the code
/// only if no rank ends well.
/// SIGINT, SIGTERM and SIGHUP are passed on; a second one kills at once. Standard input of a rank is empty.
/// Errors:  invalid_argument: no such program; system: no more processes or descriptors; no rank runs on return
Result<GroupEnd> run_group(const GroupPlan& plan);

}  // namespace shmoe::apps
