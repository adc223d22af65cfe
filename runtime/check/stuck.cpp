#include "runtime/check/stuck.hpp"

#include <algorithm>

#include "shmem/wait.hpp"

namespace shmoe::runtime::check {
namespace {

/// One stuck wait, as the rules below look at it.
struct Waiting {
  std::size_t core;
  const shmem::WaitSpec* spec;
  Slot slot;
  std::uint64_t seen;
  const shmem::SlotFamily* family;
};

class Judge {
 public:
  Judge(const Scheduler& scheduler, const shmem::SlotPlan& slots, std::int32_t ranks, std::int32_t cores)
      : scheduler_(scheduler), slots_(slots), ranks_(ranks), cores_(static_cast<std::size_t>(cores)) {
    for (std::size_t core = 0; core < scheduler.cores(); ++core) {
      const CoreState& state = scheduler.core(core);
      if (!state.busy || state.pause.kind != Pause::Kind::wait) continue;
      const shmem::WaitSpec* spec = state.pause.wait;
      const Slot slot = spec->slots[std::min(state.pause.done, spec->slots.size() - 1)];
      all_.push_back({core, spec, slot, scheduler.word(spec->where, slot), &slots.family_of(slot)});
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
  [[nodiscard]] Rank rank_of(std::size_t core) const { return Rank{core / cores_}; }
  [[nodiscard]] std::string name(const Waiting& w) const {
    return fmt::format("rank {} core {}", rank_of(w.core), w.core % cores_);
  }
  [[nodiscard]] std::string slot_name(const Waiting& w) const {
    return fmt::format("{} of rank {}", slots_.describe(w.slot), w.spec->where);
  }
  [[nodiscard]] bool ended(Rank rank) const {
    const std::size_t first = rank.index() * cores_;
    for (std::size_t core = first; core < first + cores_; ++core) {
      if (scheduler_.core(core).busy) return false;
    }
    return true;
  }
  /// An all-wait is stuck at one slot, the others at all of theirs.
  [[nodiscard]] static std::span<const Slot> awaited(const Waiting& w) {
    return w.spec->match == shmem::Match::all ? std::span{&w.slot, 1} : w.spec->slots;
  }
  [[nodiscard]] std::vector<Rank> writers(const Waiting& w) const {
    std::vector<Rank> list;
    for (Rank rank{0}; rank.value() < ranks_; ++rank) {
      const auto slots = awaited(w);
      const auto writes = [&](Slot slot) { return slots_.may_write(slot, w.spec->where, rank); };
      if (std::any_of(slots.begin(), slots.end(), writes)) list.push_back(rank);
    }
    return list;
  }

  [[nodiscard]] bool overrun(const Waiting& w) const {
    if (w.spec->match == shmem::Match::sum || w.spec->compare != Compare::equal) return false;
    const auto slots = awaited(w);
    return std::all_of(slots.begin(), slots.end(),
                       [&](Slot slot) { return scheduler_.word(w.spec->where, slot) > w.spec->value; });
  }
  [[nodiscard]] std::string overrun_text(const Waiting& w) const {
    return fmt::format(
        "{} looks for {:#x} in {} and the word is already {:#x}: the writer went on before the waiter had "
        "looked. A monotone word with >=, or a second buffer, keeps what was missed",
        name(w), w.spec->value, slot_name(w), w.seen);
  }

  /// A core of the rank is not in this launch's SyncAll, and never will be.
  [[nodiscard]] const CoreState* missing(const Waiting& w) const {
    const std::size_t first = rank_of(w.core).index() * cores_;
    for (std::size_t core = first; core < first + cores_; ++core) {
      const CoreState& state = scheduler_.core(core);
      const bool meets = state.busy && state.pause.kind == Pause::Kind::wait && state.pause.wait->slots.size() == 1 &&
                         state.pause.wait->slots[0] == w.slot && state.pause.wait->value == w.spec->value;
      if (!meets) return &state;
    }
    return nullptr;
  }
  /// Only where the others of the rank have left the launch or wait for another SyncAll.
  [[nodiscard]] bool sync_mismatch(const Waiting& w) const {
    if (w.family != &slots_.sync_all()) return false;
    const CoreState* other = missing(w);
    if (other == nullptr) return w.seen != w.spec->value;
    const bool elsewhere = other->busy && other->pause.kind == Pause::Kind::wait &&
                           &slots_.family_of(other->pause.wait->slots[0]) != w.family;
    return !elsewhere;
  }
  [[nodiscard]] std::string sync_text(const Waiting& w) const {
    return fmt::format(
        "{} waits in a SyncAll of {} that not every core of its rank has come to: {} arrivals of {}. Every "
        "core of a launch must call SyncAll equally often",
        name(w), scheduler_.core(w.core).op, w.seen, w.spec->value);
  }

  /// A slot beside the awaited one that holds the awaited word and that nobody waits for.
  [[nodiscard]] std::optional<std::pair<Rank, Slot>> astray(const Waiting& w) const {
    const bool one_word =
        w.spec->match == shmem::Match::all && w.spec->compare != Compare::not_equal && w.spec->value != 0;
    if (!one_word || w.family == &slots_.sync_all()) return std::nullopt;
    for (Rank rank{0}; rank.value() < ranks_; ++rank) {
      for (std::uint32_t i = 0; i < w.family->count(); ++i) {
        const Slot slot{w.family->first + i};
        if (slot == w.slot && rank == w.spec->where) continue;
        if (slots_.writer_of(slot, rank) != slots_.writer_of(w.slot, w.spec->where)) continue;
        if (scheduler_.word(rank, slot) == w.spec->value && !scheduler_.awaited(rank, slot))
          return std::pair{rank, slot};
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

  [[nodiscard]] bool orphan(const Waiting& w) const {
    const std::vector<Rank> list = writers(w);
    return std::all_of(list.begin(), list.end(), [&](Rank rank) { return ended(rank); });
  }
  [[nodiscard]] std::string orphan_text(const Waiting& w) const {
    return fmt::format("{} waits for {}, and every rank that may write it has ended without doing so", name(w),
                       slot_name(w));
  }

  [[nodiscard]] StuckWait describe(const Waiting& w) const {
    const CoreState& state = scheduler_.core(w.core);
    const char* sign = sign_of(w.spec->compare);
    std::string what = fmt::format("{} to be {} {:#x}, sees {:#x}", slot_name(w), sign, w.spec->value, w.seen);
    if (w.spec->match == shmem::Match::any) {
      what = fmt::format("any of {} slots from {} on to be {} {:#x}", w.spec->slots.size(), slot_name(w), sign,
                         w.spec->value);
    } else if (w.spec->match == shmem::Match::sum) {
      what = fmt::format("the sum of {} slots from {} on to lie in [{:#x}, {:#x}]", w.spec->slots.size(), slot_name(w),
                         w.spec->value, w.spec->upper);
    }
    return {.rank = rank_of(w.core),
            .core = Core{w.core % cores_},
            .op = state.op,
            .round = state.round,
            .what = std::move(what),
            .site = state.pause.site,
            .writers = writers(w),
            .where = w.spec->where,
            .slot = w.slot};
  }

  const Scheduler& scheduler_;
  const shmem::SlotPlan& slots_;
  std::int32_t ranks_;
  std::size_t cores_;
  std::vector<Waiting> all_;
};

}  // namespace

Verdict judge_stuck(const Scheduler& scheduler, const shmem::SlotPlan& slots, std::int32_t ranks, std::int32_t cores) {
  return Judge(scheduler, slots, ranks, cores).verdict();
}

}  // namespace shmoe::runtime::check
