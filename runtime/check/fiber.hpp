#pragma once
// A stack of its own for each core, so that one thread can run all cores of all ranks and stop any of them between two
// steps. A fiber is made once and runs many bodies, because making stacks would cost more than most runs.

#include <functional>
#include <memory>

namespace shmoe::runtime::check {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;
  Fiber& operator=(Fiber&&) = delete;

  /// The next body to run. The one before has returned.
  void assign(std::function<void()> body);
  [[nodiscard]] bool idle() const;

  /// Runs the body until it suspends or returns. Exceptions in flight belong to the fiber: switching inside a catch block
  /// is allowed.
  void resume();
  /// From within the body: back to whoever resumed.
  void suspend();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shmoe::runtime::check
