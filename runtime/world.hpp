#pragma once
// One job: who takes part, where everybody's memory is, and the end of it. Everything hangs off a World; nothing is global.

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator.hpp"
#include "runtime/config.hpp"
#include "runtime/log.hpp"
#include "runtime/telling.hpp"

namespace shmoe::runtime {

/// Wraps the fabric of each core of a rank (world rank), to record or to delay what it does.
using FabricDecorator = std::function<std::unique_ptr<shmem::Fabric>(std::unique_ptr<shmem::Fabric>, Rank, Core)>;

struct Job;

class World {
 public:
  /// Finds the other processes of the job and maps their memory. Collective over the job. The process gets a handler of
  /// SIGBUS, for this memory only: see shmem::BusErrorWatch.
  /// Errors:  one clear error on every rank, within config.bootstrap_timeout.
  static Result<std::unique_ptr<World>> create(const Config& config);

  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] std::int32_t ranks() const;
  [[nodiscard]] const Config& config() const;
  /// One line: which rank of how many, and what started it; of processes also cores, nodes and profile.
  [[nodiscard]] const std::string& description() const;

  /// The communicator of all ranks.
  [[nodiscard]] Communicator& all();
  /// A further communicator. Collective over its members only; `members` are world ranks in group order.
  /// Errors:  invalid_argument (bad or repeated member, id in use or not below config.communicators); where the members'
  ///          lists differ, mismatch, or deadline after config.bootstrap_timeout. An id is used up even then. Where
  ///          /dev/shm is full for one member, out_of_memory there and deadline on the others.
  /// Order:   a barrier of the members: see Communicator::barrier.
  Result<Communicator*> communicator(CommunicatorId id, std::span<const Rank> members);

  /// A communicator of those members of `of` that are left, to go on with after peer_lost, or after an abort that one was
  /// the reason of. Collective over them; whoever of them still waits in `of` ends with `aborted`. They agree on who is
  /// gone. Whoever ends later, even meanwhile, is a loss of the new communicator: then all survivors call again, with the
  /// next id. An operator that was in flight may have ended well on some ranks; it is repeated on the new communicator by
  /// all, or by none.
  /// Order:   as communicator.
  /// Errors:  as communicator; deadline where nobody is found gone within config.bootstrap_timeout.
  Result<Communicator*> without_lost(CommunicatorId id, Communicator& of);
  /// World ranks that without_lost has left out, ascending; the same on all that took part.
  [[nodiscard]] const std::vector<Rank>& lost() const;

  [[nodiscard]] const Log& log() const;

  /// Ends every wait of every member of every communicator of this rank with `aborted`.
  /// Order:   the reason is readable by whoever sees the abort; nothing else this rank did is.
  void abort(const Error& reason);

  /// Every rank of a job that fails calls this as the last thing it does: `tell` runs on the one nearest to the cause,
  /// and the others stay until that one has ended, within a few times kTellingLimit.
  /// Order:   none.
  void tell_once(const Error& error, const Tell& tell);

  /// Collective end, bounded by config.bootstrap_timeout; of those who are left, where all() has lost ranks. A World that
  /// is only destroyed does not wait for anybody.
  /// Order:   a barrier of all ranks: see Communicator::barrier.
  /// Errors:  as Communicator::barrier.
  Result<void> finalize();

  /// Ranks as threads of this process: `body` runs once per rank, each with its own World over plain memory.
  /// Rank 0 runs on the calling thread.
  /// Errors:  the first failing rank's, the root cause before those that were only aborted by it.
  static Result<void> run_as_threads(std::int32_t ranks, const Config& config,
                                     const std::function<Result<void>(World&)>& body,
                                     const FabricDecorator& decorate = {});

 private:
  struct State;
  explicit World(std::unique_ptr<State> state);
  static Result<std::unique_ptr<World>> start(Job&& job);
  std::unique_ptr<State> state_;
};

}  // namespace shmoe::runtime
