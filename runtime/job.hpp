#pragma once
// The memory and the peers of a job, however its ranks run. World builds communicators on it.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator.hpp"
#include "runtime/config.hpp"
#include "runtime/fault_fabric.hpp"
#include "runtime/log.hpp"
#include "shmem/copy_plan.hpp"
#include "shmem/records.hpp"

namespace shmoe::runtime {

/// How a rank's two objects are divided, the same on all ranks.
struct JobShape {
  std::int32_t ranks = 1;
  std::int32_t communicators = 1;
  ProfileId profile = ProfileId::safe;
  shmem::BlockMap map;  // of every communicator
  shmem::SlotPlan slots;
  shmem::ControlMap control;

  /// Errors:  a broken contract where a family of config.declare_slots lies elsewhere than Config says.
  JobShape(const Config& config, std::int32_t ranks);
  [[nodiscard]] Bytes memory() const { return map.size * static_cast<std::uint64_t>(communicators); }
  [[nodiscard]] Bytes control_memory() const {
    return Bytes{shmem::kControlHeaderBytes} + control.size() * static_cast<std::uint64_t>(communicators);
  }
};

struct Job {
  Config config;
  JobShape shape;
  Rank rank;
  std::string description;
  Log log;
  std::vector<std::byte*> memory;                     // of each rank, as mapped here
  std::vector<std::byte*> control;                    // of each rank, read only but for the own
  bool shared = false;                                // the ranks are processes
  std::function<Result<void>(Offset, Bytes)> commit;  // own memory; may be empty
  /// Backs what a communicator's barriers and records touch; may be empty. That of block 0 has been done.
  std::function<Result<void>(std::uint64_t block)> commit_block;
  std::unique_ptr<Grid> grid;
  std::function<std::optional<std::string>(Rank world_rank)> gone;
  FabricMaker make_fabric;
  std::shared_ptr<RankFaults> faults;  // of this rank, shared with make_fabric; nothing where it has none
  shmem::CopyPlan copy;
  shmem::Crowd crowd;
  std::shared_ptr<void> backing;  // keeps the mappings
};

/// Finds the other processes of the job and maps their memory.
/// Order:   id cards -> own threads and objects -> all mapped -> names unlinked; each step everywhere or nowhere.
/// Errors:  one clear error on every rank, within config.bootstrap_timeout.
Result<Job> join_processes(const Config& config);

/// Whether the config's faults and links are those of such a job; `threads`: its ranks are.
/// Errors:  as FaultPlan::check; invalid_argument where the links are those of another number of ranks
Result<void> check_plans(const Config& config, const JobShape& shape, bool threads);

/// The fabrics of a rank that a config asks for, over processes or threads.
FabricMaker fabric_maker(const Config& config, Rank rank, bool threads, std::shared_ptr<RankFaults> faults = {});
/// Nothing where the plan has none for this rank.
std::shared_ptr<RankFaults> faults_of(const Config& config, Rank rank);

}  // namespace shmoe::runtime
