#include "runtime/control_header.hpp"

#include <algorithm>
#include <chrono>

#include <unistd.h>

#include "bootstrap/launch.hpp"
#include "bootstrap/text.hpp"

namespace shmoe::runtime {
namespace {

using shmem::ControlHeader;
using shmem::HeaderFamily;
using shmem::SlotFamily;

HeaderFamily written(const SlotFamily& family) {
  HeaderFamily entry{.name = {},
                     .base = family.base.value(),
                     .buffers = family.buffers,
                     .sources = family.sources,
                     .events = family.events,
                     .writers = static_cast<std::uint8_t>(family.writers),
                     .op = static_cast<std::uint8_t>(family.op),
                     .reserved = 0};
  family.name.copy(entry.name.data(), entry.name.size() - 1);
  return entry;
}

SlotFamily read(HeaderFamily entry) {
  entry.name.back() = '\0';
  return {.name = entry.name.data(),
          .base = Offset{entry.base},
          .buffers = entry.buffers,
          .sources = entry.sources,
          .events = entry.events,
          .writers = static_cast<shmem::Writers>(entry.writers),
          .op = static_cast<shmem::SignalOp>(entry.op)};
}

const Profile* profile_of(const ControlHeader& header) {
  const auto* found = std::ranges::find(kProfiles, static_cast<ProfileId>(header.profile), &Profile::id);
  return found == std::end(kProfiles) ? nullptr : found;
}

/// What a program that declares these families would have said.
Config config_of(const ControlHeader& header, const Profile& profile) {
  Config config = Config::defaults();
  config.cores = header.cores;
  config.profile = profile;
  config.heap = Bytes{header.heap};
  config.ipc_data = Bytes{header.ipc_data};
  config.communicators = header.communicators;
  config.declare_slots = [&header](shmem::SlotPlan& plan, const shmem::BlockMap&) {
    for (std::size_t i = plan.families().size(); i < header.families; ++i) plan.declare(read(header.family[i]));
  };
  return config;
}

Error contradiction(const ControlHeader& header, std::string_view what) {
  return Error{.code = Errc::mismatch,
               .context = fmt::format(
                   "the control segment of rank {} contradicts itself: {}: look with the build that the job runs",
                   header.rank, bootstrap::printable(what)),
               .where = Rank{header.rank}};
}

}  // namespace

void write_header(ControlHeader& header, const JobShape& shape, Rank rank, std::uint64_t job) {
  header.rank = rank.value();
  header.ranks = shape.ranks;
  header.pid = getpid();
  header.memory_bytes = shape.memory().value();
  header.cores = shape.control.cores;
  header.job = job;
  header.begun_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  header.ipc_data = shape.map.ipc_data.size.value();
  header.heap = shape.map.heap.size.value();
  header.communicators = shape.communicators;
  header.profile = static_cast<std::uint8_t>(shape.profile);
  const std::vector<SlotFamily>& families = shape.slots.families();
  header.families = static_cast<std::uint32_t>(families.size());
  for (std::size_t i = 0; i < std::min(families.size(), ControlHeader::kMostFamilies); ++i) {
    header.family[i] = written(families[i]);
  }
  header.version.store(shmem::kLayoutVersion, std::memory_order_release);
}

Result<void> check_version(const ControlHeader& header, Rank rank) {
  const std::uint32_t version = header.version.load(std::memory_order_acquire);
  if (version == shmem::kLayoutVersion) return {};
  return Error{
      .code = Errc::version,
      .context = fmt::format("rank {} has layout version {}, expected {}: use one build of shmoe for all ranks, "
                             "and for looking at them",
                             rank, version, shmem::kLayoutVersion),
      .where = rank};
}

Result<void> check_header(const ControlHeader& header, const JobShape& shape, Rank peer) {
  if (Result<void> same = check_version(header, peer); !same) return same;
  if (header.rank == peer.value() && header.ranks == shape.ranks) return {};
  return Error{.code = Errc::mismatch,
               .context = fmt::format("the segment of rank {} says rank {} of {}: give each job its own SHMOE_JOB",
                                      peer, header.rank, header.ranks),
               .where = peer};
}

Result<JobShape> shape_in(const ControlHeader& header) {
  if (Result<void> same = check_version(header, Rank{header.rank}); !same) return std::move(same).error();
  if (header.families > ControlHeader::kMostFamilies) {
    return Error{.code = Errc::capacity_exceeded,
                 .context = fmt::format("the job declares {} slot families; only jobs with up to {} can be looked at",
                                        header.families, ControlHeader::kMostFamilies)};
  }
  const Profile* profile = profile_of(header);
  // A saved job may come from anybody: what follows takes memory for each rank.
  const bool possible = header.ranks >= 1 && header.ranks <= bootstrap::kMaxSize && header.cores >= 1 &&
                        header.cores <= shmem::kMaxCores && header.communicators >= 1 &&
                        header.communicators <= Config::kMostCommunicators;
  if (profile == nullptr || !possible) return contradiction(header, "no such job");
  try {
    JobShape shape(config_of(header, *profile), header.ranks);
    if (shape.memory().value() != header.memory_bytes) return contradiction(header, "the size of the memory");
    return shape;
  } catch (const ContractViolation& violation) {
    return contradiction(header, violation.what());
  }
}

}  // namespace shmoe::runtime
