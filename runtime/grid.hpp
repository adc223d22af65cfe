#pragma once
// The cores of a rank: core 0 is the calling thread, the others are parked threads that live as long as the grid.

#include <cstdint>
#include <functional>
#include <memory>

#include "shmem/types.hpp"

namespace shmoe::runtime {

class Grid {
 public:
  explicit Grid(std::int32_t cores);
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  [[nodiscard]] std::int32_t cores() const;
  /// Runs `body(core)` once on each core and returns when all have. The body must not throw.
  /// Errors:  a broken contract where a body is still running, of this or of another communicator: one after the other.
  void run(const std::function<void(Core)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shmoe::runtime
