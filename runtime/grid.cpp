#include "runtime/grid.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "shmem/result.hpp"

namespace shmoe::runtime {

struct Grid::State {
  std::mutex mutex;
  std::condition_variable start;
  std::condition_variable finish;
  const std::function<void(Core)>* body = nullptr;
  std::uint64_t generation = 0;
  std::int32_t running = 0;
  bool busy = false;
  bool closing = false;
  std::vector<std::thread> threads;  // cores 1 .. C-1

  void serve(Core core) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      start.wait(lock, [&] { return closing || generation != seen; });
      if (closing) return;
      seen = generation;
      const auto* work = body;
      lock.unlock();
      (*work)(core);
      lock.lock();
      if (--running == 0) finish.notify_one();
    }
  }
};

Grid::Grid(std::int32_t cores) : state_(std::make_unique<State>()) {
  SHMOE_EXPECTS(cores >= 1, "a grid of {} cores", cores);
  for (std::int32_t core = 1; core < cores; ++core) {
    state_->threads.emplace_back([state = state_.get(), core] { state->serve(Core{core}); });
  }
}

Grid::~Grid() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
  }
  state_->start.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

std::int32_t Grid::cores() const { return static_cast<std::int32_t>(state_->threads.size()) + 1; }

void Grid::run(const std::function<void(Core)>& body) {
  {
    const std::lock_guard lock(state_->mutex);
    SHMOE_EXPECTS(!state_->busy,
                  "a launch while another one is running on the {} cores of this rank: not from within a "
                  "kernel, and not from two threads at once",
                  cores());
    state_->busy = true;
    state_->body = &body;
    state_->running = static_cast<std::int32_t>(state_->threads.size());
    ++state_->generation;
  }
  state_->start.notify_all();
  body(Core{0});
  std::unique_lock lock(state_->mutex);
  state_->finish.wait(lock, [&] { return state_->running == 0; });
  state_->busy = false;
}

}  // namespace shmoe::runtime
