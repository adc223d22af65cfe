#pragma once
// A job as a process that is no rank of it sees it: what its ranks write of themselves, mapped here. A running one, or one
// that was saved.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/diagnosis/communicator_view.hpp"
#include "runtime/job.hpp"
#include "runtime/running_jobs.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

class MappedPages;
struct RankFiles;

/// As the kernel says it: 'R' runs, 'S' sleeps, 'D' waits for a device, 'T' is stopped, 't' is traced; 0: has ended.
struct ProcessState {
  char letter = 0;

  [[nodiscard]] bool ended() const { return letter == 0 || letter == 'Z' || letter == 'X'; }
  [[nodiscard]] bool stopped() const { return letter == 'T' || letter == 't'; }
  /// "sleeps", "is stopped (T)"
  [[nodiscard]] std::string text() const;
};

class JobView {
 public:
  enum class Use : std::uint8_t {
    look,       // nothing can be written
    challenge,  // the numbers by which a prover asks
  };
  /// Errors:  not_found where it has ended; version, mismatch, capacity_exceeded as shape_in; system.
  static Result<std::unique_ptr<JobView>> attach(const RunningJob& job, Use use);
  /// What `save` has written.
  /// Errors:  not_found, io where the file is not one; version, mismatch, capacity_exceeded as shape_in.
  static Result<std::unique_ptr<JobView>> open_saved(const std::string& path);
  /// What the ranks have written of themselves up to now: records, events, flags. Not their heaps.
  /// Errors:  system.
  Result<void> save(const std::string& path);
  ~JobView();
  JobView(const JobView&) = delete;
  JobView& operator=(const JobView&) = delete;

  [[nodiscard]] const RunningJob& job() const { return job_; }
  [[nodiscard]] const JobShape& shape() const { return shape_; }
  [[nodiscard]] std::optional<std::int64_t> pid_of(Rank rank) const;
  [[nodiscard]] ProcessState state_of(Rank rank) const;
  /// No process of the job is left.
  [[nodiscard]] bool ended() const;
  /// On the steady clock; of a saved job when it was saved.
  [[nodiscard]] std::int64_t now_ns() const;
  [[nodiscard]] double age_s() const { return static_cast<double>(now_ns() - job_.begun_ns) / 1e9; }
  /// Those that some rank has made, by number.
  /// Errors:  system where one that is new cannot be mapped.
  Result<std::vector<CommunicatorView>> communicators();

 private:
  JobView(RunningJob job, JobShape shape, Use use);
  static Result<std::unique_ptr<JobView>> make(RunningJob job, const RankFiles& first, Use use);
  Result<void> open_rank(const RankProcess& process);
  Result<void> add(std::unique_ptr<RankFiles> files);
  Result<std::byte*> memory_of(Rank rank, CommunicatorId id);
  [[nodiscard]] std::byte* control_of(Rank rank, CommunicatorId id) const;
  Result<CommunicatorView> view_of(Group group);

  RunningJob job_;
  JobShape shape_;
  Use use_;
  std::vector<std::unique_ptr<RankFiles>> ranks_;  // nothing of those that had ended before
  std::unique_ptr<MappedPages> blank_;             // what those are taken for
  std::optional<std::int64_t> saved_ns_;
};

}  // namespace shmoe::runtime
