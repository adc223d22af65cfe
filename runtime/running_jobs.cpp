#include "runtime/running_jobs.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/text.hpp"
#include "shmem/records.hpp"
#include "shmem/segment.hpp"

namespace shmoe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "/dev/shm/";

/// What the name of a segment says.
struct SegmentName {
  std::string job;
  std::string whole;  // without .ctl and .mem
  Rank rank;
  bool control = false;
};

/// Of `/dev/shm/shmoe.<job>.<random>.<rank>.ctl`, with or without " (deleted)"; nothing where it is something else.
std::optional<SegmentName> segment_behind(std::string_view link) {
  constexpr std::string_view kGone = " (deleted)";
  if (!link.starts_with(kFolder)) return std::nullopt;
  link.remove_prefix(kFolder.size());
  if (link.ends_with(kGone)) link.remove_suffix(kGone.size());
  const bool control = link.ends_with(".ctl");
  if (!link.starts_with(shmem::kSegmentPrefix) || !(control || link.ends_with(".mem"))) return std::nullopt;
  link.remove_suffix(4);
  const std::size_t before_rank = link.rfind('.');
  const std::size_t before_random = link.rfind('.', before_rank - 1);
  if (before_random == link.npos || before_random < shmem::kSegmentPrefix.size()) return std::nullopt;
  const auto rank = bootstrap::parse_whole<std::int32_t>(link.substr(before_rank + 1));
  if (!rank) return std::nullopt;
  const std::string_view job = link.substr(shmem::kSegmentPrefix.size(), before_random - shmem::kSegmentPrefix.size());
  return SegmentName{std::string(job), std::string(link), Rank{*rank}, control};
}

/// A rank, and what it says of its job.
struct FoundRank {
  std::string job;
  RankProcess process;
  std::int64_t claimed_pid = 0;
  std::uint64_t tag = 0;
  std::int32_t ranks = 0;
  std::int64_t begun_ns = 0;
};

/// Read, not mapped: reading a page that is not there does not make one.
void read_header(FoundRank& found) {
  const int file = open(found.process.path_of(found.process.control).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const auto header = std::make_unique<shmem::ControlHeader>();
  if (pread(file, header.get(), sizeof *header, 0) == static_cast<ssize_t>(sizeof *header)) {
    found.claimed_pid = header->pid;
    found.ranks = header->ranks;
    // Of another build only what stands before the version is known.
    if (header->version.load() == shmem::kLayoutVersion) {
      found.tag = header->job;
      found.begun_ns = header->begun_ns;
    }
  }
  close(file);
}

/// By the names of their segments.
using Found = std::map<std::string, FoundRank>;

void look_into(std::int64_t pid, Found& found) {
  std::map<std::string, FoundRank> here;
  std::error_code failure;
  for (fs::directory_iterator at(fmt::format("/proc/{}/fd", pid), failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code vanished;
    const std::string link = fs::read_symlink(at->path(), vanished).string();
    const auto name = segment_behind(link);
    const auto descriptor = bootstrap::parse_whole<int>(at->path().filename().string());
    if (!name || !descriptor) continue;
    FoundRank& rank = here[name->whole];
    rank.job = name->job;
    rank.process.rank = name->rank;
    rank.process.pid = pid;
    (name->control ? rank.process.control : rank.process.memory) = *descriptor;
  }
  for (auto& [name, rank] : here) {
    if (rank.process.control < 0 || rank.process.memory < 0) continue;
    read_header(rank);
    // A child that a rank has forked has its descriptors too.
    const auto [place, is_new] = found.try_emplace(name, rank);
    if (!is_new && rank.claimed_pid == pid) place->second = rank;
  }
}

bool belongs_to_another_user(std::int64_t pid) {
  struct stat about {};
  return stat(fmt::format("/proc/{}", pid).c_str(), &about) == 0 && about.st_uid != geteuid();
}

}  // namespace

bool RunningJob::has(std::int64_t pid) const {
  return std::ranges::any_of(processes, [=](const RankProcess& process) { return process.pid == pid; });
}

double RunningJob::age_s() const {
  if (begun_ns == 0) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch() -
                                       std::chrono::nanoseconds(begun_ns))
      .count();
}

std::string RunningJob::description() const {
  std::vector<std::int32_t> pids;
  for (const RankProcess& process : processes) pids.push_back(static_cast<std::int32_t>(process.pid));
  std::ranges::sort(pids);
  return fmt::format("{} ({} of {} ranks, pids {}, for {:.0f} s)", name, processes.size(), ranks,
                     bootstrap::name_ranks(pids), age_s());
}

std::vector<RunningJob> running_jobs() {
  Found found;
  std::error_code failure;
  for (fs::directory_iterator at("/proc", failure), end; !failure && at != end; at.increment(failure)) {
    if (const auto pid = bootstrap::parse_whole<std::int64_t>(at->path().filename().string())) look_into(*pid, found);
  }
  std::map<std::tuple<std::string, std::uint64_t>, RunningJob> jobs;
  for (const auto& [name, rank] : found) {
    RunningJob& job = jobs[{rank.job, rank.tag}];
    job.name = rank.job;
    job.tag = rank.tag;
    job.ranks = std::max(job.ranks, rank.ranks);
    job.begun_ns = job.processes.empty() ? rank.begun_ns : std::min(job.begun_ns, rank.begun_ns);
    job.processes.push_back(rank.process);
  }
  std::vector<RunningJob> list;
  for (auto& [key, job] : jobs) {
    std::ranges::sort(job.processes, {}, [](const RankProcess& p) { return std::pair(p.rank, p.pid); });
    list.push_back(std::move(job));
  }
  std::ranges::sort(list, {}, [](const RunningJob& job) { return std::tuple(job.name, job.begun_ns); });
  return list;
}

Result<RunningJob> choose_job(std::vector<RunningJob> jobs, std::string_view wanted) {
  std::vector<std::string> there;
  for (const RunningJob& job : jobs) there.push_back(job.description());
  const auto pid = bootstrap::parse_whole<std::int64_t>(wanted);
  std::erase_if(
      jobs, [&](const RunningJob& job) { return !wanted.empty() && job.name != wanted && !(pid && job.has(*pid)); });
  if (jobs.size() == 1) return std::move(jobs.front());
  const std::string list =
      there.empty() ? "no job of this user runs" : fmt::format("running: {}", fmt::join(there, ", "));
  if (!jobs.empty()) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("{} jobs fit; name one, or give the pid of one of its ranks; {}", jobs.size(), list)};
  }
  if (wanted.empty()) return Error{.code = Errc::not_found, .context = list};
  if (pid && belongs_to_another_user(*pid)) {
    return Error{
        .code = Errc::permission,
        .context = fmt::format("process {} belongs to another user, who alone can look at its job; {}", *pid, list)};
  }
  return Error{
      .code = Errc::not_found,
      .context = fmt::format("no job is named {}, and no rank has this pid; {}", bootstrap::quoted(wanted), list)};
}

}  // namespace shmoe::runtime
