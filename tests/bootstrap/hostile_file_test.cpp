// A rendezvous file and a runtime folder as they should not be: one error that names the path and what to do.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

void put(const std::filesystem::path& path, std::string_view text, mode_t mode = 0600) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  ::chmod(path.c_str(), mode);
}

std::string written_by(const Owner& owner, std::uint16_t port) {
  return fmt::format("shmoe-meeting 1\n{} {} {} {}\n", port, owner.pid, owner.start_time, to_hex(Secret{}));
}

/// What rank 1 of a job says that finds nothing else.
std::string error_of_reader(const std::filesystem::path& path) {
  auto config = config_of(1, 2, path);
  config.timeout = 30ms;
  return outcome(SocketExchange::connect(config));
}

std::string error_of_writer(const std::filesystem::path& path) {
  return outcome(MeetingFile::publish(path, Meeting{2, {}, *this_process()}));
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view kElsewhere =
    "set XDG_RUNTIME_DIR to a writable folder of mode 0700, or SHMOE_COMM_ID and SHMOE_SECRET";

}  // namespace

TEST_CASE("contents of every kind are never believed, and never in the way of rank 0") {
  const TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const std::string good = written_by(*this_process(), 9);
  std::vector<std::string> contents{std::string(1U << 20, '\0'), std::string(1U << 20, 'x'), std::string(513, '\n')};
  for (std::size_t count = 0; count + 1 < good.size(); ++count) contents.push_back(good.substr(0, count));
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 500; ++i) {
    std::string text = i % 2 == 0 ? good : std::string(random() % 600, ' ');
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (i % 2 == 1 || random() % 16 == 0) text[at] = static_cast<char>(random());
    }
    contents.push_back(text);
  }
  for (const char* fields : {"65536 1 1", "-1 1 1", "0 1 1", "9 0 1", "9 -1 1", "9 99999999999999999999 1", "9 1 -1",
                             "9 1 99999999999999999999", "+9 1 1", "0x9 1 1", "9,1,1", "9 1 1 1"}) {
    contents.push_back(fmt::format("shmoe-meeting 1\n{} {}\n", fields, to_hex(Secret{})));
  }
  for (const char* secret : {"", "0", "00000000000000000000000000000000ff", "0000000000000000000000000000000g",
                             "-0000000000000000000000000000000", "0x000000000000000000000000000000"}) {
    const Owner here = *this_process();
    contents.push_back(fmt::format("shmoe-meeting 1\n9 {} {} {}\n", here.pid, here.start_time, secret));
  }
  std::size_t refused = 0;
  for (const auto& text : contents) {
    put(path, text);
    const auto meeting = read_meeting(path);
    if (meeting) {
      // One change in blank space or in the secret is another valid file.
      CHECK(meeting->port > 0);
      continue;
    }
    ++refused;
    CHECK(holds(to_string(meeting.error()), path.native()));
    CHECK(is_one_line(to_string(meeting.error())));
    const auto file = MeetingFile::publish(path, Meeting{2, {}, *this_process()});
    CHECK_MESSAGE(file.has_value(), outcome(file));
    CHECK(folder.entries() == 1);
  }
  MESSAGE(contents.size() << " contents, " << refused << " refused");
  put(path, "nonsense");
  const std::string text = error_of_reader(path);
  CHECK(text.starts_with("deadline passed: rank 1 did not reach rank 0 within "));
  CHECK_MESSAGE(text.ends_with(fmt::format(" s: {} is not what a rank 0 writes: remove it: see whether rank 0 runs, or "
                                           "raise SHMOE_BOOTSTRAP_TIMEOUT_S",
                                           path.native())),
                text);
}

TEST_CASE("what is not a file of this user alone is refused at once, by readers and by rank 0") {
  const TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const auto other = folder.path() / "other";
  const std::string good = written_by(*this_process(), 9);
  put(other, good);
  bool possible = true;
  SUBCASE("link to a good file") { std::filesystem::create_symlink(other, path); }
  SUBCASE("link to nothing") { std::filesystem::create_symlink("nowhere", path); }
  SUBCASE("link to itself") { std::filesystem::create_symlink(path, path); }
  SUBCASE("link to a device") { std::filesystem::create_symlink("/dev/zero", path); }
  SUBCASE("pipe") { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
  SUBCASE("folder") { REQUIRE(::mkdir(path.c_str(), 0700) == 0); }
  SUBCASE("full folder") {
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    put(path / "file", good);
  }
  SUBCASE("socket") {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.native().size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    ::close(fd);
  }
  for (const mode_t mode : {0644U, 0640U, 0604U, 0660U, 0602U, 0601U, 0777U}) {
    SUBCASE(fmt::format("mode {:o}", mode).c_str()) { put(path, good, mode); }
  }
  SUBCASE("another owner") {
    put(path, good);
    possible = ::chown(path.c_str(), 65534, 65534) == 0;
    if (!possible) MESSAGE("skipped: only root gives files away");
  }
  if (!possible) return;
  const std::string expected =
      fmt::format("permission: {} is not a file that only this user can read and write: remove it, or {}",
                  path.native(), kElsewhere);
  CHECK(error_of_reader(path) == expected);
  CHECK(error_of_writer(path) == expected);
}

TEST_CASE("a file that appears slowly is believed when it is whole") {
  Job job(2);
  const auto copy = job.folder.path() / "copy";
  std::thread server([&] { job.of(0) = outcome(SocketExchange::connect(job.config(0))); });
  await_meeting(job.file);
  std::thread client([&] {
    auto config = job.config(1);
    config.endpoint.file = copy;
    job.of(1) = outcome(SocketExchange::connect(config));
  });
  std::ifstream file(job.file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const int fd = ::open(copy.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at + 1 < text.size()) CHECK(read_meeting(copy).error().code == Errc::io);
    REQUIRE(::write(fd, &text[at], 1) == 1);
  }
  ::close(fd);
  client.join();
  server.join();
  job.check_same("ok");
}

TEST_CASE("a file that is replaced while it is read is one or the other") {
  const TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  const auto next = folder.path() / "next";
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int i = 0; !over; ++i) {
      put(next, i % 3 == 0 ? std::string(400, '7') : written_by(*this_process(), i % 3 == 1 ? 1111 : 2222));
      std::filesystem::rename(next, path);
    }
  });
  int good = 0;
  int bad = 0;
  while (good < 500 || bad < 100) {
    const auto meeting = read_meeting(path);
    if (meeting) CHECK((meeting->port == 1111 || meeting->port == 2222));
    if (!meeting && meeting.error().code != Errc::not_found) CHECK(meeting.error().code == Errc::io);
    ++(meeting ? good : bad);
  }
  over = true;
  writer.join();
}

TEST_CASE("files that vanish under rank 0 while it publishes do not end the job") {
  const TemporaryFolder folder;
  const auto path = meeting_path(folder.path(), "j");
  std::atomic<bool> over{false};
  // Another job's cleaning after a jump of the clock: to it all drafts look old.
  std::thread cleaner([&] {
    while (!over) {
      std::error_code gone;
      for (std::filesystem::directory_iterator at(folder.path(), gone), end; !gone && at != end; at.increment(gone)) {
        if (at->path().native().size() > path.native().size() && at->path() != path) ::unlink(at->path().c_str());
      }
    }
  });
  int published = 0;
  int failed = 0;
  for (int i = 0; i < 300; ++i) {
    const auto file = MeetingFile::publish(path, Meeting{2, {}, *this_process()});
    ++(file ? published : failed);
    if (!file) CHECK_MESSAGE(holds(file.error().context, kElsewhere), outcome(file));
  }
  over = true;
  cleaner.join();
  CHECK(published > 0);
  MESSAGE("published " << published << " of 300 times");
}

namespace {

/// What `body` returns in a mount namespace of its own, where `options` are those of a tmpfs on `folder`; nothing where
/// this user may not do that.
std::optional<std::string> on_tmpfs(const std::filesystem::path& folder, unsigned long flags, const char* options,
                                    const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", folder.c_str(), "tmpfs", flags, options) == 0;
    const std::string text = mounted ? body() : "";
    ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (!text.empty()) return text;
  MESSAGE("skipped: this user may not mount");
  return std::nullopt;
}

std::string start_in(const std::filesystem::path& folder) {
  const auto environment = environment_of({{"XDG_RUNTIME_DIR", folder.native()}});
  const Launch launch{"test", Rank{0}, 2, "j", {}, "test"};
  const auto endpoint = choose_endpoint({}, environment, launch, folder);
  if (!endpoint) return outcome(endpoint);
  auto config = config_of(0, 2, endpoint->file);
  config.endpoint = *endpoint;
  return outcome(SocketExchange::connect(config));
}

}  // namespace

TEST_CASE("a runtime folder that cannot be written") {
  const TemporaryFolder folder;
  const auto start = [&] { return start_in(folder.path()); };
  const std::string path = meeting_path(folder.path(), "j").native();
  if (const auto text = on_tmpfs(folder.path(), MS_RDONLY, "mode=0700", start)) {
    CHECK_MESSAGE(text->starts_with("system: cannot create " + path + "."), *text);
    CHECK_MESSAGE(text->ends_with(fmt::format(": {} (Read-only file system)", kElsewhere)), *text);
  }
  if (const auto text = on_tmpfs(folder.path(), 0, "mode=0700,nr_inodes=1", start)) {
    CHECK_MESSAGE(text->starts_with("system: cannot create " + path + "."), *text);
    CHECK_MESSAGE(text->ends_with(fmt::format(": {} (No space left on device)", kElsewhere)), *text);
  }
  const auto full = [&] {
    std::ofstream(folder.path() / "ballast") << std::string(1U << 20, 'x');
    return start_in(folder.path());
  };
  if (const auto text = on_tmpfs(folder.path(), 0, "mode=0700,size=64k", full)) {
    CHECK_MESSAGE(text->starts_with("system: cannot write " + path + "."), *text);
    CHECK_MESSAGE(text->ends_with(fmt::format(": {} (No space left on device)", kElsewhere)), *text);
  }
  CHECK(folder.entries() == 0);
}

}  // namespace shmoe::bootstrap
