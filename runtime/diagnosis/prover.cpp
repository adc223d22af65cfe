#include "runtime/diagnosis/prover.hpp"

#include <algorithm>
#include <utility>

#include "runtime/diagnosis/judge_across.hpp"
#include "runtime/diagnosis/record_sight.hpp"
#include "runtime/diagnosis/stuck_set.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

/// One core of a stuck rank that is in an operator.
struct StuckCore {
  std::size_t communicator;  // its index in the look
  const CommunicatorView* view;
  const CoreSight* core;
  std::uint64_t epoch;
};

/// By world rank; those of one rank in the order of communicators and cores.
std::vector<StuckCore> stuck_cores(const Prover::Look& look) {
  std::vector<StuckCore> cores;
  for (std::size_t i = 0; i < look.sights.size(); ++i) {
    const Sight& sight = look.sights[i];
    for (std::size_t k = 0; k < sight.cores.size(); ++k) {
      const CoreSight& core = sight.cores[k];
      if (!core.busy || !look.stuck[sight.world(core.rank).index()]) continue;
      cores.push_back({i, &(*look.views)[i], &core, look.epochs[i][k]});
    }
  }
  const auto world = [](const StuckCore& stuck) { return stuck.view->members()[stuck.core->rank.index()]; };
  std::ranges::stable_sort(cores, {}, world);
  return cores;
}

/// The same cores in the same waits.
bool same_waits(const std::vector<StuckCore>& a, const std::vector<StuckCore>& b) {
  return std::ranges::equal(a, b, [](const StuckCore& one, const StuckCore& other) {
    return one.view->id() == other.view->id() && one.view->members() == other.view->members() &&
           one.core->rank == other.core->rank && one.core->core == other.core->core && one.epoch == other.epoch;
  });
}

bool all_repeat(std::uint64_t number, const Prover::Look& look) {
  return std::ranges::all_of(stuck_cores(look), [&](const StuckCore& stuck) {
    return stuck.view->record(stuck.core->rank, stuck.core->core).echo.load(std::memory_order_seq_cst) == number;
  });
}

/// The last wait of the set began so long ago.
shmem::Time since_last(const Prover::Look& look) {
  shmem::Time last{0};
  for (const StuckCore& stuck : stuck_cores(look)) last = std::max(last, stuck.core->wait->since);
  return std::chrono::steady_clock::now().time_since_epoch() - last;
}

/// Those who may write what is waited for, and are gone.
std::vector<Rank> lost_writers(const Prover::Look& look) {
  std::vector<Rank> lost;
  for (const StuckCore& stuck : stuck_cores(look)) {
    for (const Rank writer : look.sights[stuck.communicator].writers_of(*stuck.core->wait)) {
      const Rank world = stuck.view->members()[writer.index()];
      if (!look.ended[world.index()] || ended_in_order(stuck.view->peers, writer)) continue;
      if (std::ranges::find(lost, world) == lost.end()) lost.push_back(world);
    }
  }
  return lost;
}

}  // namespace

Prover::Look Prover::look() const {
  Look look{.views = std::make_unique<const Views>(parts_.views()),
            .sights = {},
            .epochs = {},
            .ended = std::vector<bool>(static_cast<std::size_t>(parts_.ranks)),
            .stuck = {}};
  std::vector<bool> waits = look.ended;
  for (const CommunicatorView& view : *look.views) {
    const Sight& sight = look.sights.emplace_back(sight_of(view, look.epochs.emplace_back()));
    for (const CoreSight& core : sight.cores) {
      if (core.wait) waits[sight.world(core.rank).index()] = true;
    }
  }
  // Whoever died in a wait never repeats a number, so only the others are asked after.
  for (Rank rank{0}; rank.value() < parts_.ranks; ++rank)
    look.ended[rank.index()] = !waits[rank.index()] && rank != parts_.self && parts_.gone(rank);
  for (Sight& sight : look.sights) {
    for (CoreSight& core : sight.cores) core.busy = core.busy && !look.ended[sight.world(core.rank).index()];
  }
  look.stuck = stuck_set(look.sights, look.ended);
  return look;
}

/// Whoever is lower carries the proof on.
bool Prover::is_lowest(const Look& look, CommunicatorId id, Core core) const {
  const std::vector<StuckCore> cores = stuck_cores(look);
  if (cores.empty()) return false;
  if (parts_.self == kOutside) return true;
  const StuckCore& first = cores.front();
  return first.view->members()[first.core->rank.index()] == parts_.self && first.view->id() == id &&
         first.core->core == core;
}

bool Prover::stands_as_before(const Look& look) const {
  if (!suspicion_) return false;
  const Look& before = suspicion_->look;
  return look.stuck == before.stuck && look.ended == before.ended && same_waits(stuck_cores(look), stuck_cores(before));
}

bool Prover::is_asked(const Look& look) const {
  return std::ranges::all_of(stuck_cores(look), [&](const StuckCore& stuck) {
    return stuck.view->challenge(stuck.core->rank).number.load(std::memory_order_seq_cst) == suspicion_->number;
  });
}

void Prover::challenge(Look look) {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  for (const StuckCore& stuck : stuck_cores(look)) {
    stuck.view->challenge(stuck.core->rank).number.store(now, std::memory_order_seq_cst);
    shmem::wake_waiters(stuck.view->peers, stuck.core->rank);
  }
  suspicion_ = Suspicion{.number = now, .look = std::move(look)};
}

std::optional<Proof> Prover::ask(CommunicatorId id, Core core) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;
  // Echoes are read before the second look: an epoch that is still the same then was so when the number was repeated.
  const bool repeated = suspicion_ && all_repeat(suspicion_->number, suspicion_->look);
  Look now = look();
  if (!is_lowest(now, id, core)) return std::nullopt;  // another core of this rank may be
  if (!stands_as_before(now) || !is_asked(now)) {
    challenge(std::move(now));
    return std::nullopt;
  }
  if (!repeated) return std::nullopt;
  Proof proof{.verdict = judge_across(now.sights, now.stuck, now.ended), .lost = lost_writers(now)};
  proof.verdict.after = since_last(now);
  return proof;
}

}  // namespace shmoe::runtime
