#pragma once
// The cores of a rank: core 0 is the calling thread, the others are parked threads that live as long as the grid.

#include <cstdint>
#include <functional>
#include <memory>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

class Grid {
 public:
  /// Errors:  system where a thread cannot be had; those that have started are ended again.
  static Result<std::unique_ptr<Grid>> start(std::int32_t cores);
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  [[nodiscard]] std::int32_t cores() const;

  /// The grid is its holder's until it goes.
  class Claim {
   public:
    explicit Claim(Grid& grid);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    /// Runs `body(core)` once on each core and returns when all have. The body must not throw.
    void run(const std::function<void(Core)>& body) const;

   private:
    Grid* grid_;
  };
  /// Errors:  a broken contract where somebody has it, this or another communicator: one launch after the other.
  [[nodiscard]] Claim claim() { return Claim(*this); }
  void run(const std::function<void(Core)>& body) { claim().run(body); }

 private:
  struct State;
  Grid();
  std::unique_ptr<State> state_;
};

}  // namespace shmoe::runtime
