#pragma once
// The cores of a rank: core 0 is the caller, the others are parked and live as long as the grid.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

class Grid {
 public:
  /// Cores are threads.
  /// Errors:  system where a thread cannot be had; those that have started are ended again.
  static Result<std::unique_ptr<Grid>> start(std::int32_t cores);
  virtual ~Grid() = default;
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  [[nodiscard]] virtual std::int32_t cores() const = 0;

  /// The grid is its holder's until it goes.
  class Claim {
   public:
    explicit Claim(Grid& grid);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    /// Runs `body(core)` once on each core and returns when all have. The body must not throw.
    void run(const std::function<void(Core)>& body) const { grid_->run_claimed(body); }

   private:
    Grid* grid_;
  };
  /// Errors:  a broken contract where somebody has it, this or another communicator: one launch after the other.
  [[nodiscard]] Claim claim() { return Claim(*this); }
  void run(const std::function<void(Core)>& body) { claim().run(body); }

 protected:
  Grid() = default;

 private:
  virtual void run_claimed(const std::function<void(Core)>& body) = 0;

  std::mutex mutex_;
  bool busy_ = false;
};

}  // namespace shmoe::runtime
