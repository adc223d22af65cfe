#include "bootstrap/rendezvous_file.hpp"

#include <fstream>
#include <iostream>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

/// A process that has ended, and when it was started.
Owner dead_owner() {
  int ready[2];
  int end[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(end) == 0);
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto owner = this_process();
    const std::uint64_t start = owner ? owner->start_time : 0;
    char byte = 0;
    ::close(end[1]);
    if (::write(ready[1], &start, sizeof start) != sizeof start || ::read(end[0], &byte, 1) < 0) ::_exit(1);
    ::_exit(0);
  }
  Owner owner{child, 0};
  REQUIRE(::read(ready[0], &owner.start_time, sizeof owner.start_time) == sizeof owner.start_time);
  CHECK(is_alive(owner));
  for (const int fd : {ready[0], ready[1], end[0], end[1]}) ::close(fd);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  return owner;
}

void write_by_hand(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), 0600);
}

std::string content(std::uint16_t port, const Owner& owner) {
  return fmt::format("shmoe-meeting 1\n{} {} {} {}\n", port, owner.pid, owner.start_time, to_hex(Secret{}));
}

}  // namespace

TEST_CASE("what is published is what is read, and it goes with its owner") {
  const test::TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const auto secret = random_secret();
  {
    const auto file = MeetingFile::publish(path, Meeting{4711, *secret, *this_process()});
    REQUIRE_MESSAGE(file.has_value(), test::outcome(file));
    struct stat about {};
    CHECK(::lstat(path.c_str(), &about) == 0);
    CHECK((about.st_mode & 07777) == 0600);
    CHECK(folder.entries() == 1);
    const auto meeting = read_meeting(path);
    REQUIRE(meeting.has_value());
    CHECK(meeting->port == 4711);
    CHECK(same(meeting->secret, *secret));
    CHECK(meeting->owner == *this_process());
  }
  CHECK(folder.entries() == 0);
  CHECK(read_meeting(path).error().code == Errc::not_found);
}

TEST_CASE("the file of a living owner is not replaced") {
  const test::TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const auto first = MeetingFile::publish(path, Meeting{1, {}, *this_process()});
  REQUIRE(first.has_value());
  const auto second = MeetingFile::publish(path, Meeting{2, {}, *this_process()});
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == Errc::already_exists);
  CHECK(second.error().context.find(fmt::format("process {}", ::getpid())) != std::string::npos);
  CHECK(read_meeting(path)->port == 1);
  CHECK(folder.entries() == 1);
}

TEST_CASE("the file of a dead owner is not believed, and is replaced") {
  const test::TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  Owner reused = *this_process();
  reused.start_time += 1;
  for (const Owner& owner : {dead_owner(), reused}) {
    write_by_hand(path, content(9, owner));
    CHECK_FALSE(is_alive(owner));
    CHECK(read_meeting(path).error().code == Errc::not_found);
    const auto file = MeetingFile::publish(path, Meeting{2, {}, *this_process()});
    REQUIRE_MESSAGE(file.has_value(), test::outcome(file));
    CHECK(read_meeting(path)->port == 2);
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("cleaning takes what dead owners left, and nothing else") {
  const test::TemporaryFolder folder;
  write_by_hand(meeting_path(folder.path(), "dead"), content(9, dead_owner()));
  write_by_hand(meeting_path(folder.path(), "living"), content(9, *this_process()));
  write_by_hand(folder.path() / "somebody-else.meeting", content(9, dead_owner()));
  const std::string dead = meeting_path(folder.path(), "dead").filename();
  const std::string living = meeting_path(folder.path(), "living").filename();
  CHECK(remove_stale_meetings(folder.path(), true).stale == std::vector{dead});
  CHECK(remove_stale_meetings(folder.path(), true).live == std::vector{living});
  CHECK(folder.entries() == 3);
  CHECK(remove_stale_meetings(folder.path(), false).stale == std::vector{dead});
  CHECK(folder.entries() == 2);
  CHECK(remove_stale_meetings(folder.path() / "missing", false).stale.empty());
}

TEST_CASE("cleaning takes half-written files once they are old, and names what is odd") {
  const test::TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "half");
  write_by_hand(path, "");
  REQUIRE(::mkfifo((folder.path() / "shmoe-pipe.meeting").c_str(), 0600) == 0);
  const std::string half = path.filename();
  CHECK(remove_stale_meetings(folder.path(), false).live == std::vector{half});
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::minutes{2});
  const Meetings found = remove_stale_meetings(folder.path(), false);
  CHECK(found.stale == std::vector{half});
  CHECK(found.odd == std::vector<std::string>{"shmoe-pipe.meeting"});
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file that others may touch, or that is a link, is refused") {
  const test::TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const auto elsewhere = folder.path() / "elsewhere";
  write_by_hand(elsewhere, content(9, *this_process()));
  SUBCASE("link") { std::filesystem::create_symlink(elsewhere, path); }
  SUBCASE("open mode") {
    write_by_hand(path, content(9, *this_process()));
    ::chmod(path.c_str(), 0644);
  }
  SUBCASE("pipe") { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
  CHECK(read_meeting(path).error().code == Errc::permission);
  CHECK(MeetingFile::publish(path, Meeting{2, {}, *this_process()}).error().code == Errc::permission);
}

TEST_CASE("a file that does not parse is an error for readers and replaced by rank 0") {
  const test::TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const auto good = content(9, *this_process());
  for (const std::string& text :
       {std::string(), std::string("shmoe-meeting 2\n") + good.substr(16), good + "more",
        good.substr(0, good.size() - 3), content(0, *this_process()), std::string(5000, 'x')}) {
    write_by_hand(path, text);
    CHECK(read_meeting(path).error().code == Errc::io);
    CHECK(MeetingFile::publish(path, Meeting{2, {}, *this_process()}).has_value());
  }
}

}  // namespace shmoe::bootstrap
