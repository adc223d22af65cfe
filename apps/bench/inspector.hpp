#pragma once
// An inspector that looks at this job without pause, in blocks of a benchmark that want one.

#include <string>

#include "apps/shmoe/child_process.hpp"

namespace shmoe::apps {

class Inspector {
 public:
  /// Starts `shmoe inspect` beside this program; stopped until it is asked to look.
  /// Errors:  as start_child
  static Result<Inspector> start(const std::string& folder);
  Inspector(Inspector&&) = default;
  Inspector& operator=(Inspector&&) = delete;
  ~Inspector();

  /// Whether it looks from now on.
  void look(bool at_work) const;

 private:
  Inspector(Guardian guardian, Child child) : guardian_(std::move(guardian)), child_(std::move(child)) {}

  Guardian guardian_;
  Child child_;
};

}  // namespace shmoe::apps
