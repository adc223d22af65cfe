#include "runtime/pause.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace shmoe::runtime {
namespace {

/// How soon a core that is held up sees what ends its pause.
constexpr shmem::Time kLook = std::chrono::milliseconds(5);

}  // namespace

bool Pause::given_up(SourceSite site) const {
  return fabric_->test({.where = me_, .slots = {&abort_, 1}, .compare = Compare::not_equal, .value = 0}, site)
      .has_value();
}

void Pause::until(shmem::Time end, SourceSite site) const {
  until(
      end, [] { return false; }, site);
}

void Pause::until(shmem::Time end, shmem::FunctionRef<bool()> over, SourceSite site) const {
  while (!given_up(site) && !over()) {
    const shmem::Time left = end - fabric_->now();
    if (left <= shmem::Time{0}) return;
    std::this_thread::sleep_for(std::min(kLook, left));  // lint: allow(atomics) the pause is the fault, or the link
  }
}

}  // namespace shmoe::runtime
