#include "shmem/bus_error.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "shmem/layout.hpp"
#include "shmem/segment.hpp"
#include "tests/shmem/shm_names.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

// Every watch lives in a child: the handler stays with the process that has installed it.

namespace {

constexpr std::size_t kObject = 8 * 4096;

/// Memory that can be taken away.
struct Object {
  int fd = ::memfd_create("bus_error_test", MFD_CLOEXEC);
  std::byte* data = nullptr;

  Object() {
    REQUIRE(::ftruncate(fd, kObject) == 0);
    void* place = ::mmap(nullptr, kObject, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(place != MAP_FAILED);
    data = static_cast<std::byte*>(place);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    ::munmap(data, kObject);
    ::close(fd);
  }
  void shrink(off_t size = 0) const { REQUIRE(::ftruncate(fd, size) == 0); }
  void touch(std::size_t at = 0) const { *static_cast<volatile std::byte*>(data + at) = std::byte{1}; }
  [[nodiscard]] LastWords* last_words() const { return reinterpret_cast<LastWords*>(data + 64); }
  [[nodiscard]] std::uint64_t word(std::size_t at) const {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof word);
    return word;
  }
};

WatchedMemory memory_of(Rank self, const Object& object, Rank owner = Rank{1}) {
  return {.self = self,
          .places = {{.at = object.data, .size = Bytes{kObject}, .owner = owner, .object = ".mem"}},
          .last_words = {object.last_words()}};
}

const std::string kShrunk =
    "somebody has shrunk the object: start the job again, and let nothing else write to shmoe.* in /dev/shm\n";

[[noreturn]] void recover(int /*signal*/, siginfo_t* /*info*/, void* /*context*/) { ::_exit(5); }

}  // namespace

TEST_CASE("bus error: memory that is taken away ends the process with one line: whose, where, why, what to do") {
  const Object object;
  const Ending ending = in_child([&] {
    WatchedMemory memory = memory_of(Rank{0}, object);
    memory.places.front().from = Offset{0x100000};
    const BusErrorWatch watch(std::move(memory));
    object.shrink(4096);
    object.touch(4095);
    object.touch(2 * 4096 + 8);
    return 0;
  });
  CHECK(ending.exit_code == kExitMemoryLost);
  CHECK(ending.said == "shmoe: rank 0: bus error at byte 0x102008 of the shared segment (.mem) of rank 1: " + kShrunk);
}

TEST_CASE("bus error: a page that was never committed while /dev/shm is full") {
  constexpr int kMayNotMount = 77;
  const Ending ending = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) {
      return kMayNotMount;
    }
    const Result<Segment> segment = Segment::create("shmoe.test.full", Bytes{kMiB});
    if (!segment) return 1;
    const BusErrorWatch watch(
        {.self = Rank{2},
         .places = {{.at = segment->data(), .size = Bytes{kMiB}, .owner = Rank{2}, .object = ".mem"}}});
    for (std::size_t at = 0; at < kMiB; at += 4096) segment->data()[at] = std::byte{1};
    return 2;
  });
  if (ending.exit_code == kMayNotMount) {
    MESSAGE("skipped: no mounts of its own are allowed (root only)");
    return;
  }
  CHECK(ending.exit_code == kExitMemoryLost);
  CHECK(ending.said ==
        "shmoe: rank 2: bus error at byte 0x10000 of the shared segment (.mem) of rank 2: /dev/shm is full: in a "
        "container start it with a larger --shm-size, elsewhere remount it with a larger size or remove other files "
        "there\n");
}

TEST_CASE("bus error: a process that only looks has no rank to name") {
  const Object object;
  const Ending ending = in_child([&] {
    const BusErrorWatch watch({.places = memory_of(Rank{0}, object, Rank{7}).places});
    object.shrink();
    object.touch();
    return 0;
  });
  CHECK(ending.exit_code == kExitMemoryLost);
  CHECK(ending.said == "shmoe: bus error at byte 0x0 of the shared segment (.mem) of rank 7: " + kShrunk);
}

TEST_CASE("bus error: whoever touches the rest is told that this rank gave up, and what is gone is left out") {
  const Object gone;
  const Object kept;
  const Ending ending = in_child([&] {
    WatchedMemory memory = memory_of(Rank{0}, gone);
    memory.give_up = {.text = reinterpret_cast<std::byte*>(kept.data + 1024),
                      .words = {gone.data + 32, kept.data + 32, gone.data + 96, kept.data + 96},
                      .word = 0x10F};
    WatchedMemory other{.self = Rank{0}};
    other.give_up = {.text = gone.data, .words = {kept.data + 128}, .word = 0x20F};
    const BusErrorWatch watch(std::move(memory));
    const BusErrorWatch second(std::move(other));
    gone.shrink();
    gone.touch();
    return 0;
  });
  CHECK(ending.exit_code == kExitMemoryLost);
  CHECK(kept.word(32) == 0x10F);
  CHECK(kept.word(96) == 0x10F);
  CHECK(kept.word(128) == 0x20F);
  CHECK(ending.said == "shmoe: rank 0: " + std::string(reinterpret_cast<const char*>(kept.data + 1024)) + "\n");
}

TEST_CASE("bus error: one rank of a job tells, also where the memory in which they settle that is gone") {
  for (const bool first_is_gone : {false, true}) {
    CAPTURE(first_is_gone);
    const Object gone;
    const Object kept;
    const auto lose = [&](Rank self) {
      return in_child([&] {
        WatchedMemory memory = memory_of(self, gone);
        memory.last_words = {first_is_gone ? gone.last_words() : kept.last_words(), kept.last_words()};
        const BusErrorWatch watch(std::move(memory));
        gone.shrink();
        gone.touch();
        return 0;
      });
    };
    const Ending first = lose(Rank{3});
    const Ending second = lose(Rank{2});
    CHECK(first.exit_code == kExitMemoryLost);
    CHECK(first.said.starts_with("shmoe: rank 3: bus error"));
    CHECK(second.exit_code == kExitMemoryLost);
    CHECK(second.said.empty());
    CHECK(kept.last_words()->teller() == Rank{3});
  }
}

TEST_CASE("bus error: of many threads that touch it at once one tells") {
  const Object object;
  const Ending ending = in_child([&] {
    const BusErrorWatch watch(memory_of(Rank{0}, object));
    object.shrink();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i) threads.emplace_back([&, i] { object.touch(i * 4096); });
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
  CHECK(ending.exit_code == kExitMemoryLost);
  CHECK(std::count(ending.said.begin(), ending.said.end(), '\n') == 1);
}

TEST_CASE("bus error: other memory goes to whoever handled it before, or ends the process as ever") {
  const Object watched;
  const Object foreign;
  const auto touch_foreign = [&](bool with_former) {
    return in_child([&] {
      struct sigaction former {};
      former.sa_sigaction = recover;
      former.sa_flags = SA_SIGINFO;
      if (with_former) ::sigaction(SIGBUS, &former, nullptr);
      const BusErrorWatch watch(memory_of(Rank{0}, watched));
      foreign.shrink();
      foreign.touch();
      return 0;
    });
  };
  CHECK(touch_foreign(true).exit_code == 5);
  CHECK(touch_foreign(false).signal == SIGBUS);
  CHECK(touch_foreign(false).said.empty());
}

TEST_CASE("bus error: a signal that somebody sends is no bus error") {
  const Object object;
  for (const bool ignored : {false, true}) {
    const Ending ending = in_child([&] {
      if (ignored) std::signal(SIGBUS, SIG_IGN);
      const BusErrorWatch watch(memory_of(Rank{0}, object));
      ::raise(SIGBUS);
      return 3;
    });
    CHECK(ending.signal == (ignored ? 0 : SIGBUS));
    CHECK(ending.exit_code == (ignored ? 3 : -1));
    CHECK(ending.said.empty());
  }
}

TEST_CASE("bus error: what is watched no more, and a forked child, are left alone") {
  const Object object;
  const Ending after = in_child([&] {
    { const BusErrorWatch watch(memory_of(Rank{0}, object)); }
    object.shrink();
    object.touch();
    return 0;
  });
  CHECK(after.signal == SIGBUS);
  const Object second;
  const Ending ending = in_child([&] {
    const BusErrorWatch watch(memory_of(Rank{0}, second));
    const ::pid_t child = ::fork();
    if (child == 0) {
      second.shrink();
      second.touch();
      ::_exit(0);
    }
    return await_child(child).signal == SIGBUS ? 4 : 0;
  });
  CHECK(ending.exit_code == 4);
}

TEST_CASE("bus error: a watch can be moved, and of too many the last are not watched") {
  const Object object;
  const Ending moved = in_child([&] {
    BusErrorWatch watch(memory_of(Rank{0}, object));
    BusErrorWatch taken;
    taken = std::move(watch);
    watch = BusErrorWatch();
    object.shrink();
    object.touch();
    return 0;
  });
  CHECK(moved.exit_code == kExitMemoryLost);
  const Object first;
  const Object last;
  const auto lose = [&](const Object& lost) {
    return in_child([&] {
      std::vector<BusErrorWatch> watches;
      for (int round = 0; round < 2; ++round) {
        watches.clear();
        for (std::size_t i = 0; i < BusErrorWatch::kMostWatched; ++i) watches.emplace_back(memory_of(Rank{0}, first));
      }
      const BusErrorWatch beyond(memory_of(Rank{0}, last));
      lost.shrink();
      lost.touch();
      return 0;
    });
  };
  CHECK(lose(first).exit_code == kExitMemoryLost);
  CHECK(lose(last).signal == SIGBUS);
}
