#pragma once
// The least that two ranks can do to know of each other: a flag there and one back, in bare shared memory.

#include <cstdint>

#include "runtime/communicator.hpp"

namespace shmoe::apps {

/// Ranks 0 and 1 of two, `rounds` times. `at`: a symmetric cache line, zero before the first call.
class FlagRoundTrip {
 public:
  FlagRoundTrip(runtime::Communicator& comm, Offset at) : comm_(&comm), at_(at) {}

  /// Order:   none but that of the flags
  void run(std::int64_t rounds);

 private:
  runtime::Communicator* comm_;
  Offset at_;
  std::uint64_t last_ = 0;
};

}  // namespace shmoe::apps
