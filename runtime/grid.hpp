#pragma once
// The cores of a rank: core 0 is the caller, the others are parked and live as long as the grid.

#include <cstdint>
#include <memory>

#include "shmem/function_ref.hpp"
#include "shmem/ladder.hpp"
#include "shmem/result.hpp"
#include "shmem/team.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

/// What runs on each core.
using CoreBody = shmem::FunctionRef<void(Core)>;

class Grid {
 public:
  /// Cores are threads, which sleep between launches that are far apart.
  /// Errors:  system where a thread cannot be had; those that have started are ended again.
  static Result<std::unique_ptr<Grid>> start(std::int32_t cores, shmem::Crowd crowd);
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
    void run(CoreBody body) const { grid_->run_claimed(body); }

   private:
    Grid* grid_;
  };
  /// Errors:  a broken contract where somebody has it, this or another communicator: one launch after the other; and in
  ///          a process that was forked since the start, which has no cores.
  [[nodiscard]] Claim claim() { return Claim(*this); }
  void run(CoreBody body) { claim().run(body); }

 protected:
  Grid() = default;

 private:
  /// Whether the cores are in this process, and not in the one that it was forked from.
  [[nodiscard]] virtual bool is_here() const = 0;
  virtual void run_claimed(CoreBody body) = 0;

  shmem::Occupancy busy_;
};

}  // namespace shmoe::runtime
