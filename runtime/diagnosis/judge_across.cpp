#include "runtime/diagnosis/judge_across.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/ranges.h>

#include "runtime/diagnosis/judge.hpp"
#include "runtime/diagnosis/stuck_set.hpp"

namespace shmoe::runtime {
namespace {

bool is_busy(const Sight& sight, Rank member) { return !sight.ended(member); }

/// Nobody else matters to the judge of a communicator but as somebody who goes on: also who is stuck in another one.
Sight stuck_part(const Sight& sight, const std::vector<bool>& stuck, const std::vector<bool>& ended) {
  Sight part = sight;
  for (Rank member{0}; member.value() < sight.ranks; ++member) {
    const std::size_t world = sight.world(member).index();
    if (stuck[world] && is_busy(sight, member)) continue;
    for (std::size_t i = 0; i < sight.cores_a_rank(); ++i) {
      CoreSight& core = part.cores[member.index() * sight.cores_a_rank() + i];
      core.busy = !ended[world];
      core.wait.reset();
    }
  }
  return part;
}

class AcrossJudge {
 public:
  AcrossJudge(std::span<const Sight> sights, const std::vector<bool>& stuck, const std::vector<bool>& ended)
      : sights_(sights), stuck_(stuck), ended_(ended) {}

  [[nodiscard]] Verdict verdict() const {
    for (const Sight& sight : sights_) {
      const std::vector<bool> alone = stuck_set({&sight, 1}, ended_);
      if (std::ranges::find(alone, true) != alone.end()) return said_by(sight, alone);
    }
    const std::vector<Step> cycle = this->cycle();
    if (cycle.empty()) return said_by(first_stuck(), stuck_);
    const auto come = std::ranges::find_if(cycle, [&](const Step& step) { return !not_come(step); });
    if (come != cycle.end()) return said_by(*come->sight, stuck_);
    return order_differs(cycle);
  }

 private:
  /// One wait of the cycle: `rank` waits for `next`. World ranks.
  struct Step {
    const Sight* sight;
    const CoreSight* core;
    Rank rank;
    Rank next;
  };

  [[nodiscard]] const Sight& first_stuck() const {
    return *std::ranges::find_if(sights_, [&](const Sight& sight) {
      return std::ranges::any_of(sight.cores, [&](const CoreSight& core) { return is_stuck(sight, core); });
    });
  }
  [[nodiscard]] bool is_stuck(const Sight& sight, const CoreSight& core) const {
    return core.busy && stuck_[sight.world(core.rank).index()];
  }

  /// What the communicator says by itself, and the waits of the others.
  [[nodiscard]] Verdict said_by(const Sight& sight, const std::vector<bool>& stuck) const {
    Verdict verdict = judge(stuck_part(sight, stuck, ended_));
    verdict.scope = sight.scope;
    for (const Sight& other : sights_) {
      if (&other != &sight) add_waits(other, verdict);
    }
    return verdict;
  }
  void add_waits(const Sight& sight, Verdict& verdict) const {
    for (StuckWait& wait : stuck_waits(stuck_part(sight, stuck_, ended_))) {
      wait.scope = sight.name();
      verdict.stuck.push_back(std::move(wait));
    }
  }

  /// A wait of a rank for another one that is stuck.
  [[nodiscard]] std::optional<Step> step_from(Rank rank) const {
    for (const Sight& sight : sights_) {
      const std::optional<Rank> member = sight.member(rank);
      if (!member) continue;
      for (const CoreSight& core : sight.of(*member)) {
        if (!is_stuck(sight, core)) continue;
        for (const Rank writer : sight.writers_of(*core.wait)) {
          const Rank next = sight.world(writer);
          if (next != rank && stuck_[next.index()]) return Step{&sight, &core, rank, next};
        }
      }
    }
    return std::nullopt;
  }
  /// From the lowest stuck rank on; empty where waits for ended ranks or for own cores end the way.
  [[nodiscard]] std::vector<Step> cycle() const {
    std::vector<Step> way;
    for (Rank rank{std::ranges::find(stuck_, true) - stuck_.begin()};;) {
      const auto begin = std::ranges::find(way, rank, &Step::rank);
      if (begin != way.end()) return {begin, way.end()};
      const std::optional<Step> step = step_from(rank);
      if (!step) return {};
      way.push_back(*step);
      rank = step->next;
    }
  }

  /// Whom the step waits for is in another communicator, and has launched less in this one.
  [[nodiscard]] bool not_come(const Step& step) const {
    const Rank next = *step.sight->member(step.next);
    if (is_busy(*step.sight, next)) return true;  // it waits here itself
    return step.sight->of(next).front().launch < step.sight->of(step.core->rank).front().launch;
  }
  [[nodiscard]] static std::string place(const Step& step) {
    return fmt::format("{}, operator {} of {}", step.core->op, step.sight->of(step.core->rank).front().launch,
                       step.sight->name());
  }

  [[nodiscard]] Verdict order_differs(const std::vector<Step>& cycle) const {
    std::vector<std::string> waits;
    std::vector<std::string> because;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const Step& step = cycle[i];
      const Step& next = cycle[(i + 1) % cycle.size()];
      waits.push_back(fmt::format("rank {} waits in {}, for rank {}", step.rank, place(step), step.next));
      if (next.sight == step.sight) continue;
      because.push_back(fmt::format("rank {} is in {} of {} and has not come to {} of {}, where rank {} waits for it",
                                    next.rank, next.core->op, next.sight->name(), step.core->op, step.sight->name(),
                                    step.rank));
    }
    Verdict verdict{.kind = VerdictKind::deadlock_cycle,
                    .text = fmt::format("world ranks wait for each other through several communicators: {}",
                                        fmt::join(waits, "; ")),
                    .stuck = {}};
    verdict.causes.push_back({.kind = CauseKind::operator_order,
                              .because = fmt::format("{}", fmt::join(because, "; ")),
                              .rank = cycle.front().rank,
                              .core = cycle.front().core->core});
    for (const Sight& sight : sights_) add_waits(sight, verdict);
    return verdict;
  }

  std::span<const Sight> sights_;
  const std::vector<bool>& stuck_;
  const std::vector<bool>& ended_;
};

}  // namespace

Verdict judge_across(std::span<const Sight> sights, const std::vector<bool>& stuck, const std::vector<bool>& ended) {
  return AcrossJudge(sights, stuck, ended).verdict();
}

}  // namespace shmoe::runtime
