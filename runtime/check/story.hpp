#pragma once
// What happened in a run, step by step.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shmem/fabric.hpp"
#include "shmem/signal.hpp"

namespace shmoe::runtime::check {

struct Step {
  enum class Kind : std::uint8_t {
    enter,   // an operator, `round`
    put,     // sent, or written where the memory is own
    get,     // or a view opened
    signal,  // sent, or written where the slot is own
    put_landed,
    signal_landed,
    fence,
    quiet,
    wait,  // begins to wait: the word is not there yet
    seen,  // a wait or a test is satisfied
  };
  Kind kind = Kind::enter;
  std::size_t core = 0;  // of all ranks; of a landing: who sent it
  Rank rank = {};        // whose memory
  Offset at = {};
  Bytes size = {};
  Slot slot = {};
  std::uint64_t value = 0;  // sent, seen, or waited for
  Compare compare = Compare::at_least;
  SourceSite site = {};
  std::string op = {};
};
using Story = std::vector<Step>;

/// "signal_landed", as the enumerators.
std::string_view name_of(Step::Kind kind);

/// "rank 0 core 0   dispatch.cpp:31   signal barrier[1] from rank 0 of rank 1 = 0x200"
std::string to_string(const Step& step, const shmem::SlotPlan& slots, std::int32_t cores);

}  // namespace shmoe::runtime::check
