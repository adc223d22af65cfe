#include "runtime/diagnosis/judge.hpp"

#include <algorithm>
#include <bit>

#include "runtime/diagnosis/evidence.hpp"
#include "runtime/diagnosis/root_cause.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

constexpr std::uint64_t kFlagOfOne = std::bit_cast<std::uint32_t>(1.0F);

/// One stuck wait, as the rules below look at it.
struct Waiting {
  const CoreSight* core;
  const WaitSight* spec;
  Slot slot;
  std::uint64_t seen;
  const shmem::SlotFamily* family;
};

/// What its text calls a rank.
enum class Naming : std::uint8_t { members, world_ranks };

class Judge {
 public:
  explicit Judge(const Sight& sight, Naming naming = Naming::members)
      : sight_(sight), slots_(*sight.slots), naming_(naming) {
    for (const CoreSight& core : sight.cores) {
      if (!core.busy || !core.wait) continue;
      const Slot slot = core.wait->slot();
      all_.push_back({&core, &*core.wait, slot, sight.word(core.wait->where, slot), &slots_.family_of(slot)});
    }
  }

  Verdict verdict() const {
    Verdict verdict{.kind = VerdictKind::deadlock_cycle,
                    .text = "every core waits for a signal that only a waiting core could send",
                    .stuck = {}};
    const Waiting* root = nullptr;
    const auto rule = [&](VerdictKind kind, auto applies, auto text) {
      if (root != nullptr) return;
      const auto found = std::find_if(all_.begin(), all_.end(), [&](const Waiting& w) { return applies(w); });
      if (found == all_.end()) return;
      root = &*found;
      verdict.kind = kind;
      verdict.text = text(*found);
    };
    rule(
        VerdictKind::overrun, [&](const Waiting& w) { return overrun(w); },
        [&](const Waiting& w) { return overrun_text(w); });
    rule(
        VerdictKind::sync_mismatch, [&](const Waiting& w) { return sync_mismatch(w); },
        [&](const Waiting& w) { return sync_text(w); });
    rule(
        VerdictKind::misdirected, [&](const Waiting& w) { return astray(w).has_value(); },
        [&](const Waiting& w) { return astray_text(w); });
    rule(
        VerdictKind::orphan_wait, [&](const Waiting& w) { return orphan(w); },
        [&](const Waiting& w) { return orphan_text(w); });
    if (root != nullptr) verdict.stuck.push_back(describe(*root));
    if (verdict.kind == VerdictKind::misdirected) verdict.astray = SlotAt{astray(*root)->first, astray(*root)->second};
    for (const Waiting& w : all_) {
      if (&w != root) verdict.stuck.push_back(describe(w));
    }
    return verdict;
  }

 private:
  [[nodiscard]] Rank named(Rank member) const { return naming_ == Naming::world_ranks ? sight_.world(member) : member; }
  [[nodiscard]] std::string name(const Waiting& w) const {
    return fmt::format("rank {} core {}", named(w.core->rank), w.core->core);
  }
  [[nodiscard]] std::string slot_name(const Waiting& w) const {
    std::string text = slots_.describe(w.slot);
    if (w.family->has_sources()) {
      const Rank source = *setter(w.slot, w.spec->where);
      const std::string from = fmt::format(" from rank {}", source);
      text.replace(text.rfind(from), from.size(), fmt::format(" from rank {}", named(source)));
    }
    return fmt::format("{} of rank {}", text, named(w.spec->where));
  }
  /// Words past the one value that is waited for, or past the range of one slot.
  [[nodiscard]] bool overrun(const Waiting& w) const {
    const bool in_range = w.spec->match == shmem::Match::sum;
    const bool bounded = in_range ? w.spec->slots.size() == 1 : w.spec->compare == Compare::equal;
    if (!bounded || w.family->goes_back()) return false;
    return std::ranges::all_of(w.spec->slots, [&](Slot slot) {
      return is_later(sight_, *w.family, sight_.word(w.spec->where, slot), in_range ? w.spec->upper : w.spec->value);
    });
  }
  [[nodiscard]] std::string overrun_text(const Waiting& w) const {
    return fmt::format(
        "{} looks for {:#x} in {} and the word is already {:#x}: the writer went on before the waiter had "
        "looked. A monotone word with >=, or a second buffer, keeps what was missed",
        name(w), w.spec->value, slot_name(w), w.seen);
  }

  /// A core of the rank is not in this launch's SyncAll, and never will be.
  [[nodiscard]] const CoreSight* missing(const Waiting& w) const {
    const auto meets = [&](const CoreSight& core) {
      return core.busy && core.wait && core.wait->slots.size() == 1 && core.wait->slot() == w.slot &&
             core.wait->value == w.spec->value;
    };
    const std::span<const CoreSight> cores = sight_.of(w.core->rank);
    const auto found = std::ranges::find_if_not(cores, meets);
    return found == cores.end() ? nullptr : &*found;
  }
  /// Only where the others of the rank have left the launch or wait for another SyncAll.
  [[nodiscard]] bool sync_mismatch(const Waiting& w) const {
    if (w.family != &slots_.sync_all()) return false;
    const CoreSight* other = missing(w);
    if (other == nullptr) return w.seen != w.spec->value;
    const bool elsewhere = other->busy && other->wait && &slots_.family_of(other->wait->slot()) != w.family;
    return !elsewhere;
  }
  [[nodiscard]] std::string sync_text(const Waiting& w) const {
    return fmt::format(
        "{} waits in a SyncAll of {} that not every core of its rank has come to: {} arrivals of {}. Every "
        "core of a launch must call SyncAll equally often",
        name(w), w.core->op, w.seen, w.spec->value);
  }

  /// Who sets a slot to something that is not 0.
  [[nodiscard]] std::optional<Rank> setter(Slot slot, Rank owner) const {
    return slots_.writer_of(slot, owner, shmem::Side::source);
  }
  /// A slot beside the awaited one that holds the awaited word and that nobody waits for.
  [[nodiscard]] std::optional<std::pair<Rank, Slot>> astray(const Waiting& w) const {
    const bool for_a_word = w.spec->compare == Compare::equal || w.spec->compare == Compare::at_least;
    const bool one_word = w.spec->match == shmem::Match::all && for_a_word && w.spec->value != 0;
    if (!one_word || w.family == &slots_.sync_all()) return std::nullopt;
    for (Rank rank{0}; rank.value() < sight_.ranks; ++rank) {
      for (std::uint32_t i = 0; i < w.family->count(); ++i) {
        const Slot slot{w.family->first + i};
        if (slot == w.slot && rank == w.spec->where) continue;
        if (setter(slot, rank) != setter(w.slot, w.spec->where)) continue;
        if (sight_.word(rank, slot) == w.spec->value && !sight_.looked_at(rank, slot)) return std::pair{rank, slot};
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string astray_text(const Waiting& w) const {
    const auto [rank, slot] = *astray(w);
    return fmt::format(
        "{} waits for {:#x} in {}; exactly this word lies in {} of rank {}, where nobody ever waits: the "
        "signal went to another rank, buffer or index",
        name(w), w.spec->value, slot_name(w), slots_.describe(slot), rank);
  }

  /// The rank has gone on to a later operator.
  [[nodiscard]] bool left(Rank rank, const CoreSight& core) const {
    return std::ranges::all_of(sight_.of(rank), [&](const CoreSight& other) {
      return other.launch > core.launch && (other.op != core.op || other.round != core.round);
    });
  }
  [[nodiscard]] bool orphan(const Waiting& w) const {
    return std::ranges::all_of(sight_.writers_of(*w.spec),
                               [&](Rank rank) { return sight_.ended(rank) || left(rank, *w.core); });
  }
  [[nodiscard]] std::string orphan_text(const Waiting& w) const {
    return fmt::format("{} waits for {}, and every rank that may write it has {} without doing so", name(w),
                       slot_name(w), sight_.ended(sight_.writers_of(*w.spec).front()) ? "ended" : "left " + w.core->op);
  }

  [[nodiscard]] StuckWait describe(const Waiting& w) const {
    const char* sign = sign_of(w.spec->compare);
    std::string what = fmt::format("{} to be {} {:#x}, sees {:#x}", slot_name(w), sign, w.spec->value, w.seen);
    if (w.spec->match == shmem::Match::any) {
      what = fmt::format("any of {} slots from {} on to be {} {:#x}", w.spec->slots.size(), slot_name(w), sign,
                         w.spec->value);
    } else if (flags_of_one(w)) {
      what = flags_text(w);
    } else if (w.spec->match == shmem::Match::sum && w.spec->slots.size() == 1) {
      what = fmt::format("{} to lie in [{:#x}, {:#x}], sees {:#x}", slot_name(w), w.spec->value, w.spec->upper, w.seen);
    } else if (w.spec->match == shmem::Match::sum) {
      what = fmt::format("the sum of {} slots from {} on to lie in [{:#x}, {:#x}], sees {:#x}", w.spec->slots.size(),
                         slot_name(w), w.spec->value, w.spec->upper, sum(w));
    }
    std::vector<Rank> writers = sight_.writers_of(*w.spec);
    std::ranges::transform(writers, writers.begin(), [this](Rank writer) { return named(writer); });
    return {.rank = named(w.core->rank),
            .core = w.core->core,
            .op = w.core->op,
            .round = w.core->round,
            .what = std::move(what),
            .site = w.core->site,
            .writers = std::move(writers),
            .where = named(w.spec->where),
            .slot = w.slot,
            .written = written(w)};
  }

  [[nodiscard]] std::uint64_t sum(const Waiting& w) const {
    std::uint64_t words = 0;
    for (const Slot slot : w.spec->slots) words += sight_.word(w.spec->where, slot);
    return words;
  }
  /// The published flags of 4 bytes, each 0 or 1.0f, of which all are to be set.
  [[nodiscard]] bool flags_of_one(const Waiting& w) const {
    const std::uint64_t all = w.spec->slots.size() * kFlagOfOne;
    const bool wants_all = w.spec->match == shmem::Match::sum && w.spec->value == all && w.spec->upper == all;
    return wants_all && w.family->width == 4 && std::ranges::all_of(w.spec->slots, [&](Slot slot) {
             const std::uint64_t word = sight_.word(w.spec->where, slot);
             return word == 0 || word == kFlagOfOne;
           });
  }
  [[nodiscard]] std::string flags_text(const Waiting& w) const {
    const std::size_t all = w.spec->slots.size();
    const std::uint64_t set = sum(w) / kFlagOfOne;
    return fmt::format("the sum of {} flag{} of 1.0f from {} on to be {}.0, sees {}.0: {} of {} set", all,
                       all == 1 ? "" : "s", slot_name(w), all, set, set, all);
  }

  /// Of a slot that one rank writes, or one on each side.
  [[nodiscard]] std::string written(const Waiting& w) const {
    if (!sight_.ledger || !w.family->has_sources()) return {};
    const bool by_zero = shmem::satisfies(w.spec->compare, 0, w.spec->value);
    const shmem::Side side = by_zero ? shmem::Side::owner : shmem::Side::source;
    const std::optional<Rank> writer = slots_.writer_of(w.slot, w.spec->where, side);
    const LedgerSight last = sight_.ledger(*writer, w.spec->where, w.slot, side);
    if (last.held > 0) {
      return fmt::format("rank {} sent it {} time{}, last {:#x} by core {} at {}; {} of them {} with the sender",
                         named(*writer), last.count + last.held, last.count + last.held == 1 ? "" : "s", last.value,
                         last.core, last.site(), last.held, last.held == 1 ? "lies" : "lie");
    }
    const char* verb = w.family->goes_back() && by_zero ? "reset" : "signalled";
    if (last.count == 0) return fmt::format("rank {} never {} it", named(*writer), verb);
    return fmt::format("rank {} {} it {} time{}, last {:#x} by core {} at {}", named(*writer), verb, last.count,
                       last.count == 1 ? "" : "s", last.value, last.core, last.site());
  }

  const Sight& sight_;
  const shmem::SlotPlan& slots_;
  Naming naming_;
  std::vector<Waiting> all_;
};

}  // namespace

std::vector<StuckWait> stuck_waits(const Sight& sight) { return Judge(sight, Naming::world_ranks).verdict().stuck; }

Verdict judge(const Sight& sight) {
  Verdict verdict = Judge(sight).verdict();
  if (!sight.ledger) return verdict;
  verdict.causes = causes_of(sight, verdict.kind);
  if (verdict.causes.empty()) return verdict;
  const Cause& cause = verdict.causes.front();
  if (cause.kind == CauseKind::wrong_rank || cause.kind == CauseKind::slot_drift) {
    verdict.kind = VerdictKind::misdirected;
    verdict.text = "a signal went to another rank or slot than the one that is waited for";
  }
  if (cause.kind == CauseKind::missing_quiet) {
    verdict.kind = VerdictKind::undelivered;
    verdict.text = "a signal that is waited for lies with its sender, which will never complete it";
  }
  const auto at_cause = [&](const StuckWait& wait) { return wait.rank == cause.rank && wait.core == cause.core; };
  std::stable_partition(verdict.stuck.begin(), verdict.stuck.end(), at_cause);
  return verdict;
}

}  // namespace shmoe::runtime
