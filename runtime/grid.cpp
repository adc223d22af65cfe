#include "runtime/grid.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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

Grid::Grid() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Grid>> Grid::start(std::int32_t cores) {
  SHMOE_EXPECTS(cores >= 1, "a grid of {} cores", cores);
  std::unique_ptr<Grid> grid(new Grid);  // ends on every return what has started
  for (std::int32_t core = 1; core < cores; ++core) {
    try {
      grid->state_->threads.emplace_back([state = grid->state_.get(), core] { state->serve(Core{core}); });
    } catch (const std::system_error& e) {
      return Error{.code = Errc::system,
                   .context = fmt::format("starting thread {} of {}: raise `ulimit -u` or `ulimit -v`, or lower "
                                          "SHMOE_CORES",
                                          core + 1, cores),
                   .sys = e.code().value()};
    }
  }
  return grid;
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

Grid::Claim::Claim(Grid& grid) : grid_(&grid) {
  const std::lock_guard lock(grid.state_->mutex);
  SHMOE_EXPECTS(!grid.state_->busy,
                "a launch while another one is running on the {} cores of this rank: not from within a kernel, and not "
                "from two threads at once",
                grid.cores());
  grid.state_->busy = true;
}

Grid::Claim::~Claim() {
  const std::lock_guard lock(grid_->state_->mutex);
  grid_->state_->busy = false;
}

void Grid::Claim::run(const std::function<void(Core)>& body) const {
  State& state = *grid_->state_;
  {
    const std::lock_guard lock(state.mutex);
    state.body = &body;
    state.running = static_cast<std::int32_t>(state.threads.size());
    ++state.generation;
  }
  state.start.notify_all();
  body(Core{0});
  std::unique_lock lock(state.mutex);
  state.finish.wait(lock, [&] { return state.running == 0; });
}

}  // namespace shmoe::runtime
