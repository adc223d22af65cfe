#include "shmem/segment.hpp"

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>

#include <boost/interprocess/shared_memory_object.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shmem/huge_pages.hpp"
#include "shmem/layout.hpp"

namespace shmoe::shmem {
namespace {

namespace ipc = boost::interprocess;

constexpr const char* kShmFolder = "/dev/shm";

/// What helps where /dev/shm takes no new object.
std::string advice_on(int sys) {
  switch (sys) {
    case EROFS:
    case EACCES: return fmt::format(": {} must be writable for this user", kShmFolder);
    case ENOENT:
    case ENOTDIR: return fmt::format(": {0} is no folder: mount a tmpfs there (mount -t tmpfs tmpfs {0})", kShmFolder);
    case ENOSPC: return fmt::format(": {} has no room for another file: run `shmoe clean`, or enlarge it", kShmFolder);
    case EMFILE: return ": raise the limit of open files (ulimit -n)";
    default: return {};
  }
}

Error from_boost(const ipc::interprocess_exception& e, const std::string& what) {
  const ipc::error_code_t code = e.get_error_code();
  const Errc mapped = code == ipc::already_exists_error ? Errc::already_exists
                      : code == ipc::not_found_error    ? Errc::not_found
                      : code == ipc::security_error     ? Errc::permission
                                                        : Errc::system;
  return Error{
      .code = mapped, .context = what + advice_on(e.get_native_error()), .where = {}, .sys = e.get_native_error()};
}

Error from_errno(const std::string& what) {
  return Error{.code = Errc::system, .context = what, .where = {}, .sys = errno};
}

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); }

std::string amount(std::uint64_t bytes) {
  if (bytes < kMiB) return fmt::format("{} KiB", (bytes + kKiB - 1) / kKiB);
  return fmt::format("{:.1f} MiB", mib(bytes));
}

/// The kernel would kill whoever passes the limit.
Result<void> allow_file_size(Bytes size) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || size.value() <= limit.rlim_cur) return {};
  return Error{.code = Errc::system,
               .context = fmt::format("a segment of {:.0f} MiB is larger than a file may be ({:.1f} MiB): raise "
                                      "`ulimit -f`, or lower SHMOE_HEAP or SHMOE_COMMUNICATORS",
                                      mib(size.value()), mib(limit.rlim_cur))};
}

/// The lock says "the owner lives"; the kernel drops it with the process, however that ends.
bool lock_as_owner(const ipc::shared_memory_object& object) {
  int rc = 0;
  do {
    rc = flock(object.get_mapping_handle().handle, LOCK_EX);  // a cleaner of another job holds it for a moment at most
  } while (rc != 0 && errno == EINTR);
  return rc == 0;
}

/// Whether a cleaner found the object between its creation and its lock, and took its owner for dead.
bool was_removed(const ipc::shared_memory_object& object) {
  struct stat info {};
  return fstat(object.get_mapping_handle().handle, &info) == 0 && info.st_nlink == 0;
}

}  // namespace

namespace detail {

/// An object in memory; what lies in an AddressWindow is unmapped with it, all places by one call.
class Mapping {
 public:
  Mapping() = default;
  /// Errors:  none: is_there() says whether it worked, errno why not.
  Mapping(int fd, int protection, std::uint64_t size, std::byte* at) : size_(size), in_window_(at != nullptr) {
    // MAP_FIXED replaces our own reservation only.
    const int flags = MAP_SHARED | MAP_NORESERVE | (in_window_ ? MAP_FIXED : 0);
    place_ = mmap(at, size, protection, flags, fd, 0);
  }
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(size_, other.size_);
    std::swap(in_window_, other.in_window_);
    return *this;
  }
  ~Mapping() {
    if (is_there() && !in_window_) munmap(place_, size_);
  }

  [[nodiscard]] bool is_there() const { return place_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(place_); }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  void* place_ = MAP_FAILED;
  std::uint64_t size_ = 0;
  bool in_window_ = false;
};

}  // namespace detail

Result<AddressWindow> AddressWindow::reserve(std::size_t count, Bytes size) {
  const std::uint64_t stride = round_up(size.value(), kPageGranule) + kPageGranule;
  std::optional<Addresses> addresses = Addresses::reserve(stride * count);
  if (!addresses) {
    return from_errno(
        fmt::format("reserving {} x {:.0f} MiB of addresses: lower SHMOE_HEAP, SHMOE_COMMUNICATORS or "
                    "SHMOE_BUFFSIZE, or raise `ulimit -v`",
                    count, mib(stride)));
  }
  return AddressWindow(*std::move(addresses), count);
}

std::byte* AddressWindow::claim(std::size_t index) {
  SHMOE_EXPECTS(!claimed_.at(index), "place {} of an address window is taken", index);
  claimed_[index] = true;
  return at(index);
}

struct Segment::State {
  std::string name;
  ipc::shared_memory_object object;
  detail::Mapping region;
  HugePages huge;
  bool linked = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { unlink(); }  // also when another segment is assigned over this one
  void unlink() {
    if (std::exchange(linked, false)) ipc::shared_memory_object::remove(name.c_str());
  }
};

Segment::Segment(std::unique_ptr<State> state) : state_(std::move(state)) {}
Segment::Segment(Segment&&) noexcept = default;
Segment& Segment::operator=(Segment&&) noexcept = default;

Segment::~Segment() = default;

std::byte* Segment::data() const { return state_->region.data(); }
Bytes Segment::size() const { return Bytes{state_->region.size()}; }

const std::optional<std::string>& Segment::no_huge_pages() const { return state_->huge.refusal(); }

void Segment::unlink() { state_->unlink(); }

Result<Segment> Segment::create(const std::string& name, Bytes size, std::byte* at) {
  Segment segment(std::make_unique<State>());  // unlinks again on every early return
  State& state = *segment.state_;
  state.name = name;
  try {
    do {
      state.object = ipc::shared_memory_object(ipc::create_only, name.c_str(), ipc::read_write, ipc::permissions(0600));
      state.linked = true;
      if (!lock_as_owner(state.object)) return from_errno(fmt::format("locking segment {}", name));
    } while (was_removed(state.object));
    const int fd = state.object.get_mapping_handle().handle;
    if (Result<void> allowed = allow_file_size(size); !allowed) return std::move(allowed).error();
    // Not object.truncate(): that may commit every page.
    if (ftruncate(fd, static_cast<off_t>(size.value())) != 0) {
      return from_errno(fmt::format("sizing segment {} to {:.0f} MiB", name, mib(size.value())));
    }
    state.region = detail::Mapping(fd, PROT_READ | PROT_WRITE, size.value(), at);
    if (!state.region.is_there())
      return from_errno(fmt::format("mapping segment {} of {:.0f} MiB", name, mib(size.value())));
    state.huge = HugePages(fd, segment.data());
  } catch (const ipc::interprocess_exception& e) {
    return from_boost(e, fmt::format("creating segment {} of {:.0f} MiB", name, mib(size.value())));
  }
  return segment;
}

namespace {

/// A peer's object, open for as long as it takes to map it: 2 x R descriptors would be too many.
class PeerObject {
 public:
  /// A pipe under the name must not hold us, so Boost's own way to open is none.
  PeerObject(const std::string& name, int access) : fd_(shm_open(name.c_str(), access | O_NONBLOCK, 0)) {}
  PeerObject(const PeerObject&) = delete;
  PeerObject& operator=(const PeerObject&) = delete;
  ~PeerObject() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a file";
    case S_IFDIR: return "a folder";
    case S_IFLNK: return "a link";
    case S_IFIFO: return "a pipe";
    case S_IFSOCK: return "a socket";
    default: return "a device";
  }
}

Result<void> check_owner(const std::string& name, const struct stat& found) {
  if (S_ISREG(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 0777) == 0600) return {};
  return Error{
      .code = Errc::permission,
      .context = fmt::format("segment {} is {} of user {} with mode {:o}; expected a file of user {} with "
                             "mode 600: start all ranks as one user, and remove from {} what is not of shmoe",
                             name, kind_of(found.st_mode), found.st_uid, found.st_mode & 0777, geteuid(), kShmFolder)};
}

Error cannot_open(const std::string& name, int sys) {
  struct stat found {};
  if (lstat(fmt::format("{}/{}", kShmFolder, name).c_str(), &found) == 0) {
    if (Result<void> ours = check_owner(name, found); !ours) return std::move(ours).error();
  }
  if (sys != ENOENT)
    return {.code = Errc::system, .context = fmt::format("attaching segment {}{}", name, advice_on(sys)), .sys = sys};
  return {.code = Errc::not_found,
          .context = fmt::format("segment {} is not in {}: all ranks must see the same one; containers share it by "
                                 "--ipc=host or --ipc=container:NAME",
                                 name, kShmFolder)};
}

}  // namespace

Result<Segment> Segment::attach(const std::string& name, Bytes size, Mode mode, std::byte* at) {
  const PeerObject object(name, mode == Mode::read_only ? O_RDONLY : O_RDWR);
  if (object.get() < 0) return cannot_open(name, errno);
  struct stat info {};
  if (fstat(object.get(), &info) != 0) return from_errno(fmt::format("looking at segment {}", name));
  if (Result<void> ours = check_owner(name, info); !ours) return std::move(ours).error();
  if (static_cast<std::uint64_t>(info.st_size) != size.value()) {
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("segment {} has {} bytes, expected {}: every rank must "
                                        "run the same build with the same settings",
                                        name, info.st_size, size)};
  }
  auto state = std::make_unique<State>();
  state->name = name;
  const int protection = mode == Mode::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  state->region = detail::Mapping(object.get(), protection, size.value(), at);
  if (!state->region.is_there()) return from_errno(fmt::format("mapping segment {}", name));
  return Segment(std::move(state));
}

Result<void> Segment::commit(Offset from, Bytes size) {
  // fallocate would grow the object, and no peer could attach it any more.
  SHMOE_EXPECTS(size <= this->size() && from.value() <= this->size().value() - size.value(),
                "bytes [{:#x}, +{}) of segment {} with {} bytes", from.value(), size, state_->name, this->size());
  if (size == Bytes{0}) return {};
  const int fd = state_->object.get_mapping_handle().handle;
  state_->huge.back(from, size);  // what it leaves gets small pages, or the error
  int rc = 0;
  do {
    rc = fallocate(fd, 0, static_cast<off_t>(from.value()), static_cast<off_t>(size.value()));
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) return {};
  if (errno != ENOSPC && errno != ENOMEM)
    return from_errno(fmt::format("committing {} bytes of {}", size, state_->name));
  struct statvfs fs {};
  statvfs(kShmFolder, &fs);
  const std::uint64_t available = static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
  return Error{
      .code = Errc::out_of_memory,
      .context = fmt::format("{} is full: {} asked for, {} free; in a container start it with a "
                             "larger --shm-size, elsewhere remount {} with a larger size, or run `shmoe clean`",
                             kShmFolder, amount(size.value()), amount(available), kShmFolder)};
}

void Segment::spread(Offset from, Bytes size, std::int32_t owners) { state_->huge.spread(from, size, owners); }

namespace {

// An object gets its size after its lock. One without a size for this long has lost its owner in between.
constexpr std::time_t kCreationTime = 60;

/// Removes the object if its owner is gone: then, and only then, its lock can be had. Whether it was gone.
bool remove_if_dead(const std::filesystem::path& path, bool dry_run) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct stat info {};
  // Not even tried while it is being created: the owner would find its own object locked.
  const bool created =
      fstat(fd, &info) == 0 && (info.st_size > 0 || std::time(nullptr) - info.st_mtime > kCreationTime);
  bool dead = created && flock(fd, LOCK_EX | LOCK_NB) == 0;
  // Without a name of its own any more, the path may by now name the object of somebody alive.
  dead = dead && fstat(fd, &info) == 0 && info.st_nlink > 0;
  if (dead && !dry_run) ::unlink(path.c_str());
  close(fd);
  return dead;
}

}  // namespace

Result<CleanReport> clean_stale(bool dry_run) {
  CleanReport report;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(kShmFolder, failure)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kSegmentPrefix)) continue;
    struct stat info {};
    if (lstat(entry.path().c_str(), &info) != 0) continue;
    if (info.st_uid != geteuid()) {
      report.foreign.push_back(name);
    } else if (!S_ISREG(info.st_mode) || (info.st_mode & 07777) != 0600) {
      report.odd.push_back(name);
    } else if (remove_if_dead(entry.path(), dry_run)) {
      report.removed.push_back(name);
    } else {
      report.live.push_back(name);
    }
  }
  if (failure) {
    return Error{
        .code = Errc::system, .context = fmt::format("reading {}", kShmFolder), .where = {}, .sys = failure.value()};
  }
  return report;
}

}  // namespace shmoe::shmem
