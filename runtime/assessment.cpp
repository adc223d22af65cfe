#include "runtime/assessment.hpp"

#include <algorithm>

#include "bootstrap/text.hpp"

namespace shmoe::runtime {
namespace {

/// From so long on a wait is worth a word: healthy ones take milliseconds, on a busy machine a few hundred.
constexpr double kLongWaitS = 1.0;

std::vector<ProcessState> states_of(const JobView& job, const CommunicatorView& view) {
  std::vector<ProcessState> states;
  for (const Rank member : view.members) states.push_back(member == kOutside ? ProcessState{} : job.state_of(member));
  return states;
}

std::vector<bool> ended_of(const std::vector<ProcessState>& states) {
  std::vector<bool> ended;
  for (const ProcessState& state : states) ended.push_back(state.ended());
  return ended;
}

/// "rank 3", "ranks 0-2"
std::string named(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", bootstrap::name_ranks(numbers));
}

std::vector<Rank> ranks_in(const std::vector<bool>& set) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set[i]) ranks.emplace_back(i);
  }
  return ranks;
}

/// "core 1 of it runs dispatch_normal round 7"
std::string doing(const CommunicatorLook& look, Rank rank) {
  for (const CoreSight& core : look.look.sight.of(rank)) {
    if (!core.busy) continue;
    if (core.wait && look.graph.standing(rank) == Standing::waits) continue;
    return fmt::format("core {} of it {} {} round {}", core.core, core.wait ? "has what it waited for in" : "runs",
                       core.op, core.round);
  }
  return "it is between operators";
}

std::string process_text(const JobView& job, const CommunicatorLook& look, Rank rank) {
  const Rank world = look.view.members[rank.index()];
  const auto pid = world == kOutside ? std::nullopt : job.pid_of(world);
  if (!pid) return "its process has ended";
  const ProcessState state = look.state_of(rank);
  std::string text = fmt::format("its process {} {}", *pid, state.text());
  if (state.letter == 'T') text += fmt::format(": `kill -CONT {}` lets it go on", *pid);
  return text;
}

double longest_wait_s(const CommunicatorLook& look, const WaitGraph::Root& root) {
  double longest = 0;
  for (const Rank rank : root.behind) {
    for (const CoreSight& core : look.look.sight.of(rank)) {
      if (core.wait) longest = std::max(longest, look.waited_s(core));
    }
  }
  return longest;
}

/// "ranks 0-2 wait for rank 3, the longest for 2.3 s"
std::string behind_text(const CommunicatorLook& look, const WaitGraph::Root& root) {
  return fmt::format("{} {} for rank {}, the longest for {:.1f} s", named(root.behind),
                     root.behind.size() == 1 ? "waits" : "wait", root.rank, longest_wait_s(look, root));
}

}  // namespace

std::string_view name_of(Condition condition) {
  switch (condition) {
    case Condition::running: return "running";
    case Condition::straggler: return "straggler";
    case Condition::stopped: return "stopped";
    case Condition::lost: return "lost";
    case Condition::suspected: return "suspected";
    case Condition::given_up: return "given up";
    case Condition::ended: return "ended";
  }
  return "unknown";
}

CommunicatorLook::CommunicatorLook(const JobView& job, CommunicatorView made)
    : view(std::move(made)),
      states(states_of(job, view)),
      prover(view.peers, [this](Rank member) { return states[member.index()].ended(); }),
      look(prover.look()),
      graph(look.sight, ended_of(states)),
      now_ns(job.now_ns()) {}

double CommunicatorLook::waited_s(const CoreSight& core) const {
  const std::int64_t since = view.record(core.rank, core.core).since_ns.load(std::memory_order_relaxed);
  return static_cast<double>(std::max<std::int64_t>(0, now_ns - since)) / 1e9;
}

Assessment CommunicatorLook::assess(const JobView& job) const {
  if (const auto reason = view.aborted()) {
    return {.condition = Condition::given_up, .text = reason->context, .rank = reason->where};
  }
  if (std::ranges::all_of(states, &ProcessState::ended)) {
    return {.condition = Condition::ended, .text = "all its processes have ended", .rank = {}};
  }
  const auto root = graph.root();
  if (root && state_of(root->rank).ended()) {
    return {.condition = Condition::lost,
            .text = fmt::format("{}; {}", behind_text(*this, *root), process_text(job, *this, root->rank)),
            .rank = root->rank};
  }
  const std::vector<Rank> stuck = ranks_in(look.stuck);
  const auto frozen = std::ranges::find_if(stuck, [&](Rank rank) { return state_of(rank).stopped(); });
  if (frozen != stuck.end()) {
    return {.condition = Condition::stopped,
            .text = fmt::format("{} seem to wait only for each other, but nothing can be proven: of rank {}, {}",
                                named(stuck), *frozen, process_text(job, *this, *frozen)),
            .rank = *frozen};
  }
  if (!stuck.empty()) {
    return {
        .condition = Condition::suspected,
        .text = fmt::format("{} seem to wait only for each other, or for ranks that have ended: `shmoe diagnose {}` "
                            "asks for a proof",
                            named(stuck), job.job().name),
        .rank = stuck.front()};
  }
  if (!root) return {.condition = Condition::running, .text = "no deadlock: nobody waits for another rank", .rank = {}};
  const bool slow = longest_wait_s(*this, *root) >= kLongWaitS;
  return {.condition = state_of(root->rank).stopped() ? Condition::stopped
                       : slow                         ? Condition::straggler
                                                      : Condition::running,
          .text = fmt::format("no deadlock: {}; {}; {}", behind_text(*this, *root), doing(*this, root->rank),
                              process_text(job, *this, root->rank)),
          .rank = root->rank};
}

}  // namespace shmoe::runtime
