#pragma once
// Starting one rank.

#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "apps/shmoe/file_descriptor.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {

struct Child {
  pid_t pid = -1;
  FileDescriptor out, err;  // read ends
};

struct ChildPlan {
  const std::vector<std::string>& command;
  std::vector<std::pair<std::string, std::string>> environment;
  pid_t group;           // process group to join
  sigset_t signal_mask;  // of the child
};

/// Returns once the program runs.
/// Errors:  invalid_argument where it cannot be executed; system
Result<Child> start_child(const ChildPlan& plan);

/// A process that leads a new process group and kills it as soon as this process is gone, however it went.
struct Guardian {
  pid_t pid = -1;
  FileDescriptor lifeline;
};
Result<Guardian> start_guardian();

}  // namespace shmoe::apps
