// Compute inside a rank: every piece once, here or on threads; exceptions pass through.

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/executor.hpp"
#include "shmem/result.hpp"

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

void check_every_piece_runs_once(Executor& executor) {
  for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
    executor.for_each(n, [&](std::int64_t i) { ++calls.at(static_cast<std::size_t>(i)); });
    for (const std::atomic<int>& count : calls) CHECK(count == 1);
  }
}

void check_exceptions_pass_through(Executor& executor) {
  std::atomic<int> running = 0;
  const auto body = [&](std::int64_t i) {
    struct Running {
      std::atomic<int>& count;
      explicit Running(std::atomic<int>& c) : count(c) { ++count; }
      ~Running() { --count; }
    } const mark(running);
    if (i == 37) throw std::runtime_error("piece 37");
  };
  CHECK_THROWS_WITH_AS(executor.for_each(100, body), "piece 37", std::runtime_error);
  CHECK(running == 0);
  check_every_piece_runs_once(executor);
}

}  // namespace

TEST_CASE("the serial executor runs in order on the calling thread") {
  const auto executor = make_serial_executor();
  check_every_piece_runs_once(*executor);
  check_exceptions_pass_through(*executor);
  std::vector<std::int64_t> order;
  bool elsewhere = false;
  executor->for_each(5, [&, caller = std::this_thread::get_id()](std::int64_t i) {
    order.push_back(i);
    elsewhere |= std::this_thread::get_id() != caller;
  });
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK_FALSE(elsewhere);
}

TEST_CASE("the parallel executor runs every piece once") {
  for (const std::int32_t threads : {1, 2, 4}) {
    const auto executor = make_parallel_executor(threads);
    check_every_piece_runs_once(*executor);
    check_exceptions_pass_through(*executor);
  }
}

TEST_CASE("no more pieces at a time than threads") {
  const auto executor = make_parallel_executor(2);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  executor->for_each(200, [&](std::int64_t) {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::yield();
    --running;
  });
  CHECK(most >= 1);
  CHECK(most <= 2);
}

TEST_CASE("pieces may have pieces") {
  const auto executor = make_parallel_executor(3);
  std::atomic<int> calls = 0;
  executor->for_each(10, [&](std::int64_t) { executor->for_each(10, [&](std::int64_t) { ++calls; }); });
  CHECK(calls == 100);
}

TEST_CASE("two executors at the same time keep apart") {
  std::vector<std::thread> ranks;
  std::atomic<int> calls = 0;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&] {
      const auto executor = make_parallel_executor(2);
      for (int round = 0; round < 20; ++round) executor->for_each(25, [&](std::int64_t) { ++calls; });
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(calls == 3 * 20 * 25);
}

TEST_CASE("an executor without threads breaks the contract") {
  CHECK_THROWS_WITH_AS(make_parallel_executor(0), doctest::Contains("an executor of 0 threads"), ContractViolation);
}
