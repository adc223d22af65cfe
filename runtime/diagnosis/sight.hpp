#pragma once
// What every core of a communicator was doing at one moment: what a verdict on waits that cannot end is judged from. The
// checker takes it from its scheduler, a live job from the wait records.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shmem/fabric.hpp"
#include "shmem/profile.hpp"
#include "shmem/records.hpp"
#include "shmem/signal.hpp"

namespace shmoe::runtime {

struct WaitSight {
  Rank where;               // whose slots
  std::vector<Slot> slots;  // of an all-wait the one that it lacks; of another one all
  shmem::Match match = shmem::Match::all;
  Compare compare = Compare::equal;
  std::uint64_t value = 0;
  std::uint64_t upper = 0;   // of a sum
  bool may_give_up = false;  // it has a deadline of its own
  shmem::Time since{0};      // on the steady clock; 0 where nobody says

  [[nodiscard]] Slot slot() const { return slots.front(); }
};

struct CoreSight {
  Rank rank;
  Core core = {};
  bool busy = false;  // in an operator
  std::string op = {};
  Round round = {};
  std::uint64_t launch = 0;  // of this communicator, the how manieth; the same of all where nobody counts
  std::uint32_t block = 0;   // that it runs, and of how many of the launch
  std::uint32_t blocks = 0;  // 0 where nobody says
  std::string site = {};     // of the wait
  std::optional<WaitSight> wait = {};
};

/// What a rank has noted of its signals to one slot.
struct LedgerSight {
  std::uint64_t count = 0;
  std::uint64_t value = 0;  // of the last one
  Core core = {};
  const shmem::RecordText* place = nullptr;  // in the code
  std::uint32_t held = 0;  // sent as well, and still with the sender; the last one is the newest of them

  [[nodiscard]] std::string site() const {
    return place == nullptr ? "an unknown place" : fmt::format("{}:{}", place->text(), place->number());
  }
};

struct Sight {
  const shmem::SlotPlan* slots = nullptr;
  std::int32_t ranks = 0;
  std::vector<CoreSight> cores;  // by rank, then core; every rank has as many
  std::function<std::uint64_t(Rank, Slot)> word;
  /// Whether somebody has ever looked at a slot; yes where that is not known.
  std::function<bool(Rank, Slot)> looked_at;
  /// May be empty.
  std::function<LedgerSight(Rank writer, Rank owner, Slot, shmem::Side)> ledger = {};
  /// How many kernels with flags a core has begun. May be empty.
  std::function<std::uint64_t(Rank, Core)> magic = {};
  FlagWord flag_word = FlagWord::sequence56_error8;
  /// What a core did last, the newest last. May be empty.
  std::function<std::vector<shmem::Event>(Rank, Core)> events = {};
  /// World ranks, in group order; empty where ranks are world ranks.
  std::vector<Rank> members = {};
  std::string scope = {};  // "communicator 2 of world ranks 1 2 3"; empty where ranks are world ranks
  /// Whether more than a declared writer may end the waits of a rank: somebody has given up, or the members do not agree on
  /// who they are. May be empty.
  std::function<bool(Rank)> open_ended = {};

  /// Of the communicator: "communicator 2 of world ranks 1 2 3".
  [[nodiscard]] std::string name() const { return scope.empty() ? "communicator 0 of all ranks" : scope; }
  [[nodiscard]] Rank world(Rank member) const { return members.empty() ? member : members[member.index()]; }
  [[nodiscard]] std::optional<Rank> member(Rank world) const;
  [[nodiscard]] std::size_t cores_a_rank() const { return cores.size() / static_cast<std::size_t>(ranks); }
  [[nodiscard]] std::span<const CoreSight> of(Rank rank) const {
    return std::span{cores}.subspan(rank.index() * cores_a_rank(), cores_a_rank());
  }
  /// No core of the rank is in an operator.
  [[nodiscard]] bool ended(Rank rank) const;
  /// The wait ends at its next look, or has ended.
  [[nodiscard]] bool holds(const WaitSight& wait) const;
  /// Whose signals can end the wait.
  [[nodiscard]] std::vector<Rank> writers_of(const WaitSight& wait) const;
};

/// Calls `visit(sight, core)` for each core of a world rank that is in an operator, in whichever communicator.
template <class Visit>
void each_busy(std::span<const Sight> sights, Rank world, const Visit& visit) {
  for (const Sight& sight : sights) {
    const std::optional<Rank> member = sight.member(world);
    if (!member) continue;
    for (const CoreSight& core : sight.of(*member)) {
      if (core.busy) visit(sight, core);
    }
  }
}

}  // namespace shmoe::runtime
