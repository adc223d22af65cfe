#pragma once
// A group of ranks with a block of memory, slots and rounds of its own. Several live side by side; one rank may be in
// many. Operators run on a communicator, one after the other.

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core_context.hpp"
#include "runtime/grid.hpp"
#include "shmem/function_ref.hpp"
#include "shmem/heap.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// A kernel body: runs once on every core of the launch.
using Kernel = shmem::FunctionRef<void(CoreContext&)>;

/// Makes the fabric of a core in a communicator of `members`, world ranks; decorators wrap what it returns.
using FabricMaker =
    std::function<std::unique_ptr<shmem::Fabric>(const shmem::Peers&, std::span<const Rank> members, Core)>;

/// What the abort slots of all members are set to: who gave up and why. Never 0, not even for rank 0 and an error without a
/// code.
std::uint64_t abort_word(Rank rank, Errc code);

/// Why a communicator cannot be used any more, as one of its members has been told. `members`: world ranks.
std::optional<Error> abort_seen_by(Rank member, const shmem::Peers& peers, std::span<const Rank> members);

class Communicator {
 public:
  struct Parts {
    shmem::Peers peers;
    std::vector<Rank> members;  // world ranks, in group order
    Profile profile;
    Grid* grid;
    FabricMaker make_fabric;
    CommunicatorId id = {};
    /// Called by a core that leaves with a proven deadlock, which may concern other communicators. May be empty.
    std::function<void(const Error&, Core)> deadlocked = {};
  };
  explicit Communicator(Parts parts);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] CommunicatorId id() const { return id_; }
  [[nodiscard]] Rank rank() const { return peers_.rank; }
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(members_.size()); }
  [[nodiscard]] std::int32_t cores() const { return grid_->cores(); }
  [[nodiscard]] Rank world_rank(Rank member) const { return members_.at(member.index()); }
  /// World ranks, in group order.
  [[nodiscard]] const std::vector<Rank>& members() const { return members_; }
  [[nodiscard]] const Profile& profile() const { return profile_; }
  [[nodiscard]] const shmem::BlockMap& map() const { return *peers_.map; }
  [[nodiscard]] const shmem::SlotPlan& slots() const { return *peers_.slots; }

  /// Symmetric memory, zeroed pages on first use. Every member allocates and frees the same sizes in the same order;
  /// the next handshake of an operator compares the histories.
  /// Errors:  invalid_argument for 0 bytes; fragmented; out_of_memory where the heap or /dev/shm is full; system. Nothing is
  ///          allocated then.
  Result<Offset> allocate(Bytes size, shmem::Mobility mobility = shmem::Mobility::pinned);
  /// Order:   waits for nobody: a barrier comes first where peers may still use the block.
  /// Errors:  invalid_argument where no block starts there.
  Result<void> free(Offset at);
  /// Every member alike, as with allocate.
  /// Errors:  invalid_argument where no block starts there.
  Result<void> set_mobility(Offset at, shmem::Mobility mobility) { return heap_.set_mobility(at, mobility); }
  /// Defragments: moves the movable blocks of all members, with their bytes, as Heap::compact says. All members. Whoever
  /// keeps the offset of such a block replaces it by shmem::place_after(moves, offset); all replace theirs at once.
  /// Order:   a barrier before and one after: nobody's earlier access meets a move, nobody's later one an old place.
  /// Errors:  as barrier, and what committing pages at the new places fails with on any rank; nothing is moved then. In a
  ///          profile without a handshake that rank gives up, and aborts the others. Where the barrier after the moves
  ///          fails (peer_lost, deadline), what the blocks hold is undefined.
  Result<std::vector<shmem::Move>> compact();
  [[nodiscard]] std::uint64_t heap_history() const { return heap_.history(); }
  [[nodiscard]] const shmem::Heap& heap() const { return heap_; }

  /// This rank's own memory, for the host between operators.
  template <shmem::Plain T>
  [[nodiscard]] std::span<T> local(Offset at, std::size_t count) const {
    return {reinterpret_cast<T*>(local_bytes(at, shmem::bytes_of<T>(count)).data()), count};
  }

  /// Where a member's memory is mapped in this process. Operators go through the Fabric; this is for published tables of
  /// addresses.
  [[nodiscard]] const std::byte* mapped_at(Rank member, Offset at) const {
    return peers_.mem[member.index()] + at.value();
  }

  /// Runs the kernel on all cores and joins them.
  /// Order:   what the host did before is readable by the cores, and what the cores did by the host afterwards; other ranks
  ///          are ordered by the kernel alone.
  /// Errors:  what the first failing core left with. After an exception that is no Interrupted the job is aborted. A
  ///          launch while another one runs is a broken contract, and changes nothing.
  Result<void> launch(std::string_view op, Kernel kernel) { return launch(op, cores(), kernel); }
  /// `blocks` logical cores; more than the physical ones run in batches and must not SyncAll.
  /// Order:   as above.
  Result<void> launch(std::string_view op, std::int32_t blocks, Kernel kernel);

  /// All members.
  /// Order:   everything any member did before is readable by every member afterwards.
  /// Errors:  mismatch where members call different operators, have different heaps, or pass different `agreement`s;
  ///          as Context::wait.
  Result<void> barrier(std::int64_t agreement = 0);

  /// Of every wait from now on that brings no deadline of its own.
  void set_wait_limit(std::optional<shmem::Time> limit) { peers_.wait_limit = limit; }

  /// Whether records, ledger and events are kept; without them nothing is proven. On every member alike, between launches.
  void keep_notes(bool kept) { peers_.notes = kept; }

  /// Ends every wait of every member with `aborted`, naming this rank and the reason. The communicator stays unusable.
  /// `core`: the calling core; the host is core 0.
  /// Order:   the reason is readable by whoever sees the abort.
  void abort(const Error& reason, Core core = Core{0});
  /// The error every call returns since somebody aborted.
  [[nodiscard]] std::optional<Error> aborted() const;

 private:
  /// One a block; here and not in the launch, which then allocates nothing.
  using Errors = std::array<std::optional<Error>, shmem::kMaxCores>;

  [[nodiscard]] std::span<std::byte> local_bytes(Offset at, Bytes size) const;
  /// Who this rank is here, and what its heap holds.
  void tell_inspectors() const;
  Result<void> commit_places(const std::vector<shmem::Move>& moves) const;
  void carry_out(CoreContext& context, const std::vector<shmem::Move>& moves, const shmem::Witness& settled) const;
  /// A launch on fewer cores leaves the rounds of the others behind; see Profile::idle_cores_catch_up.
  void keep_in_step(std::int32_t blocks);
  void run_block(Launch& launch, std::int32_t block, std::int32_t physical_core, Kernel kernel,
                 std::optional<Error>& failure);

  shmem::Peers peers_;
  std::vector<Rank> members_;
  CommunicatorId id_;
  Profile profile_;
  Grid* grid_;
  std::function<void(const Error&, Core)> deadlocked_;
  shmem::Heap heap_;
  std::vector<std::unique_ptr<shmem::Fabric>> fabrics_;            // one a physical core
  std::deque<std::pmr::unsynchronized_pool_resource> workspaces_;  // one a physical core
  std::int32_t cores_in_step_ = shmem::kMaxCores;                  // of the last launch
  Errors failures_;                                                // of the current launch
  Errors faults_;                                                  // of its handshake
  mutable std::mutex abort_mutex_;                                 // never held across a call of a fabric
  mutable std::optional<Error> first_abort_;  // the first one seen here stays, whoever gives up later
  bool gave_up_ = false;                      // this rank wrote its reason
};

}  // namespace shmoe::runtime
