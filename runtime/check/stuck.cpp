#include "runtime/check/stuck.hpp"

#include <algorithm>

#include "runtime/diagnosis/judge.hpp"

namespace shmoe::runtime::check {
namespace {

WaitSight sight_of(const Pause& pause) {
  const shmem::WaitSpec& spec = *pause.wait;
  WaitSight wait{.where = spec.where,
                 .slots = {spec.slots.begin(), spec.slots.end()},
                 .match = spec.match,
                 .compare = spec.compare,
                 .value = spec.value,
                 .upper = spec.upper};
  if (spec.match == shmem::Match::all) wait.slots = {spec.slots[std::min(pause.done, spec.slots.size() - 1)]};
  return wait;
}

}  // namespace

Verdict judge_stuck(const Scheduler& scheduler, const shmem::SlotPlan& slots, std::int32_t ranks, std::int32_t cores) {
  Sight sight{.slots = &slots,
              .ranks = ranks,
              .cores = {},
              .word = [&](Rank rank, Slot slot) { return scheduler.word(rank, slot); },
              .looked_at = [&](Rank rank, Slot slot) { return scheduler.awaited(rank, slot); }};
  const auto a_rank = static_cast<std::size_t>(cores);
  for (std::size_t i = 0; i < scheduler.cores(); ++i) {
    const CoreState& state = scheduler.core(i);
    CoreSight core{.rank = Rank{i / a_rank},
                   .core = Core{i % a_rank},
                   .busy = state.busy,
                   .op = state.op,
                   .round = state.round,
                   .site = fmt::format("{}:{}", state.pause.site.file, state.pause.site.line),
                   .wait = {}};
    if (state.pause.kind == Pause::Kind::wait) core.wait = sight_of(state.pause);
    sight.cores.push_back(std::move(core));
  }
  return judge(sight);
}

}  // namespace shmoe::runtime::check
