#include "runtime/grid.hpp"

#include <system_error>
#include <thread>
#include <vector>

#include "runtime/process_mark.hpp"
#include "shmem/team.hpp"

namespace shmoe::runtime {

namespace {

class ThreadGrid final : public Grid {
 public:
  ThreadGrid(ProcessMark home, shmem::Crowd crowd) : home_(std::move(home)), team_(crowd) {}
  ~ThreadGrid() override;
  void add_thread() {
    threads_.emplace_back([this, core = Core{threads_.size() + 1}] { serve(core); });
  }
  [[nodiscard]] std::int32_t cores() const override { return static_cast<std::int32_t>(threads_.size()) + 1; }

 private:
  void serve(Core core);
  void begin() { team_.begin(static_cast<std::uint32_t>(threads_.size())); }
  [[nodiscard]] bool is_here() const override { return home_.holds(); }
  void run_claimed(CoreBody body) override;

  ProcessMark home_;
  shmem::Team team_;
  const CoreBody* body_ = nullptr;    // null: the end
  std::vector<std::thread> threads_;  // cores 1 .. C-1
};

void ThreadGrid::serve(Core core) {
  for (std::uint32_t work = 1;; ++work) {
    team_.await(work);
    if (body_ == nullptr) return;
    (*body_)(core);
    team_.leave();
  }
}

ThreadGrid::~ThreadGrid() {
  if (threads_.empty()) return;
  if (!is_here()) {  // the threads are the parent's
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  body_ = nullptr;
  begin();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadGrid::run_claimed(CoreBody body) {
  if (threads_.empty()) return body(Core{0});
  body_ = &body;
  begin();
  body(Core{0});
  team_.join();
}

}  // namespace

Result<std::unique_ptr<Grid>> Grid::start(std::int32_t cores, shmem::Crowd crowd) {
  SHMOE_EXPECTS(cores >= 1, "a grid of {} cores", cores);
  Result<ProcessMark> home = ProcessMark::make();
  if (!home) return std::move(home).error();
  auto grid = std::make_unique<ThreadGrid>(*std::move(home), crowd);  // ends on every return what has started
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
  SHMOE_EXPECTS(
      grid.is_here(),
      "a launch in a process that was forked from a rank: its cores are in the parent. Fork before the World is "
      "created, or let the child run another program");
  SHMOE_EXPECTS(grid.busy_.take(),
                "a launch while another one is running on the {} cores of this rank: not from within a kernel, and not "
                "from two threads at once",
                grid.cores());
}

Grid::Claim::~Claim() { grid_->busy_.give_back(); }

}  // namespace shmoe::runtime
