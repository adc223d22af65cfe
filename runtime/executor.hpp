#pragma once
// Compute inside a rank: independent pieces of work, here or on a few threads. It knows no other rank and never waits for
// one; the interleaving checker runs the serial one.

#include <cstdint>
#include <functional>
#include <memory>

namespace shmoe::runtime {

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Calls body(i) once for each i of [0, n) and returns when all calls have. They may run at the same time and in any
  /// order, so each writes places of its own. Nested calls are allowed.
  /// Errors:  the exception of a body passes through, that of one body where several throw; some calls may then be left
  ///          out, none is still running.
  virtual void for_each(std::int64_t n, const std::function<void(std::int64_t)>& body) = 0;
};

/// In ascending order, on the calling thread.
std::unique_ptr<Executor> make_serial_executor();
/// Over oneTBB: at most `threads` at a time, the calling one included, and no more than there are CPUs.
std::unique_ptr<Executor> make_parallel_executor(std::int32_t threads);

}  // namespace shmoe::runtime
