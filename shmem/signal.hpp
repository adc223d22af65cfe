#pragma once
// Flag words: where they lie, who may write them, and what they hold.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shmem/layout.hpp"
#include "shmem/profile.hpp"
#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

enum class SignalOp : std::uint8_t { set, add };

/// Who may write the slots of a family.
enum class Writers : std::uint8_t {
  source_rank,  // slot [buffer][source][event]: the source rank alone
  own_cores,    // the cores of the rank that owns the slot
  any_rank,     // whoever gives up first
  // A credit: the source rank of slot [buffer][source][event] sets it, the rank that owns it sets it back to 0.
  source_and_owner,
};

/// Whose signal: of a slot of source_and_owner the source's, or the owner's, which is 0.
enum class Side : std::uint8_t { source, owner };
constexpr Side side_of(std::uint64_t value) { return value == 0 ? Side::owner : Side::source; }

/// Slots that lie in a row and are written by the same rule.
struct SlotFamily {
  std::string name;
  Offset base;
  std::uint32_t first = 0;  // dense number of the first slot
  std::uint32_t buffers = 1;
  std::uint32_t sources = 1;  // ranks where a slot has a source rank, else 1
  std::uint32_t events = 1;   // slots of one source in one buffer
  Writers writers = Writers::source_rank;
  SignalOp op = SignalOp::set;
  std::uint32_t width = 8;  // bytes of a word that its users write: 8, or 4 where the upper half stays 0
  std::uint32_t ledger_first = 0;

  [[nodiscard]] std::uint32_t count() const { return buffers * sources * events; }
  [[nodiscard]] bool has_sources() const {
    return writers == Writers::source_rank || writers == Writers::source_and_owner;
  }
  /// Its words do not only grow: one that is larger than the awaited one may still become it.
  [[nodiscard]] bool goes_back() const { return writers == Writers::source_and_owner; }
  /// Order: dense numbers follow the memory: buffer, then source, then event.
  [[nodiscard]] Slot at(std::uint64_t buffer, Rank source, std::uint32_t event = 0) const {
    SHMOE_EXPECTS(buffer < buffers && source.index() < sources && event < events,
                  "slot {}[{}][{}][{}] of a family of {} x {} x {}", name, buffer, source, event, buffers, sources,
                  events);
    return Slot{first +
                (static_cast<std::uint32_t>(buffer) * sources + static_cast<std::uint32_t>(source.value())) * events +
                event};
  }
};

/// All slots of a communicator, declared before its first kernel and identically on every rank.
/// A slot's declared writers are what a deadlock proof rests on, so strict mode checks them at every signal.
class SlotPlan {
 public:
  explicit SlotPlan(std::int32_t ranks, std::int32_t cores = 1) : ranks_(ranks), cores_(cores) {}

  /// The published families (barrier, flag) and ours (sync-all, abort) of a block.
  static SlotPlan of_block(const BlockMap& map);

  /// Errors: a family that overlaps another, has the name of another, or does not begin at a multiple of 32 bytes is a
  ///         broken contract, and so is a credit that is added to.
  SlotFamily declare(SlotFamily family);

  [[nodiscard]] const SlotFamily& barrier() const { return families_[0]; }
  [[nodiscard]] const SlotFamily& flag() const { return families_[1]; }
  [[nodiscard]] const SlotFamily& sync_all() const { return families_[2]; }
  [[nodiscard]] const SlotFamily& abort() const { return families_[3]; }

  /// Errors: a name nobody declared is a broken contract.
  [[nodiscard]] const SlotFamily& family(std::string_view name) const;
  [[nodiscard]] const SlotFamily& family_of(Slot slot) const;
  [[nodiscard]] const std::vector<SlotFamily>& families() const { return families_; }
  [[nodiscard]] Offset offset_of(Slot slot) const;
  [[nodiscard]] bool may_write(Slot slot, Rank owner, Rank writer) const;
  /// The one rank that may write the slot, or nothing where several may.
  [[nodiscard]] std::optional<Rank> writer_of(Slot slot, Rank owner) const;
  /// The same, of a slot of source_and_owner the rank of that side.
  [[nodiscard]] std::optional<Rank> writer_of(Slot slot, Rank owner, Side side) const;
  /// "barrier[1] from rank 3"
  [[nodiscard]] std::string describe(Slot slot) const;

  /// The same for equal plans, and hardly ever for different ones.
  [[nodiscard]] std::uint64_t digest() const;

  /// Entries of one rank's ledger: every (destination, slot) that the rank may write; for families of own_cores one for
  /// each core, since all cores add to the same slot; for those of source_and_owner one for each side.
  [[nodiscard]] std::uint32_t ledger_size() const { return ledger_size_; }
  [[nodiscard]] std::uint32_t ledger_index(Rank destination, Slot slot, Core core, Side side = Side::source) const;

  [[nodiscard]] std::int32_t ranks() const { return ranks_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  std::int32_t ranks_;
  std::int32_t cores_;
  std::uint32_t size_ = 0;
  std::uint32_t ledger_size_ = 0;
  std::vector<SlotFamily> families_;
};

// Here, because every signal and every look at a word asks them.

inline const SlotFamily& SlotPlan::family_of(Slot slot) const {
  for (const SlotFamily& family : families_) {
    if (slot.value() - family.first < family.count()) return family;
  }
  contract_violated("slot is declared", SourceSite::here(), fmt::format("slot {} of {}", slot, size_));
}

inline Offset SlotPlan::offset_of(Slot slot) const {
  const SlotFamily& family = family_of(slot);
  return family.base + Bytes{kSlotStride * (slot.value() - family.first)};
}

inline std::optional<Rank> SlotPlan::writer_of(Slot slot, Rank owner, Side side) const {
  const SlotFamily& family = family_of(slot);
  if (family.writers == Writers::any_rank) return std::nullopt;
  if (family.writers == Writers::own_cores) return owner;
  if (family.writers == Writers::source_and_owner && side == Side::owner) return owner;
  return Rank{(slot.value() - family.first) / family.events % family.sources};
}

inline std::optional<Rank> SlotPlan::writer_of(Slot slot, Rank owner) const {
  const std::optional<Rank> source = writer_of(slot, owner, Side::source);
  return source == writer_of(slot, owner, Side::owner) ? source : std::nullopt;
}

inline bool SlotPlan::may_write(Slot slot, Rank owner, Rank writer) const {
  return writer_of(slot, owner, Side::source).value_or(writer) == writer ||
         writer_of(slot, owner, Side::owner).value_or(writer) == writer;
}

inline std::uint32_t SlotPlan::ledger_index(Rank destination, Slot slot, Core core, Side side) const {
  const SlotFamily& family = family_of(slot);
  const std::uint32_t index = slot.value() - family.first;
  if (family.writers == Writers::own_cores) {
    return family.ledger_first + static_cast<std::uint32_t>(core.value()) * family.count() + index;
  }
  const std::uint32_t sent = static_cast<std::uint32_t>(ranks_) * family.buffers * family.events;
  if (family.writers == Writers::source_and_owner && side == Side::owner) return family.ledger_first + sent + index;
  const std::uint32_t buffer = index / family.events / family.sources;
  const auto dst = static_cast<std::uint32_t>(destination.value());
  return family.ledger_first + (dst * family.buffers + buffer) * family.events + index % family.events;
}

/// The flag word of a profile.
/// Units: safe packs {sequence, error}; the published word packs {magic, value}.
constexpr std::uint64_t safe_word(std::uint64_t sequence, Errc error = Errc::ok) {
  return sequence << 8 | static_cast<std::uint64_t>(error);
}
constexpr std::uint64_t published_word(std::uint64_t magic, std::uint32_t value) {
  return (magic & 0xFFFF'FFFFU) << 32 | value;
}
constexpr Errc error_in(std::uint64_t safe) { return static_cast<Errc>(safe & 0xFFU); }
static_assert(published_word(1, 2) == 0x0000'0001'0000'0002U);
static_assert(safe_word(2) > safe_word(1, Errc{255}), "an error never looks like a later round");

}  // namespace shmoe::shmem
