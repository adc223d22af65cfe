#include "runtime/job_view.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/control_header.hpp"
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
  std::unique_ptr<Mapped> control;
  std::map<CommunicatorId, std::unique_ptr<Mapped>> memory;  // what lies before the ipc window of a block
};

std::optional<Error> CommunicatorView::aborted() const {
  for (Rank member{0}; member.value() < peers.size(); ++member) {
    if (std::optional<Error> error = abort_seen_by(member, peers, members)) return error;
  }
  return std::nullopt;
}

JobView::JobView(RunningJob job, JobShape shape, Use use)
    : job_(std::move(job)), shape_(std::move(shape)), use_(use), ranks_(static_cast<std::size_t>(shape_.ranks)) {}

JobView::~JobView() = default;

Result<std::unique_ptr<JobView>> JobView::attach(const RunningJob& job, Use use) {
  if (job.processes.empty()) return Error{.code = Errc::not_found, .context = fmt::format("{} has ended", job.name)};
  const RankProcess& first = job.processes.front();
  const int file = open(first.path_of(first.control).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot("opening the control segment", first);
  const auto header = std::make_unique<shmem::ControlHeader>();
  const bool whole = pread(file, header.get(), sizeof *header, 0) == static_cast<ssize_t>(sizeof *header);
  close(file);
  if (!whole) return cannot("reading the control segment", first);
  Result<JobShape> shape = shape_in(*header);
  if (!shape) return std::move(shape).error().within(fmt::format("job {}", job.name));
  std::unique_ptr<JobView> view(new JobView(job, *std::move(shape), use));
  view->blank_ = std::make_unique<Mapped>(
      -1, Bytes{std::max(view->shape_.map.meta_window().value(), view->shape_.control_memory().value())}, Offset{0},
      PROT_READ | PROT_WRITE);
  if (!view->blank_->is_there()) return cannot("taking memory in place", first);
  for (const RankProcess& process : job.processes) {
    if (Result<void> opened = view->open_rank(process); !opened) {
      if (opened.error().code != Errc::not_found) return std::move(opened).error();  // else it has ended meanwhile
    }
  }
  return view;
}

Result<void> JobView::open_rank(const RankProcess& process) {
  if (process.rank.value() < 0 || process.rank.value() >= shape_.ranks) {
    return Error{.code = Errc::mismatch, .context = fmt::format("rank {} of {}", process.rank, shape_.ranks)};
  }
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
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("the segments of rank {} have another size than rank 0 says", process.rank)};
  }
  files->control = std::make_unique<Mapped>(files->control_file, shape_.control_memory(), Offset{0}, PROT_READ);
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
  return pid ? state_of_process(*pid) : ProcessState{};
}

bool JobView::ended() const {
  for (Rank rank{0}; rank.value() < shape_.ranks; ++rank) {
    if (!state_of(rank).ended()) return false;
  }
  return true;
}

/// Read, not mapped: a communicator that was never made has no pages, and looking must not make them.
JobView::Seat JobView::seat_of(Rank rank, CommunicatorId id) const {
  const auto& files = ranks_[rank.index()];
  alignas(shmem::Membership) std::array<std::byte, sizeof(shmem::Membership)> bytes{};
  if (!files) return {};
  const std::uint64_t block = shmem::kControlHeaderBytes + shape_.control.size().value() * id.index();
  const auto in_block =
      reinterpret_cast<const std::byte*>(&shape_.control.membership(files->control->data())) - files->control->data();
  const auto at = static_cast<off_t>(block) + static_cast<off_t>(in_block);
  if (pread(files->control_file, bytes.data(), bytes.size(), at) != static_cast<ssize_t>(bytes.size())) return {};
  const auto& membership = *reinterpret_cast<const shmem::Membership*>(bytes.data());
  return {.members = membership.size.load(), .member = Rank{membership.rank.load()}};
}

Result<std::byte*> JobView::memory_of(Rank rank, CommunicatorId id) {
  const auto& files = ranks_[rank.index()];
  if (!files) return blank_->data();
  std::unique_ptr<Mapped>& mapped = files->memory[id];
  if (!mapped) {
    mapped = std::make_unique<Mapped>(files->memory_file, shape_.map.meta_window(),
                                      Offset{shape_.map.size.value() * id.index()},
                                      use_ == Use::look ? PROT_READ : PROT_READ | PROT_WRITE);
  }
  if (!mapped->is_there()) return cannot("mapping the flags", files->process);
  return mapped->data();
}

Result<std::vector<CommunicatorView>> JobView::communicators() {
  std::vector<CommunicatorView> views;
  for (CommunicatorId id{0}; id.value() < shape_.communicators; ++id) {
    CommunicatorView view{.id = id, .members = {}, .peers = {}};
    for (Rank rank{0}; rank.value() < shape_.ranks; ++rank) {
      const Seat seat = seat_of(rank, id);
      if (seat.members == 0 || seat.members > static_cast<std::uint32_t>(shape_.ranks)) continue;
      view.members.resize(seat.members, kOutside);
      if (seat.member.index() < view.members.size()) view.members[seat.member.index()] = rank;
    }
    if (view.members.empty()) continue;
    if (Result<void> filled = fill(view); !filled) return std::move(filled).error();
    views.push_back(std::move(view));
  }
  return views;
}

Result<void> JobView::fill(CommunicatorView& view) {
  shmem::Peers& peers = view.peers;
  peers.rank = kOutside;
  if (view.id != CommunicatorId{0}) {
    peers.scope = fmt::format("communicator {} of world ranks {}", view.id, fmt::join(view.members, " "));
  }
  const std::uint64_t block = shmem::kControlHeaderBytes + shape_.control.size().value() * view.id.index();
  for (const Rank member : view.members) {
    const bool known = member != kOutside && ranks_[member.index()];
    Result<std::byte*> memory = known ? memory_of(member, view.id) : blank_->data();
    if (!memory) return std::move(memory).error();
    peers.mem.push_back(*memory);
    peers.controls.push_back(known ? ranks_[member.index()]->control->data() + block : blank_->data());
  }
  peers.map = std::make_shared<shmem::BlockMap>(shape_.map);
  peers.slots = std::make_shared<shmem::SlotPlan>(shape_.slots);
  peers.control_map = shape_.control;
  for (const Profile& profile : kProfiles) {
    if (profile.id == shape_.profile) peers.flag_word = profile.flag_word;
  }
  return {};
}

}  // namespace shmoe::runtime
