#include "shmem/segment.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "shmem/layout.hpp"
#include "tests/shmem/shm_names.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

constexpr Bytes kSegmentSize{64 * 1024};

Segment made(const std::string& name, Bytes size = kSegmentSize, std::byte* at = nullptr) {
  Result<Segment> segment = Segment::create(name, size, at);
  REQUIRE_MESSAGE(segment.has_value(), to_string(segment.error()));
  return std::move(segment).value();
}

Error refused(Result<Segment> result) {
  REQUIRE(!result.has_value());
  return std::move(result).error();
}

std::uint64_t bytes_in_use(const std::string& name) {
  struct stat info {};
  REQUIRE(::stat((kShm / name).c_str(), &info) == 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// An object whose owner ended without removing it.
void leave_behind(const std::string& name) {
  const Ending ending = in_child([&] {
    Result<Segment> segment = Segment::create(name, kSegmentSize);
    if (!segment) return 1;
    segment->data()[0] = std::byte{0x5A};
    ::_exit(0);
  });
  REQUIRE(ending.exit_code == 0);
}

/// An object nobody locked, with a time of last change.
void raw_object(const std::string& name, off_t size, std::time_t age_s) {
  const int fd = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, size) == 0);
  const std::time_t then = std::time(nullptr) - age_s;
  const struct timespec times[2] = {{then, 0}, {then, 0}};
  REQUIRE(::futimens(fd, times) == 0);
  ::close(fd);
}

CleanReport clean(bool dry_run) {
  Result<CleanReport> report = clean_stale(dry_run);
  REQUIRE_MESSAGE(report.has_value(), to_string(report.error()));
  return std::move(report).value();
}

}  // namespace

TEST_CASE("segment: what one mapping writes the other reads, and a fresh object is all zeros") {
  const ShmNames names;
  Segment own = made(names.of("0.mem"));
  CHECK(own.size() == kSegmentSize);
  CHECK(std::all_of(own.data(), own.data() + kSegmentSize.value(), [](std::byte b) { return b == std::byte{0}; }));
  auto peer = Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_write);
  REQUIRE(peer.has_value());
  CHECK(peer->data() != own.data());
  CHECK(peer->size() == kSegmentSize);
  peer->data()[kSegmentSize.value() - 1] = std::byte{7};
  CHECK(own.data()[kSegmentSize.value() - 1] == std::byte{7});
  const auto reader = Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_only);
  REQUIRE(reader.has_value());
  own.data()[0] = std::byte{9};
  CHECK(reader->data()[0] == std::byte{9});
  const Ending ending = in_child([&] {
    reader->data()[0] = std::byte{1};
    return 0;
  });
  CHECK(ending.signal == SIGSEGV);
}

TEST_CASE("segment: after unlink the name is gone and the mappings serve on") {
  const ShmNames names;
  Segment own = made(names.of("0.mem"));
  auto peer = Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_write);
  REQUIRE(peer.has_value());
  own.unlink();
  own.unlink();
  CHECK(!in_shm(names.of("0.mem")));
  own.data()[5] = std::byte{42};
  CHECK(peer->data()[5] == std::byte{42});
  CHECK(refused(Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_write)).code == Errc::not_found);
  // The name is free again, and the old owner no longer touches it.
  const Segment second = made(names.of("0.mem"));
  own.unlink();
  CHECK(in_shm(names.of("0.mem")));
}

TEST_CASE("segment: the name goes with its owner, by end, by move and by assignment; a peer's end keeps it") {
  const ShmNames names;
  {
    Segment own = made(names.of("a"));
    const Segment moved = std::move(own);
    CHECK(in_shm(names.of("a")));
    {
      auto peer = Segment::attach(names.of("a"), kSegmentSize, Segment::Mode::read_write);
      REQUIRE(peer.has_value());
      peer->unlink();
    }
    CHECK(in_shm(names.of("a")));
  }
  CHECK(!in_shm(names.of("a")));
  Segment held = made(names.of("b"));
  held = made(names.of("c"));
  CHECK(!in_shm(names.of("b")));
  CHECK(in_shm(names.of("c")));
}

TEST_CASE("segment: a second owner is refused and the first keeps its object") {
  const ShmNames names;
  const Segment own = made(names.of("0.mem"));
  const Error error = refused(Segment::create(names.of("0.mem"), kSegmentSize));
  CHECK(error.code == Errc::already_exists);
  CHECK(error.context.find(names.of("0.mem")) != std::string::npos);
  CHECK(in_shm(names.of("0.mem")));
}

TEST_CASE("segment: a wrong size is refused with both figures") {
  const ShmNames names;
  const Segment own = made(names.of("0.mem"), Bytes{8192});
  for (const std::uint64_t size : {std::uint64_t{4096}, std::uint64_t{8191}, std::uint64_t{1} << 40}) {
    const Error error = refused(Segment::attach(names.of("0.mem"), Bytes{size}, Segment::Mode::read_write));
    CHECK(error.code == Errc::mismatch);
    CHECK(error.context.find("8192") != std::string::npos);
    CHECK(error.context.find(std::to_string(size)) != std::string::npos);
  }
}

TEST_CASE("segment: a wrong mode is refused") {
  const ShmNames names;
  const Segment own = made(names.of("0.mem"));
  for (const ::mode_t mode : {0660U, 0644U, 0400U}) {
    REQUIRE(::chmod((kShm / names.of("0.mem")).c_str(), mode) == 0);
    CHECK(refused(Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_write)).code ==
          Errc::permission);
  }
  REQUIRE(::chmod((kShm / names.of("0.mem")).c_str(), 0600) == 0);
  CHECK(Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_write).has_value());
}

TEST_CASE("segment: what is no file of this user is refused with what was found and expected, and holds nobody") {
  const ShmNames names;
  const std::string name = names.of("0.mem");
  const std::string path = (kShm / name).native();
  const std::string expected = fmt::format(
      "; expected a file of user {0} with mode 600: start all ranks as one user, and remove from /dev/shm "
      "what is not of shmoe",
      ::geteuid());
  const auto refused_as = [&](const std::string& found) {
    CAPTURE(found);
    for (const Segment::Mode mode : {Segment::Mode::read_only, Segment::Mode::read_write}) {
      const Error error = refused(Segment::attach(name, kSegmentSize, mode));
      CHECK(to_string(error) == fmt::format("permission: segment {} is {}{}", name, found, expected));
    }
    CHECK(std::filesystem::remove(path));
  };
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  refused_as(fmt::format("a folder of user {} with mode 700", ::geteuid()));
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  refused_as(fmt::format("a pipe of user {} with mode 600", ::geteuid()));
  const Segment target = made(names.of("target"));
  REQUIRE(::symlink((kShm / names.of("target")).c_str(), path.c_str()) == 0);
  refused_as(fmt::format("a link of user {} with mode 777", ::geteuid()));
  REQUIRE(::symlink("/nonexistent", path.c_str()) == 0);
  refused_as(fmt::format("a link of user {} with mode 777", ::geteuid()));
  if (::geteuid() != 0) {
    MESSAGE("skipped: objects of another user, which only root can make");
    return;
  }
  constexpr ::uid_t kOther = 12345;
  raw_object(name, static_cast<off_t>(kSegmentSize.value()), 0);
  REQUIRE(::chown(path.c_str(), kOther, kOther) == 0);
  refused_as("a file of user 12345 with mode 600");
  REQUIRE(::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0);
  refused_as("a device of user 0 with mode 600");
  raw_object(name, static_cast<off_t>(kSegmentSize.value()), 0);
  const Ending ending = in_child([&] {  // who may not even open it
    if (::setresuid(kOther, kOther, kOther) != 0) return 1;
    const Result<Segment> segment = Segment::attach(name, kSegmentSize, Segment::Mode::read_only);
    fmt::print(stderr, "{}", segment ? "attached" : to_string(segment.error()));
    return 0;
  });
  CHECK(ending.said == fmt::format("permission: segment {} is a file of user 0 with mode 600; expected a file of user "
                                   "12345 with mode 600: start all ranks as one user, and remove from /dev/shm what is "
                                   "not of shmoe",
                                   name));
}

TEST_CASE("segment: a missing one may be in another container") {
  const ShmNames names;
  const Error error = refused(Segment::attach(names.of("none"), kSegmentSize, Segment::Mode::read_only));
  CHECK(error.code == Errc::not_found);
  CHECK(error.context == fmt::format("segment {} is not in /dev/shm: all ranks must see the same one; containers share "
                                     "it by --ipc=host or --ipc=container:NAME",
                                     names.of("none")));
}

TEST_CASE("segment: a name that leads out of /dev/shm is refused") {
  for (const std::string name : {"", "..", "../etc/passwd", "a/b", "/"}) {
    CAPTURE(name);
    CHECK(!Segment::attach(name, kSegmentSize, Segment::Mode::read_only).has_value());
  }
  CHECK(!Segment::attach(std::string(300, 'x'), kSegmentSize, Segment::Mode::read_only).has_value());
}

TEST_CASE("segment: a failed creation leaves no name") {
  const ShmNames names;
  CHECK(!Segment::create(names.of("empty"), Bytes{0}).has_value());
  CHECK(!Segment::create(names.of("huge"), Bytes{std::uint64_t{1} << 63}).has_value());
  CHECK(names.present().empty());
}

TEST_CASE("segment: an object of a terabyte holds no pages until they are committed") {
  const ShmNames names;
  const std::string name = names.of("0.mem");
  Segment own = made(name, Bytes{std::uint64_t{1} << 40});
  CHECK(bytes_in_use(name) == 0);
  REQUIRE(own.commit(Offset{(std::uint64_t{1} << 32) + 4096}, Bytes{kMiB}).has_value());
  CHECK(bytes_in_use(name) >= kMiB);
  CHECK(bytes_in_use(name) < 8 * kMiB);
  own.data()[(std::uint64_t{1} << 40) - 1] = std::byte{1};  // sparse, and reachable to its end
  REQUIRE(own.commit(Offset{0}, Bytes{0}).has_value());
}

TEST_CASE("segment: a commit stays inside its object") {
  const ShmNames names;
  Segment own = made(names.of("0.mem"), Bytes{8192});
  CHECK_THROWS_AS((void)own.commit(Offset{4096}, Bytes{4097}), ContractViolation);
  CHECK_THROWS_AS((void)own.commit(Offset{8192}, Bytes{1}), ContractViolation);
  CHECK_THROWS_AS((void)own.commit(Offset{~std::uint64_t{0}}, Bytes{4096}), ContractViolation);
  CHECK(own.commit(Offset{4096}, Bytes{4096}).has_value());
  CHECK(Segment::attach(names.of("0.mem"), Bytes{8192}, Segment::Mode::read_write).has_value());
}

TEST_CASE("segment: more than there is gives out_of_memory with the figures") {
  struct statvfs fs {};
  REQUIRE(::statvfs(kShm.c_str(), &fs) == 0);
  const std::uint64_t total = static_cast<std::uint64_t>(fs.f_blocks) * fs.f_frsize;
  if (total == 0 || total > std::uint64_t{1} << 45) {
    MESSAGE("skipped: /dev/shm has no limit");
    return;
  }
  const ShmNames names;
  Segment own = made(names.of("0.mem"), Bytes{2 * total});
  const Result<void> result = own.commit(Offset{0}, Bytes{total + kMiB});
  REQUIRE(!result.has_value());
  CHECK(result.error().code == Errc::out_of_memory);
  const double asked = static_cast<double>(total + kMiB) / static_cast<double>(kMiB);
  CHECK(result.error().context.find(fmt::format("{:.1f} MiB asked for", asked)) != std::string::npos);
  CHECK(result.error().context.find("MiB free") != std::string::npos);
  CHECK(bytes_in_use(names.of("0.mem")) == 0);
  CHECK(own.commit(Offset{0}, Bytes{4096}).has_value());
}

TEST_CASE("clean: what a dead process left is reported by a dry run and removed by a real one") {
  // Jobs of the same user that start meanwhile clean as well; then the object is left behind once more.
  for (int attempt = 0;; ++attempt) {
    REQUIRE(attempt < 50);
    const ShmNames names;
    const std::string name = names.of("0.mem");
    leave_behind(name);
    const CleanReport dry = clean(true);
    if (!in_shm(name) || !contains(dry.removed, name)) continue;
    const CleanReport wet = clean(false);
    if (!contains(wet.removed, name)) continue;
    CHECK(!in_shm(name));
    const Segment fresh = made(name);
    CHECK(fresh.data()[0] == std::byte{0});
    return;
  }
}

TEST_CASE("clean: what a live process owns stays, before and after its owner forks") {
  const ShmNames names;
  const Segment own = made(names.of("0.mem"));
  CHECK(contains(clean(false).live, names.of("0.mem")));
  CHECK(in_child([] { return 0; }).exit_code == 0);
  const CleanReport report = clean(false);
  CHECK(contains(report.live, names.of("0.mem")));
  CHECK(!contains(report.removed, names.of("0.mem")));
  CHECK(in_shm(names.of("0.mem")));
}

TEST_CASE("clean: an object that is just being created stays; one that never got its size goes") {
  const ShmNames names;
  raw_object(names.of("young"), 0, 0);
  raw_object(names.of("old"), 0, 3600);
  raw_object(names.of("sized"), 4096, 0);
  const CleanReport report = clean(false);
  CHECK(contains(report.live, names.of("young")));
  CHECK(in_shm(names.of("young")));
  CHECK(!in_shm(names.of("old")));
  CHECK(!in_shm(names.of("sized")));
}

TEST_CASE("clean: what is no segment stays and is told apart") {
  const ShmNames names;
  const std::string name = names.of("pipe");
  REQUIRE(::mkfifo(("/dev/shm/" + name).c_str(), 0600) == 0);
  const CleanReport report = clean(false);
  CHECK(contains(report.odd, name));
  CHECK(!contains(report.live, name));
  CHECK(in_shm(name));
  CHECK(::shm_unlink(name.c_str()) == 0);
}

TEST_CASE("clean: creating and cleaning at once never costs a live object") {
  const ShmNames names;
  const ::pid_t cleaner = start_child([] {
    for (int i = 0; i < 2000; ++i) {
      if (!clean_stale(false)) return 1;
    }
    return 0;
  });
  int lost = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto own = Segment::create(names.of("0.mem"), kSegmentSize);
    lost +=
        !own.has_value() || !Segment::attach(names.of("0.mem"), kSegmentSize, Segment::Mode::read_write).has_value();
  }
  CHECK(lost == 0);
  CHECK(await_child(cleaner).exit_code == 0);
}

TEST_CASE("clean: other names are not looked at") {
  const std::string name = fmt::format("not-shmoe.test{}", ::getpid());
  raw_object(name, 4096, 3600);
  const CleanReport report = clean(false);
  CHECK(in_shm(name));
  for (const auto* list : {&report.removed, &report.live, &report.foreign}) CHECK(!contains(*list, name));
  CHECK(::shm_unlink(name.c_str()) == 0);
}

TEST_CASE("address window: strides are distinct and far enough apart") {
  auto window = AddressWindow::reserve(5, Bytes{3 * kMiB});
  REQUIRE(window.has_value());
  for (std::size_t i = 0; i + 1 < 5; ++i) {
    const auto stride = static_cast<std::uint64_t>(window->at(i + 1) - window->at(i));
    CHECK(stride >= 4 * kMiB + kPageGranule);
    CHECK(stride % kPageGranule == 0);
  }
  std::byte* first = window->at(0);
  const AddressWindow moved = std::move(window).value();
  CHECK(moved.at(0) == first);
}

TEST_CASE("address window: segments lie where they were placed, and the gap after each faults") {
  const ShmNames names;
  auto window = AddressWindow::reserve(2, Bytes{kPageGranule});
  REQUIRE(window.has_value());
  std::vector<Segment> placed;
  for (std::size_t i = 0; i < 2; ++i) {
    placed.push_back(made(names.of(std::to_string(i)), Bytes{kPageGranule}, window->claim(i)));
    CHECK(placed[i].data() == window->at(i));
    placed[i].data()[kPageGranule - 1] = std::byte{3};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    for (const std::uint64_t beyond : {kPageGranule, kPageGranule + 4096, 2 * kPageGranule - 1}) {
      const Ending ending = in_child([&] {
        const volatile std::byte* gap = window->at(i) + beyond;
        return static_cast<int>(*gap);
      });
      CHECK(ending.signal == SIGSEGV);
    }
  }
}
