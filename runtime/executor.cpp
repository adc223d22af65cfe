#include "runtime/executor.hpp"

#include <algorithm>

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "shmem/result.hpp"

namespace shmoe::runtime {
namespace {

class SerialExecutor final : public Executor {
 public:
  void for_each(std::int64_t n, const std::function<void(std::int64_t)>& body) override {
    for (std::int64_t i = 0; i < n; ++i) body(i);
  }
};

class ParallelExecutor final : public Executor {
 public:
  explicit ParallelExecutor(std::int32_t threads) : arena_(threads) {}

  void for_each(std::int64_t n, const std::function<void(std::int64_t)>& body) override {
    arena_.execute([&] { tbb::parallel_for(std::int64_t{0}, n, body); });
  }

 private:
  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Executor> make_serial_executor() { return std::make_unique<SerialExecutor>(); }

std::unique_ptr<Executor> make_parallel_executor(std::int32_t threads) {
  SHMOE_EXPECTS(threads >= 1, "an executor of {} threads", threads);
  const std::int32_t usable = std::min(threads, tbb::info::default_concurrency());
  if (usable == 1) return make_serial_executor();
  return std::make_unique<ParallelExecutor>(usable);
}

}  // namespace shmoe::runtime
