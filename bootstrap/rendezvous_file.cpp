#include "bootstrap/rendezvous_file.hpp"

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/text.hpp"

namespace shmoe::bootstrap {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFile = 512;
/// A file that does not parse after so many seconds has lost its writer.
constexpr std::time_t kWritingTime = 60;
/// Another job may clean the folder, or another rank 0 come and go, while this one publishes.
constexpr int kAttempts = 3;
constexpr std::string_view kFirstLine = "shmoe-meeting 1";

constexpr std::string_view kElsewhere =
    "set XDG_RUNTIME_DIR to a writable folder of mode 0700, or SHMOE_COMM_ID and SHMOE_SECRET";

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Error failed(const fs::path& path, std::string_view what, int sys) {
  return Error{Errc::system, fmt::format("cannot {} {}: {}", what, path.native(), kElsewhere), {}, sys};
}

/// By how much this process sees all start times shifted, in ticks: in a time namespace the boot may be another one.
std::uint64_t boot_shift() {
  std::ifstream file("/proc/self/timens_offsets");
  std::string clock;
  std::int64_t seconds = 0, nanoseconds = 0;
  while (file >> clock >> seconds >> nanoseconds) {
    if (clock == "boottime") return static_cast<std::uint64_t>(seconds * ::sysconf(_SC_CLK_TCK));
  }
  return 0;
}

Result<std::uint64_t> start_time_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');  // does not throw where the process ends meanwhile
  // The name of the program stands in parentheses and may hold anything; fields are counted after its end.
  const auto end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos)
    return Error{
        Errc::not_found,
        fmt::format("there is no process {} in /proc: mount the /proc of its pid namespace (unshare --mount-proc)",
                    pid),
        {},
        0};
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string state, field;
  fields >> state;
  for (int number = 4; number <= 22; ++number) fields >> field;
  if (state == "Z" || state == "X") return Error{Errc::not_found, fmt::format("process {} has ended", pid), {}, 0};
  const auto ticks = parse_whole<std::uint64_t>(field);
  if (!ticks || !fields) return Error{Errc::io, fmt::format("/proc/{}/stat does not parse: mount /proc", pid), {}, 0};
  return *ticks - boot_shift();
}

bool is_private_folder(const struct stat& about) {
  return S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & 07777) == 0700;
}

Result<std::string> read_private_file(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT)
    return Error{Errc::not_found, fmt::format("{} is not there", path.native()), {}, 0};
  // A link, a socket, a file of somebody else: told below.
  if (file.get() < 0 && errno != ELOOP && errno != ENXIO && errno != EACCES) return failed(path, "open", errno);
  struct stat about {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != ::geteuid() ||
      (about.st_mode & 077) != 0) {
    return Error{Errc::permission,
                 fmt::format("{} is not a file that only this user can read and write: remove it, or {}", path.native(),
                             kElsewhere),
                 {},
                 0};
  }
  std::array<char, kMaxFile> buffer{};
  std::string text;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path, "read", errno);
    if (got == 0 || text.size() > kMaxFile) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

bool is_older_than_writing_takes(const fs::path& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && std::time(nullptr) - about.st_mtime > kWritingTime;
}

Result<void> write_new_file(const fs::path& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    const int sys = errno;
    return Error{Errc::system, fmt::format("cannot create {}: {}", path.native(), kElsewhere), {}, sys};
  }
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int sys = errno;
      ::unlink(path.c_str());
      return failed(path, "write", sys);
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Error already_running(const fs::path& path, const Owner& owner) {
  return Error{Errc::already_exists,
               fmt::format("{} belongs to rank 0 of another job, process {}, which is alive: give each job its own "
                           "SHMOE_JOB, and only one process rank 0",
                           path.native(), owner.pid),
               {},
               0};
}

/// Moves what a dead owner left out of the way. It is looked at again under its new name, because another rank 0 may
/// have replaced it in between.
Result<void> clear_stale(const fs::path& path, const fs::path& aside) {
  const auto found = read_meeting(path);
  if (found) return already_running(path, found->owner);
  if (found.error().code == Errc::permission) return found.error();
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT || errno == EROFS) return {};  // what cannot be written is told when we write
    return failed(path, "replace", errno);
  }
  const auto moved = read_meeting(aside);
  if (moved && ::link(aside.c_str(), path.c_str()) != 0 && errno != EEXIST) return failed(path, "restore", errno);
  ::unlink(aside.c_str());
  if (moved) return already_running(path, moved->owner);
  return {};
}

}  // namespace

Result<Owner> this_process() {
  const auto start = start_time_of(::getpid());
  if (!start) return start.error();
  return Owner{::getpid(), *start};
}

bool is_alive(const Owner& owner) {
  const auto start = start_time_of(owner.pid);
  return start && *start == owner.start_time;
}

Result<fs::path> runtime_folder(const Environment& environment, const fs::path& temporary) {
  struct stat about {};
  if (const auto given = environment("XDG_RUNTIME_DIR"); given && given->starts_with('/')) {
    if (::lstat(given->c_str(), &about) == 0 && is_private_folder(about)) return fs::path(*given);
  }
  const fs::path own = temporary / fmt::format("shmoe-{}", ::geteuid());
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) {
    const int sys = errno;
    return Error{
        Errc::not_found, fmt::format("cannot make the runtime folder {}: {}", own.native(), kElsewhere), {}, sys};
  }
  if (::lstat(own.c_str(), &about) != 0) return failed(own, "look at", errno);
  if (is_private_folder(about)) return own;
  return Error{
      Errc::permission,
      fmt::format("{} is not a folder of this user with mode 0700: remove it, or {}", own.native(), kElsewhere),
      {},
      0};
}

fs::path meeting_path(const fs::path& folder, std::string_view job_id) {
  return folder / fmt::format("shmoe-{}.meeting", file_name_of(job_id));
}

std::string to_string(const Meeting& meeting) {
  return fmt::format("{}\n{} {} {} {}\n", kFirstLine, meeting.port, meeting.owner.pid, meeting.owner.start_time,
                     to_hex(meeting.secret));
}

std::optional<Meeting> parse_meeting(const std::string& text) {
  std::istringstream lines(text);
  std::string first, port, pid, start, secret, rest;
  std::getline(lines, first);
  if (first != kFirstLine || !(lines >> port >> pid >> start >> secret) || (lines >> rest)) return std::nullopt;
  const auto port_value = parse_whole<std::uint16_t>(port);
  const auto pid_value = parse_whole<std::int64_t>(pid);
  const auto start_value = parse_whole<std::uint64_t>(start);
  const auto secret_value = secret_from_hex(secret);
  if (!port_value || *port_value == 0 || !pid_value || *pid_value <= 0 || !start_value || !secret_value)
    return std::nullopt;
  return Meeting{*port_value, *secret_value, {*pid_value, *start_value}};
}

Result<Meeting> read_meeting(const fs::path& path) {
  const auto text = read_private_file(path);
  if (!text) return text.error();
  const auto meeting = parse_meeting(*text);
  if (!meeting) {
    return Error{Errc::io, fmt::format("{} is not what a rank 0 writes: remove it", path.native()), {}, 0};
  }
  if (is_alive(meeting->owner)) return *meeting;
  return Error{
      Errc::not_found,
      fmt::format("{} was left by process {}, which is gone, or in another pid namespace (then give SHMOE_COMM_ID)",
                  path.native(), meeting->owner.pid),
      {},
      0};
}

Meetings remove_stale_meetings(const fs::path& folder, bool dry_run) {
  Meetings found;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("shmoe-") || name.find(".meeting") == std::string::npos) continue;
    const auto meeting = read_meeting(at->path());
    const Errc fault = meeting ? Errc::ok : meeting.error().code;
    if (fault == Errc::ok || (fault == Errc::io && !is_older_than_writing_takes(at->path()))) {
      found.live.push_back(name);
    } else if (fault == Errc::not_found || fault == Errc::io) {
      if (!dry_run) ::unlink(at->path().c_str());
      found.stale.push_back(name);
    } else {
      found.odd.push_back(name);
    }
  }
  return found;
}

Result<MeetingFile> MeetingFile::publish(fs::path path, const Meeting& meeting) {
  const auto unique = random_secret();
  if (!unique) return unique.error();
  const fs::path draft = path.native() + "." + to_hex(*unique);
  int sys = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (auto cleared = clear_stale(path, path.native() + ".stale." + to_hex(*unique)); !cleared) return cleared.error();
    if (auto written = write_new_file(draft, to_string(meeting)); !written) return written.error();
    // A link, not a rename: it never replaces what another rank 0 has published meanwhile.
    const int linked = ::link(draft.c_str(), path.c_str());
    sys = errno;
    ::unlink(draft.c_str());
    if (linked == 0) return MeetingFile(std::move(path));
    if (sys != EEXIST && sys != ENOENT) break;
    if (const auto other = read_meeting(path)) return already_running(path, other->owner);
  }
  return failed(path, "publish", sys);
}

MeetingFile::MeetingFile(MeetingFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

MeetingFile& MeetingFile::operator=(MeetingFile&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

MeetingFile::~MeetingFile() { remove(); }

void MeetingFile::remove() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace shmoe::bootstrap
