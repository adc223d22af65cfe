#include "runtime/diagnosis/assessment.hpp"

#include <algorithm>

#include "bootstrap/text.hpp"

namespace shmoe::runtime {
namespace {

/// From so long on a wait is worth a word: healthy ones take milliseconds, on a busy machine a few hundred.
constexpr double kLongWaitS = 1.0;

/// "rank 3", "ranks 0-2"
std::string named(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", bootstrap::name_ranks(numbers));
}

/// "core 1 of it runs dispatch_normal round 7"
std::string doing(const CommunicatorLook& look, Rank rank) {
  std::string text = "it is between operators";
  const bool waits = look.job->graph().standing(rank) == Standing::waits;
  bool said = false;
  each_busy(look.job->sights(), rank, [&](const Sight& sight, const CoreSight& core) {
    if (said || (core.wait && waits)) return;
    said = true;
    text = fmt::format("core {} of it {} {} round {}{}", core.core,
                       core.wait ? "may go on, since its word has come, in" : "runs", core.op, core.round,
                       &sight == look.sight ? "" : " of " + sight.name());
  });
  return text;
}

std::string process_text(const JobLook& look, Rank rank) {
  const auto pid = look.job().pid_of(rank);
  if (!pid) return "its process has ended";
  const ProcessState state = look.state_of(rank);
  std::string text = fmt::format("its process {} {}", *pid, state.text());
  if (state.letter == 'T') text += fmt::format(": `kill -CONT {}` lets it go on", *pid);
  return text;
}

double longest_wait_s(const CommunicatorLook& look, const WaitGraph::Root& root) {
  double longest = 0;
  for (const Rank rank : root.behind) {
    for (const CoreSight& core : look.sight->of(*look.sight->member(rank))) {
      if (core.wait) longest = std::max(longest, look.job->waited_s(core));
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

Result<std::unique_ptr<JobLook>> JobLook::take(JobView& job) {
  Result<std::vector<CommunicatorView>> views = job.communicators();
  if (!views) return std::move(views).error();
  std::unique_ptr<JobLook> look(new JobLook(job));
  std::vector<bool> ended;
  for (Rank rank{0}; rank.value() < job.shape().ranks; ++rank) {
    look->states_.push_back(job.state_of(rank));
    ended.push_back(look->states_.back().ended());
  }
  const Prover prover({.self = kOutside,
                       .ranks = job.shape().ranks,
                       .views = [&] { return *std::move(views); },
                       .gone = [&](Rank rank) { return ended[rank.index()]; }});
  look->look_ = prover.look();
  look->graph_.emplace(look->look_.sights, ended);
  look->now_ns_ = job.now_ns();
  return look;
}

double JobLook::waited_s(const CoreSight& core) const {
  const std::int64_t since = core.wait ? std::chrono::nanoseconds(core.wait->since).count() : now_ns_;
  return static_cast<double>(std::max<std::int64_t>(0, now_ns_ - since)) / 1e9;
}

std::vector<Rank> CommunicatorLook::stuck() const {
  std::vector<Rank> ranks;
  for (Rank member{0}; member.value() < sight->ranks; ++member) {
    const Rank world = sight->world(member);
    if (job->stuck()[world.index()] && !sight->ended(member)) ranks.push_back(world);
  }
  return ranks;
}

Assessment CommunicatorLook::assess() const {
  if (const auto reason = view->aborted()) {
    return {.condition = Condition::given_up, .text = reason->context, .rank = reason->where};
  }
  if (std::ranges::all_of(view->members(), [&](Rank world) { return job->state_of(world).ended(); })) {
    return {.condition = Condition::ended, .text = "all its processes have ended", .rank = {}};
  }
  const auto root = job->graph().root(*sight);
  if (root && job->state_of(root->rank).ended()) {
    return {.condition = Condition::lost,
            .text = fmt::format("{}; {}", behind_text(*this, *root), process_text(*job, root->rank)),
            .rank = root->rank};
  }
  const std::vector<Rank> stuck = this->stuck();
  const auto frozen = std::ranges::find_if(stuck, [&](Rank rank) { return job->state_of(rank).stopped(); });
  if (frozen != stuck.end()) {
    return {.condition = Condition::stopped,
            .text = fmt::format("{} seem to wait only for each other, but nothing can be proven: of rank {}, {}",
                                named(stuck), *frozen, process_text(*job, *frozen)),
            .rank = *frozen};
  }
  if (!stuck.empty()) {
    return {.condition = Condition::suspected,
            .text = fmt::format("{} seem{} to wait only for ranks that wait themselves, or that have ended: `shmoe "
                                "diagnose {}` asks for a proof",
                                named(stuck), stuck.size() == 1 ? "s" : "", job->job().job().name),
            .rank = stuck.front()};
  }
  if (!root) return {.condition = Condition::running, .text = "no deadlock: nobody waits for another rank", .rank = {}};
  const bool slow = longest_wait_s(*this, *root) >= kLongWaitS;
  return {.condition = job->state_of(root->rank).stopped() ? Condition::stopped
                       : slow                              ? Condition::straggler
                                                           : Condition::running,
          .text = fmt::format("no deadlock: {}; {}; {}", behind_text(*this, *root), doing(*this, root->rank),
                              process_text(*job, root->rank)),
          .rank = root->rank};
}

}  // namespace shmoe::runtime
