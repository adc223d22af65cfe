// As many ranks as the published limit, each a process.

#include <iostream>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "bootstrap/rendezvous.hpp"
#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

constexpr int kRanks = 384;

/// 0 where everything was right.
int run_rank(int rank, const std::filesystem::path& file, std::vector<std::chrono::microseconds>* times) {
  auto config = config_of(rank, kRanks, file);
  config.timeout = 100s;
  auto exchange = SocketExchange::connect(config);
  if (!exchange) return 1;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto all = exchange->all_gather(Blob(300, static_cast<std::byte>(rank)));
    if (times != nullptr) {
      times->push_back(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start));
    }
    if (!all || all->size() != kRanks) return 2;
    for (int from = 0; from < kRanks; ++from) {
      if ((*all)[static_cast<std::size_t>(from)] != Blob(300, static_cast<std::byte>(from))) return 3;
    }
  }
  return agree(*exchange, {}, "end") ? 0 : 4;
}

}  // namespace

TEST_CASE("384 processes") {
  const TemporaryFolder folder;
  const auto file = meeting_path(folder.path(), "j");
  std::cout.flush();
  std::vector<pid_t> children;
  for (int rank = 1; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(run_rank(rank, file, nullptr));
    children.push_back(child);
  }
  std::vector<std::chrono::microseconds> times;
  CHECK(run_rank(0, file, &times) == 0);
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const auto& time : times) MESSAGE("all_gather of 300 bytes: " << time.count() << " us");
  CHECK(folder.entries() == 0);
}

}  // namespace shmoe::bootstrap
