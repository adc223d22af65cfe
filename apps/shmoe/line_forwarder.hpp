#pragma once
// The output of one process, passed on in whole lines, so that the lines of many processes never mix.

#include <cstddef>
#include <string>
#include <string_view>

#include "apps/shmoe/file_descriptor.hpp"

namespace shmoe::apps {

class LineForwarder {
 public:
  /// Reads from `source`, writes to the descriptor `target`; `prefix` stands before every line.
  LineForwarder(FileDescriptor source, int target, std::string prefix)
      : source_(std::move(source)), target_(target), prefix_(std::move(prefix)) {}

  /// -1 once the source has ended.
  [[nodiscard]] int descriptor() const { return source_.get(); }
  /// One read; how much it got. At the end of the source an unfinished line gets its line break.
  std::size_t forward(std::size_t at_most = std::size_t{1} << 16);
  /// What is in the source at this moment, however long writing it takes.
  void forward_what_is_there();
  /// What comes later is lost; an unfinished line gets its line break.
  void finish();
  /// The target, and why it could not be written; 0: it could. From then on everything is lost.
  [[nodiscard]] int target() const { return target_; }
  [[nodiscard]] int lost() const { return lost_; }

 private:
  void pass_on_lines();
  void write(std::string_view text);

  FileDescriptor source_;
  int target_;
  std::string prefix_;
  std::string pending_;
  int lost_ = 0;
};

}  // namespace shmoe::apps
