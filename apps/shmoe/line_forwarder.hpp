#pragma once
// The output of one process, passed on in whole lines, so that the lines of many processes never mix.

#include <string>

#include "apps/shmoe/file_descriptor.hpp"

namespace shmoe::apps {

class LineForwarder {
 public:
  /// Reads from `source`, writes to the descriptor `target`; `prefix` stands before every line.
  LineForwarder(FileDescriptor source, int target, std::string prefix)
      : source_(std::move(source)), target_(target), prefix_(std::move(prefix)) {}

  /// -1 once the source has ended.
  [[nodiscard]] int descriptor() const { return source_.get(); }
  /// One read. At the end of the source an unfinished line gets its line break.
  void forward();

 private:
  void pass_on_lines();
  void finish();

  FileDescriptor source_;
  int target_;
  std::string prefix_;
  std::string pending_;
};

}  // namespace shmoe::apps
