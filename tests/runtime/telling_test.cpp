// Exactly one rank of a failing job tells why: the one nearest to the cause, whoever comes late or not at all.
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/telling.hpp"

namespace shmoe::runtime {
namespace {

/// What a rank does: fails with an error, or, without one, is gone from the start.
using Ends = std::vector<std::optional<Error>>;

/// The ranks that told.
std::vector<std::size_t> tellers(const Ends& ends) {
  std::vector<shmem::LastWords> memory(ends.size());
  std::vector<shmem::LastWords*> words;
  std::vector<std::atomic<bool>> gone(ends.size());
  std::vector<std::atomic<int>> told(ends.size());
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    words.push_back(&memory[rank]);
    gone[rank] = !ends[rank].has_value();
  }
  const auto is_gone = [&](Rank rank) {
    return gone[rank.index()] ? std::optional<std::string>("it has ended") : std::nullopt;
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (!ends[rank]) continue;
      threads.emplace_back([&, rank] {
        tell_once({.self = Rank{rank}, .words = words, .gone = is_gone}, *ends[rank], [&] { ++told[rank]; });
        gone[rank] = true;
      });
    }
  }
  std::vector<std::size_t> found;
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    found.insert(found.end(), static_cast<std::size_t>(told[rank]), rank);
  return found;
}

const Error kAborted{.code = Errc::aborted, .context = {}};
const Error kWaited{.code = Errc::deadline, .context = {}};
const Error kOverrun{.code = Errc::deadline, .context = {}, .where = Rank{0}};
const Error kLost{.code = Errc::peer_lost, .context = {}, .where = Rank{0}};
const Error kOwn{.code = Errc::capacity_exceeded, .context = {}};

using Tellers = std::vector<std::size_t>;

}  // namespace

TEST_CASE("the nearest to the cause tells, and of several the lowest") {
  CHECK(tellers({kWaited}) == Tellers{0});
  CHECK(tellers({kWaited, kWaited, kWaited}) == Tellers{0});
  CHECK(tellers({kAborted, kWaited, kAborted, kWaited}) == Tellers{1});
  CHECK(tellers({kWaited, kAborted, kOverrun, kOverrun}) == Tellers{2});
  CHECK(tellers({kWaited, kAborted, kOwn, kOverrun}) == Tellers{2});
}

TEST_CASE("a rank that is gone is not waited for") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(tellers({std::nullopt, kAborted, kLost, kAborted}) == Tellers{2});
  CHECK(std::chrono::steady_clock::now() - start < kTellingLimit);
}

TEST_CASE("a rank that lives and does not fail holds nobody up for ever") {
  shmem::LastWords mine{};
  shmem::LastWords others{};
  const std::vector<shmem::LastWords*> words{&others, &mine};
  int told = 0;
  tell_once({.self = Rank{1}, .words = words, .gone = [](Rank) { return std::nullopt; }}, kAborted, [&] { ++told; });
  CHECK(told == 1);
}

TEST_CASE("whoever comes after one has told keeps still") {
  shmem::LastWords first{};
  shmem::LastWords second{};
  const std::vector<shmem::LastWords*> words{&first, &second};
  const auto gone = [](Rank rank) {
    return rank == Rank{0} ? std::optional<std::string>("it has ended") : std::nullopt;
  };
  REQUIRE(first.claim(Rank{0}));
  tell_once({.self = Rank{1}, .words = words, .gone = gone}, kOwn, [] { FAIL("told twice"); });
  CHECK(first.teller() == Rank{0});
  CHECK(!second.teller());
  CHECK(second.verdict() != 0);  // it has failed, and says so
}

}  // namespace shmoe::runtime
