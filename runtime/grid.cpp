#include "runtime/grid.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace shmoe::runtime {

namespace {

class ThreadGrid final : public Grid {
 public:
  ~ThreadGrid() override;
  void add_thread() {
    threads_.emplace_back([this, core = Core{threads_.size() + 1}] { serve(core); });
  }
  [[nodiscard]] std::int32_t cores() const override { return static_cast<std::int32_t>(threads_.size()) + 1; }

 private:
  void serve(Core core);
  void run_claimed(const std::function<void(Core)>& body) override;

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finish_;
  const std::function<void(Core)>* body_ = nullptr;
  std::uint64_t generation_ = 0;
  std::int32_t running_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;  // cores 1 .. C-1
};

void ThreadGrid::serve(Core core) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return closing_ || generation_ != seen; });
    if (closing_) return;
    seen = generation_;
    const auto* work = body_;
    lock.unlock();
    (*work)(core);
    lock.lock();
    if (--running_ == 0) finish_.notify_one();
  }
}

ThreadGrid::~ThreadGrid() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadGrid::run_claimed(const std::function<void(Core)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    running_ = static_cast<std::int32_t>(threads_.size());
    ++generation_;
  }
  start_.notify_all();
  body(Core{0});
  std::unique_lock lock(mutex_);
  finish_.wait(lock, [&] { return running_ == 0; });
}

}  // namespace

Result<std::unique_ptr<Grid>> Grid::start(std::int32_t cores) {
  SHMOE_EXPECTS(cores >= 1, "a grid of {} cores", cores);
  auto grid = std::make_unique<ThreadGrid>();  // ends on every return what has started
  for (std::int32_t core = 1; core < cores; ++core) {
    try {
      grid->add_thread();
    } catch (const std::system_error& e) {
      return Error{.code = Errc::system,
                   .context = fmt::format("starting thread {} of {}: raise `ulimit -u` or `ulimit -v`, or lower "
                                          "SHMOE_CORES",
                                          core + 1, cores),
                   .sys = e.code().value()};
    }
  }
  return std::unique_ptr<Grid>(std::move(grid));
}

Grid::Claim::Claim(Grid& grid) : grid_(&grid) {
  const std::lock_guard lock(grid.mutex_);
  SHMOE_EXPECTS(!grid.busy_,
                "a launch while another one is running on the {} cores of this rank: not from within a kernel, and not "
                "from two threads at once",
                grid.cores());
  grid.busy_ = true;
}

Grid::Claim::~Claim() {
  const std::lock_guard lock(grid_->mutex_);
  grid_->busy_ = false;
}

}  // namespace shmoe::runtime
