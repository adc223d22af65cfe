#include "runtime/diagnosis/job_view.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/control_header.hpp"
#include "runtime/diagnosis/rank_files.hpp"
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
  view->blank_ = std::make_unique<MappedPages>(-1, Bytes{most}, Offset{0}, PROT_READ | PROT_WRITE);
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
      std::make_unique<MappedPages>(files->control_file, shape_.control_memory(), Offset{files->control_at}, PROT_READ);
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
  std::unique_ptr<MappedPages>& mapped = files->memory[id];
  if (!mapped) {
    const auto saved = files->memory_at.find(id);
    const std::uint64_t at = saved == files->memory_at.end() ? shape_.map.size.value() * id.index() : saved->second;
    mapped = std::make_unique<MappedPages>(files->memory_file, shape_.map.meta_window(), Offset{at},
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

}  // namespace shmoe::runtime
