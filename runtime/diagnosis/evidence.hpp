#pragma once
// What is known of one stuck wait for one slot, and of the signals that its writer has sent instead.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/diagnosis/history.hpp"
#include "runtime/diagnosis/sight.hpp"

namespace shmoe::runtime {

/// A stuck wait for one slot that one rank signals.
struct Edge {
  const CoreSight* core;
  Rank where;  // whose slot
  Slot slot;
  Compare compare;
  std::uint64_t wanted;  // of a sum of several: more than lies there
  std::uint64_t upper;   // the largest word that ends it
  std::uint64_t seen;
  const shmem::SlotFamily* family;
  shmem::Side side;  // of a slot with two writers the one that is waited for
  Rank writer;

  [[nodiscard]] bool ends_with(std::uint64_t word) const;
};

/// Whether a word of the family comes after another one. Those that are made of rounds wrap as rounds do.
bool is_later(const Sight& sight, const shmem::SlotFamily& family, std::uint64_t word, std::uint64_t than);

/// Where a slot lies in its family.
struct SlotPlace {
  std::uint32_t buffer;
  Rank source;
  std::uint32_t event;
};

class Evidence {
 public:
  explicit Evidence(const Sight& sight);

  [[nodiscard]] const Sight& sight() const { return *sight_; }
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }

  [[nodiscard]] static SlotPlace place_of(const Edge& edge);
  /// What the writer has noted of its signals to the slot.
  [[nodiscard]] LedgerSight sent(const Edge& edge) const { return sent(edge.writer, edge.where, edge.slot, edge.side); }
  [[nodiscard]] LedgerSight sent(Rank writer, Rank owner, Slot slot, shmem::Side side = shmem::Side::source) const;
  /// Of a slot with two writers, how often each has written it.
  struct Turns {
    std::uint64_t filled, reset;
  };
  [[nodiscard]] Turns turns(const Edge& edge) const;
  /// How often the waiting rank has signalled the writer's slot of the same kind.
  [[nodiscard]] std::uint64_t sent_back(const Edge& edge) const;
  /// Other ranks than those two, with what the writer sent to the same slot of each.
  struct Sibling {
    Rank owner;
    LedgerSight sent;
  };
  [[nodiscard]] std::vector<Sibling> siblings(const Edge& edge) const;
  /// To how many ranks each rank signals such a slot, at most.
  [[nodiscard]] std::int32_t fan_out(const Edge& edge) const;
  [[nodiscard]] const RankHistory& history(Rank rank) const;
  /// The signals of all ranks to the slot, as they were noted.
  [[nodiscard]] std::vector<SentSignal> signals_to(const Edge& edge) const;

  /// A core of the writer that is in the same launch of the same operator.
  [[nodiscard]] const CoreSight* beside(const Edge& edge) const;
  /// The writer waits in a barrier that is no earlier than this one: it has been where it signals.
  [[nodiscard]] bool has_passed(const Edge& edge) const;
  /// The core has taken its round in this launch.
  [[nodiscard]] bool counts_rounds(const CoreSight& core) const;
  [[nodiscard]] std::uint64_t magic(const CoreSight& core) const { return sight_->magic(core.rank, core.core); }
  [[nodiscard]] bool is_barrier(const Edge& edge) const { return edge.family == &sight_->slots->barrier(); }
  /// Slots whose words are made of rounds.
  [[nodiscard]] bool has_rounds(const Edge& edge) const;
  /// The word is past all those that the wait is for.
  [[nodiscard]] bool is_past(const Edge& edge) const;

 private:
  void add_edges(const CoreSight& core);
  [[nodiscard]] std::int32_t count_fan_out(const Edge& edge) const;
  /// On any rank.
  [[nodiscard]] const std::vector<SentSignal>& signals_of(Slot slot) const;

  const Sight* sight_;
  std::vector<Edge> edges_;
  // Asked for by many edges, and dear.
  mutable std::map<Rank, RankHistory> histories_;
  mutable std::map<Slot, std::vector<SentSignal>> signals_;
  mutable std::map<Slot, std::int32_t> fan_outs_;  // by the slot of rank 0
};

}  // namespace shmoe::runtime
