// Strangers at the door of rank 0 while the ranks of a job start.

#include <atomic>
#include <iostream>
#include <memory>
#include <random>

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bootstrap/text.hpp"
#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

std::span<const std::byte> first(const Blob& bytes, std::size_t count) { return std::span(bytes).first(count); }

Blob hello_bytes(const Hello& hello) {
  const auto bytes = encode(hello);
  return {bytes.begin(), bytes.end()};
}

Blob noise(std::mt19937& random, std::size_t count) {
  Blob bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// How many connections the texts tell of.
std::size_t told_of(const std::vector<std::string>& strangers) {
  if (strangers.empty() || !strangers.back().starts_with("and ")) return strangers.size();
  const auto more = std::string_view(strangers.back()).substr(4, strangers.back().find(" more") - 4);
  return strangers.size() - 1 + parse_whole<std::size_t>(more).value_or(0);
}

/// A job of `size` ranks whose others come when `attack` is over. What rank 0 tells of strangers.
template <class Attack>
std::vector<std::string> attacked(Job& job, std::chrono::milliseconds hello_timeout, Attack attack) {
  std::vector<std::string> strangers;
  std::thread server([&] {
    auto config = job.config(0);
    config.hello_timeout = hello_timeout;
    auto exchange = SocketExchange::connect(config);
    job.of(0) = exchange ? outcome(exchange->all_gather(blob("0"))) : outcome(exchange);
    if (exchange) strangers = exchange->strangers();
  });
  attack(await_meeting(job.file));
  on_threads(1, job.size(), [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
  });
  server.join();
  for (const auto& stranger : strangers) {
    CHECK_MESSAGE((stranger.starts_with("127.0.0.1:") || stranger.starts_with("and ")), stranger);
    CHECK_MESSAGE(!stranger.starts_with("127.0.0.1:0:"), stranger);
  }
  return strangers;
}

/// A stranger of some kind. Everything is gone when it returns, so a thousand do not fill the descriptors.
void intrude(std::mt19937& random, const Meeting& meeting, int size) {
  RawClient client(meeting.port);
  Hello hello = hello_of(meeting, static_cast<int>(random() % static_cast<unsigned>(size)), size);
  hello.secret.bytes[random() % 16] ^= static_cast<std::byte>(1U << (random() % 8));
  Blob bytes = hello_bytes(hello);
  switch (random() % 6) {
    case 0: return client.reset();
    case 1: return client.close();
    case 2: return client.send(noise(random, random() % 200));
    case 3: return client.send(first(bytes, random() % kHelloBytes));
    case 4: bytes[random() % 8] ^= std::byte{0x10}; return client.send(bytes);
    default: client.send(bytes); client.await_end();
  }
}

}  // namespace

TEST_CASE("every bit of a secret counts") {
  const auto secret = random_secret();
  REQUIRE(secret.has_value());
  CHECK(same(*secret, *secret));
  for (std::size_t bit = 0; bit < 128; ++bit) {
    Secret other = *secret;
    other.bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    CHECK_FALSE(same(*secret, other));
    CHECK_FALSE(same(other, *secret));
  }
}

TEST_CASE("hellos that break off at any byte, by an end, half an end and a reset") {
  Job job(2);
  const auto strangers = attacked(job, 20s, [&](const Meeting& meeting) {
    const Blob hello = hello_bytes(hello_of(meeting, 1, 2));
    for (std::size_t count = 0; count < kHelloBytes; ++count) {
      RawClient ends(meeting.port);
      ends.send(first(hello, count));
      ends.close();
      RawClient half(meeting.port);
      half.send(first(hello, count));
      half.say_no_more();
      half.await_end();
      RawClient resets(meeting.port);
      resets.send(first(hello, count));
      resets.reset();
    }
  });
  job.check_same("ok");
  CHECK(told_of(strangers) == 3 * kHelloBytes);
}

TEST_CASE("a scan of ports: 600 connections that end or are reset at once") {
  Job job(3);
  const auto strangers = attacked(job, 20s, [&](const Meeting& meeting) {
    for (int i = 0; i < 300; ++i) {
      RawClient ends(meeting.port);
      ends.close();
      RawClient resets(meeting.port);
      resets.reset();
    }
  });
  job.check_same("ok");
  CHECK(told_of(strangers) == 600);
}

TEST_CASE("any one wrong bit of a hello's magic or secret") {
  Job job(2);
  const auto strangers = attacked(job, 20s, [&](const Meeting& meeting) {
    const Blob hello = hello_bytes(hello_of(meeting, 1, 2));
    for (std::size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
      const std::size_t at = bit / 8;
      if (at >= 8 && (at < 24 || at >= 40)) continue;
      Blob wrong = hello;
      wrong[at] ^= static_cast<std::byte>(1U << bit % 8);
      const RawClient client(meeting.port);
      client.send(wrong);
      client.await_end();
    }
  });
  job.check_same("ok");
  CHECK(told_of(strangers) == 64 + 128);
}

TEST_CASE("whoever sends one byte at a time is dropped at the limit of a hello") {
  Job job(2);
  const auto strangers = attacked(job, 200ms, [&](const Meeting& meeting) {
    const RawClient slow(meeting.port);
    slow.drip(first(hello_bytes(hello_of(meeting, 1, 2)), kHelloBytes - 1), 20);
    slow.await_end();
  });
  job.check_same("ok");
  REQUIRE(strangers.size() == 1);
  CHECK(strangers.front().ends_with("sent no hello within 0.2 s"));
}

TEST_CASE("strangers of every kind while the ranks come") {
  for (const unsigned seed : {1U, 2U, std::random_device{}()}) {
    INFO("seed " << seed);
    Job job(4);
    std::atomic<bool> over{false};
    std::atomic<int> intrusions{0};
    std::vector<std::thread> crowd;
    const auto strangers = attacked(job, 20s, [&](const Meeting& meeting) {
      for (unsigned who = 0; who < 3; ++who) {
        crowd.emplace_back([&, meeting, random = std::mt19937(seed + 1000 * who)]() mutable {
          while (!over || intrusions < 400) {
            intrude(random, meeting, 4);
            ++intrusions;
            intrusions.notify_all();
          }
        });
      }
      for (int seen = 0; (seen = intrusions) < 200;) intrusions.wait(seen);
    });
    over = true;
    for (auto& thread : crowd) thread.join();
    job.check_same("ok");
    CHECK(told_of(strangers) <= static_cast<std::size_t>(intrusions) + 3);
    MESSAGE("seed " << seed << ": " << intrusions.load() << " intrusions, rank 0 saw " << told_of(strangers));
  }
}

namespace {

/// Rank 0 of two in a process of its own, so that what it holds can be counted.
class Rank0 {
 public:
  Rank0(const std::filesystem::path& file, rlim_t most_files) {
    std::cout.flush();
    pid_ = ::fork();
    if (pid_ != 0) return;
    const rlimit files{most_files, most_files};
    ::setrlimit(RLIMIT_NOFILE, &files);
    auto config = config_of(0, 2, file);
    config.hello_timeout = 1000s;  // nobody is dropped for being slow
    auto exchange = SocketExchange::connect(config);
    ::_exit(exchange && exchange->all_gather({}) ? 0 : 1);
  }
  Rank0(const Rank0&) = delete;
  Rank0& operator=(const Rank0&) = delete;
  ~Rank0() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] std::size_t open_files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid_)), {}));
  }
  int wait() {
    int status = 0;
    REQUIRE(::waitpid(std::exchange(pid_, -1), &status, 0) >= 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

/// Of a crowd of 500 that says nothing only `most` stay, and a rank that comes then gets in.
void check_crowd(rlim_t most_files, std::size_t most) {
  const TemporaryFolder folder;
  const auto file = meeting_path(folder.path(), "j");
  Rank0 rank0(file, most_files);
  const Meeting meeting = await_meeting(file);
  std::vector<RawClient> crowd;
  for (int i = 0; i < 500; ++i) crowd.emplace_back(meeting.port);
  // The oldest are dropped first, so this returns as soon as no more than `most` are left.
  crowd[500 - most - 1].await_end();
  CHECK(rank0.open_files() <= most + 16);
  auto exchange = SocketExchange::connect(config_of(1, 2, file));
  REQUIRE_MESSAGE(exchange.has_value(), outcome(exchange));
  CHECK(exchange->all_gather({}).has_value());
  CHECK(rank0.wait() == 0);
}

}  // namespace

TEST_CASE("of 500 connections that say nothing and never end, the oldest make room") { check_crowd(1024, 2 + 128); }

TEST_CASE("they make room also where 64 descriptors are all there are") { check_crowd(64, 64); }

}  // namespace shmoe::bootstrap
