#include "runtime/diagnosis/job_view.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/text.hpp"
#include "runtime/control_header.hpp"
#include "runtime/machine.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

/// Field 3 of /proc/PID/stat; the name before it may hold anything.
ProcessState state_of_process(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t name_ends = all.rfind(") ");
  return {.letter = name_ends == all.npos ? '\0' : all[name_ends + 2]};
}

Error cannot(std::string_view what, const RankProcess& process) {
  const Errc code = errno == ENOENT || errno == ESRCH ? Errc::not_found : Errc::system;
  return Error{.code = code,
               .context = fmt::format("{} of rank {}, pid {}", what, process.rank, process.pid),
               .where = process.rank,
               .sys = errno};
}

}  // namespace

std::string ProcessState::text() const {
  switch (letter) {
    case 0:
    case 'X':
    case 'Z': return "has ended";
    case 'R': return "runs";
    case 'S': return "sleeps";
    case 'D': return "waits for a device (D)";
    case 'T': return "is stopped (T)";
    case 't': return "is stopped by a debugger (t)";
    default: return fmt::format("is in state {}", letter);
  }
}

/// Pages of an object or, without one, zeros.
class JobView::Mapped {
 public:
  Mapped(int file, Bytes size, Offset from, int protection) : size_(size.value()) {
    const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
    place_ = mmap(nullptr, size_, protection, flags, file, static_cast<off_t>(from.value()));
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (is_there()) munmap(place_, size_);
  }
  [[nodiscard]] bool is_there() const { return place_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(place_); }

 private:
  void* place_;
  std::uint64_t size_;
};

/// Where what a rank shares can be read: in its own two objects, or in a saved file.
struct JobView::RankFiles {
  explicit RankFiles(RankProcess found) : process(found) {}
  RankFiles(const RankFiles&) = delete;
  RankFiles& operator=(const RankFiles&) = delete;
  ~RankFiles() {
    if (control_file >= 0) close(control_file);
    if (memory_file >= 0) close(memory_file);
  }

  RankProcess process;
  int control_file = -1;
  int memory_file = -1;
  std::uint64_t control_at = 0;
  std::map<CommunicatorId, std::uint64_t> memory_at;  // of a saved one
  ProcessState saved_state;
  std::unique_ptr<Mapped> control;
  std::map<CommunicatorId, std::unique_ptr<Mapped>> memory;  // what lies before the ipc window of a block
};

JobView::JobView(RunningJob job, JobShape shape, Use use)
    : job_(std::move(job)), shape_(std::move(shape)), use_(use), ranks_(static_cast<std::size_t>(shape_.ranks)) {}

JobView::~JobView() = default;

Result<std::unique_ptr<JobView>> JobView::make(RunningJob job, const RankFiles& first, Use use) {
  const auto header = std::make_unique<shmem::ControlHeader>();
  if (pread(first.control_file, header.get(), sizeof *header, static_cast<off_t>(first.control_at)) !=
      static_cast<ssize_t>(sizeof *header)) {
    return cannot("reading the control segment", first.process);
  }
  Result<JobShape> shape = shape_in(*header);
  if (!shape) return std::move(shape).error().within(fmt::format("job {}", job.name));
  std::unique_ptr<JobView> view(new JobView(std::move(job), *std::move(shape), use));
  const std::uint64_t most = std::max(view->shape_.map.meta_window().value(), view->shape_.control_memory().value());
  view->blank_ = std::make_unique<Mapped>(-1, Bytes{most}, Offset{0}, PROT_READ | PROT_WRITE);
  if (!view->blank_->is_there()) return cannot("taking memory in place", first.process);
  return view;
}

Result<std::unique_ptr<JobView>> JobView::attach(const RunningJob& job, Use use) {
  if (job.processes.empty()) return Error{.code = Errc::not_found, .context = fmt::format("{} has ended", job.name)};
  constexpr std::int32_t kFilesOfItsOwn = 32;
  const auto ranks = static_cast<std::int32_t>(job.processes.size());
  if (Result<void> allowed = allow_open_files(ranks, 2 * ranks + kFilesOfItsOwn); !allowed) {
    return std::move(allowed).error();
  }
  RankFiles first(job.processes.front());
  first.control_file = open(first.process.path_of(first.process.control).c_str(), O_RDONLY | O_CLOEXEC);
  if (first.control_file < 0) return cannot("opening the control segment", first.process);
  Result<std::unique_ptr<JobView>> view = make(job, first, use);
  if (!view) return view;
  for (const RankProcess& process : job.processes) {
    if (Result<void> opened = (*view)->open_rank(process); !opened) {
      if (opened.error().code != Errc::not_found) return std::move(opened).error();  // else it has ended meanwhile
    }
  }
  return view;
}

Result<void> JobView::open_rank(const RankProcess& process) {
  auto files = std::make_unique<RankFiles>(process);
  files->control_file = open(process.path_of(process.control).c_str(), O_RDONLY | O_CLOEXEC);
  files->memory_file =
      open(process.path_of(process.memory).c_str(), (use_ == Use::look ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (files->control_file < 0 || files->memory_file < 0) return cannot("opening the segments", process);
  struct stat control {};
  struct stat memory {};
  if (fstat(files->control_file, &control) != 0 || fstat(files->memory_file, &memory) != 0 ||
      static_cast<std::uint64_t>(control.st_size) != shape_.control_memory().value() ||
      static_cast<std::uint64_t>(memory.st_size) != shape_.memory().value()) {
    return Error{
        .code = Errc::mismatch,
        .context = fmt::format(
            "the segments of rank {} have another size than rank 0 says: look with the build that the job runs",
            process.rank)};
  }
  return add(std::move(files));
}

Result<void> JobView::add(std::unique_ptr<RankFiles> files) {
  const RankProcess process = files->process;
  if (process.rank.value() < 0 || process.rank.value() >= shape_.ranks) {
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("a process says it is rank {} of {}: look with the build that the job runs",
                                        process.rank, shape_.ranks)};
  }
  files->control =
      std::make_unique<Mapped>(files->control_file, shape_.control_memory(), Offset{files->control_at}, PROT_READ);
  if (!files->control->is_there()) return cannot("mapping the control segment", process);
  const auto& header = *reinterpret_cast<const shmem::ControlHeader*>(files->control->data());
  if (Result<void> right = check_header(header, shape_, process.rank); !right) return right;
  ranks_[process.rank.index()] = std::move(files);
  return {};
}

std::optional<std::int64_t> JobView::pid_of(Rank rank) const {
  const auto& files = ranks_[rank.index()];
  return files ? std::optional(files->process.pid) : std::nullopt;
}

ProcessState JobView::state_of(Rank rank) const {
  const auto pid = pid_of(rank);
  if (!pid) return {};
  return saved_ns_ ? ranks_[rank.index()]->saved_state : state_of_process(*pid);
}

bool JobView::ended() const {
  for (Rank rank{0}; rank.value() < shape_.ranks; ++rank) {
    if (!state_of(rank).ended()) return false;
  }
  return true;
}

std::int64_t JobView::now_ns() const {
  if (saved_ns_) return *saved_ns_;
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Zeros of a rank that is not known.
std::byte* JobView::control_of(Rank rank, CommunicatorId id) const {
  const auto& files = ranks_[rank.index()];
  if (!files) return blank_->data();
  return files->control->data() + shmem::kControlHeaderBytes + shape_.control.size().value() * id.index();
}

Result<std::byte*> JobView::memory_of(Rank rank, CommunicatorId id) {
  const auto& files = ranks_[rank.index()];
  if (!files) return blank_->data();
  std::unique_ptr<Mapped>& mapped = files->memory[id];
  if (!mapped) {
    const auto saved = files->memory_at.find(id);
    const std::uint64_t at = saved == files->memory_at.end() ? shape_.map.size.value() * id.index() : saved->second;
    mapped = std::make_unique<Mapped>(files->memory_file, shape_.map.meta_window(), Offset{at},
                                      use_ == Use::look ? PROT_READ : PROT_READ | PROT_WRITE);
  }
  if (!mapped->is_there()) return cannot("mapping the flags", files->process);
  return mapped->data();
}

Result<std::vector<CommunicatorView>> JobView::communicators() {
  std::vector<std::byte*> controls;
  for (Rank rank{0}; rank.value() < shape_.ranks; ++rank) controls.push_back(control_of(rank, CommunicatorId{0}));
  std::vector<CommunicatorView> views;
  for (Group& group : groups_in(shape_.control, shape_.communicators, controls)) {
    Result<CommunicatorView> view = view_of(std::move(group));
    if (!view) return std::move(view).error();
    views.push_back(*std::move(view));
  }
  return views;
}

Result<CommunicatorView> JobView::view_of(Group group) {
  shmem::Peers peers;
  peers.rank = kOutside;
  peers.scope = group.scope();
  for (const Rank member : group.members) {
    Result<std::byte*> memory = memory_of(member, group.id);
    if (!memory) return std::move(memory).error();
    peers.mem.push_back(*memory);
    peers.controls.push_back(control_of(member, group.id));
  }
  peers.map = std::make_shared<shmem::BlockMap>(shape_.map);
  peers.slots = std::make_shared<shmem::SlotPlan>(shape_.slots);
  peers.control_map = shape_.control;
  for (const Profile& profile : kProfiles) {
    if (profile.id == shape_.profile) peers.flag_word = profile.flag_word;
  }
  return CommunicatorView{.group = std::move(group), .peers = std::move(peers)};
}

// A saved job is one file:
//
//   text     "shmoe saved job 5", what RunningJob holds, and of each rank where its parts lie; whole pages
//   pages    of each rank its `.ctl`, and of each communicator what lies before the ipc window

namespace {

constexpr std::string_view kSaved = "shmoe saved job";
constexpr std::uint64_t kPage = 4096;
// Of what is read: whatever lies there may be called a saved job.
constexpr std::size_t kLongestLine = 64;
constexpr int kLongestName = 256;
constexpr std::size_t kMostCommunicators = 64;

/// Of a file that is written part by part, each on a page of its own.
class PagedFile {
 public:
  explicit PagedFile(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  PagedFile(const PagedFile&) = delete;
  PagedFile& operator=(const PagedFile&) = delete;
  ~PagedFile() {
    if (file_ >= 0) close(file_);
  }
  [[nodiscard]] bool is_open() const { return file_ >= 0; }

  /// Pages of zeros take no room.
  bool write(std::uint64_t at, const char* bytes, std::uint64_t size) {
    static constexpr std::array<char, kPage> kZeros{};
    for (std::uint64_t done = 0; done < size; done += kPage) {
      const std::uint64_t part = std::min(kPage, size - done);
      if (std::memcmp(bytes + done, kZeros.data(), part) == 0) continue;
      if (pwrite(file_, bytes + done, part, static_cast<off_t>(at + done)) != static_cast<ssize_t>(part)) return false;
    }
    end_ = std::max(end_, at + round_up(size, kPage));
    return true;
  }
  bool finish() const { return ftruncate(file_, static_cast<off_t>(end_)) == 0; }

 private:
  int file_;
  std::uint64_t end_ = 0;
};

/// Read, so that pages that are not there do not come to be.
std::vector<char> bytes_in(int file, std::uint64_t at, std::uint64_t size) {
  std::vector<char> bytes(size);
  std::uint64_t done = 0;
  while (done < size) {
    const ssize_t some = pread(file, bytes.data() + done, size - done, static_cast<off_t>(at + done));
    if (some <= 0) break;  // the rest stays zero
    done += static_cast<std::uint64_t>(some);
  }
  return bytes;
}

Error bad_file(const std::string& path, std::string_view what) {
  return Error{.code = Errc::io,
               .context = fmt::format("{} {}; `shmoe inspect JOB --save FILE` makes one", path, what)};
}

}  // namespace

Result<void> JobView::save(const std::string& path) {
  auto communicators = this->communicators();
  if (!communicators) return std::move(communicators).error();
  PagedFile file(path);
  std::string text = fmt::format("{} {}\n{} {} {} {}\n", kSaved, shmem::kLayoutVersion, job_.name, job_.ranks,
                                 job_.begun_ns, now_ns());
  const std::uint64_t control = shape_.control_memory().value();
  const std::uint64_t window = shape_.map.meta_window().value();
  std::uint64_t next = round_up(64 * (2 + ranks_.size() * (1 + communicators->size())), kPage);
  bool written = file.is_open();
  for (const auto& files : ranks_) {
    if (!files || !written) continue;
    text += fmt::format("{} {} {} {} {}", files->process.rank, files->process.pid,
                        static_cast<int>(state_of(files->process.rank).letter), next, communicators->size());
    written = file.write(next, bytes_in(files->control_file, files->control_at, control).data(), control);
    next += round_up(control, kPage);
    for (const CommunicatorView& view : *communicators) {
      text += fmt::format(" {} {}", view.id(), next);
      const std::uint64_t at = shape_.map.size.value() * view.id().index();
      written = written && file.write(next, bytes_in(files->memory_file, at, window).data(), window);
      next += window;
    }
    text += "\n";
  }
  written = written && file.write(0, text.data(), text.size()) && file.finish();
  if (written) return {};
  return Error{.code = Errc::system,
               .context = fmt::format("cannot write {}: give --save a file that can be written", path),
               .where = {},
               .sys = errno};
}

Result<std::unique_ptr<JobView>> JobView::open_saved(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    return Error{.code = Errc::not_found,
                 .context = fmt::format("{} cannot be read: give the file that --save wrote", path),
                 .where = {},
                 .sys = errno};
  std::array<char, kLongestLine> first{};
  in.getline(first.data(), first.size());
  const std::string_view line = first.data();
  if (!line.starts_with(kSaved)) return bad_file(path, "is no saved job");
  if (line != fmt::format("{} {}", kSaved, shmem::kLayoutVersion)) {
    return Error{.code = Errc::version,
                 .context = fmt::format("{} says {}, expected version {}: read it with the build that saved it", path,
                                        bootstrap::quoted(line), shmem::kLayoutVersion)};
  }
  RunningJob job;
  std::int64_t saved = 0;
  in >> std::setw(kLongestName) >> job.name >> job.ranks >> job.begun_ns >> saved;
  job.name = bootstrap::printable(job.name);
  std::vector<std::unique_ptr<RankFiles>> ranks;
  std::int32_t rank = 0;
  RankProcess process;
  while (in >> rank >> process.pid) {
    process.rank = Rank{rank};
    auto files = std::make_unique<RankFiles>(process);
    int letter = 0;
    std::size_t count = 0;
    in >> letter >> files->control_at >> count;
    files->saved_state.letter = static_cast<char>(letter);
    if (count > kMostCommunicators) return bad_file(path, "breaks off");
    for (std::size_t i = 0; in && i < count; ++i) {
      std::int32_t id = 0;
      std::uint64_t at = 0;
      in >> id >> at;
      files->memory_at[CommunicatorId{id}] = at;
    }
    files->control_file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    files->memory_file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (!in || files->control_file < 0 || files->memory_file < 0) return bad_file(path, "breaks off");
    job.processes.push_back(process);
    ranks.push_back(std::move(files));
  }
  if (ranks.empty()) return bad_file(path, "holds no rank");
  Result<std::unique_ptr<JobView>> view = make(job, *ranks.front(), Use::look);
  if (!view) return view;
  const std::uint64_t size = std::filesystem::file_size(path);
  for (auto& files : ranks) {
    std::uint64_t end = files->control_at + (*view)->shape_.control_memory().value();
    for (const auto& [id, at] : files->memory_at) end = std::max(end, at + (*view)->shape_.map.meta_window().value());
    if (end > size) return bad_file(path, "breaks off");
    if (Result<void> added = (*view)->add(std::move(files)); !added) return std::move(added).error();
  }
  (*view)->saved_ns_ = saved;
  return view;
}

}  // namespace shmoe::runtime
