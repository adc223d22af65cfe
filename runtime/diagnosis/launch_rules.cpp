#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "runtime/diagnosis/cause_rules.hpp"

namespace shmoe::runtime::rules {
namespace {

/// Core 0 stands for its rank.
const CoreSight& core_0(const Evidence& known, Rank rank) { return known.sight().of(rank).front(); }

/// What a rank has launched as its launch of this number; nothing where its events do not go back so far.
const std::string* launched_as(const std::vector<std::string>& operators, std::uint64_t last, std::uint64_t launch) {
  const bool told = launch <= last && last - launch < operators.size();
  return told ? &operators[operators.size() - 1 - (last - launch)] : nullptr;
}

/// The last kernel of one core: it began in an earlier round than one before.
Because set_back(std::span<const CoreLaunch> launches, Rank rank) {
  const CoreLaunch& last = launches.back();
  const auto round_of = [](const CoreLaunch& launch) { return launch.rounds.front(); };
  const auto before = std::ranges::max_element(launches.first(launches.size() - 1), {}, round_of);
  if (before == launches.end() - 1 || round_of(last) > round_of(*before)) return std::nullopt;
  return fmt::format("rank {} core {} was in round {} in {} and was set back to round {} in {}", rank, last.core,
                     round_of(*before), before->op, round_of(last), last.op);
}

Because set_back(const Evidence& known, Rank rank) {
  for (const CoreSight& core : known.sight().of(rank)) {
    std::vector<CoreLaunch> launches;
    std::ranges::copy_if(known.history(rank).launches, std::back_inserter(launches), [&](const CoreLaunch& launch) {
      return launch.core == core.core && launch.rounds.size() == 1;  // of several blocks, each with its own count
    });
    if (launches.empty()) continue;
    if (Because found = set_back(launches, rank)) return found;
  }
  return std::nullopt;
}

std::map<std::uint64_t, std::int32_t> magics_of(const Evidence& known, Rank rank) {
  std::map<std::uint64_t, std::int32_t> cores_at;
  if (!known.sight().magic) return cores_at;
  for (const CoreSight& core : known.sight().of(rank)) ++cores_at[known.magic(core)];
  return cores_at;
}

/// "magic slots: 5 cores at 7, 3 at 6"
std::string histogram_text(const Evidence& known, Rank rank) {
  std::vector<std::string> parts;
  const auto cores_at = magics_of(known, rank);
  for (auto at = cores_at.rbegin(); at != cores_at.rend(); ++at) {
    const char* unit = !parts.empty() ? "" : at->second == 1 ? " core" : " cores";
    parts.push_back(fmt::format("{}{} at {}", at->second, unit, at->first));
  }
  return fmt::format("magic slots: {}", fmt::join(parts, ", "));
}

bool meets(const Edge& edge, const CoreSight& core) {
  return core.busy && core.wait && core.wait->slot() == edge.slot && core.wait->value == edge.wanted;
}

}  // namespace

Because queued(const Evidence& known, const Edge& edge) {
  const auto physical = static_cast<std::uint32_t>(known.sight().cores_a_rank());
  for (const CoreSight& core : known.sight().of(edge.writer)) {
    if (!core.busy || core.blocks <= physical || core.block + physical >= core.blocks) continue;
    return fmt::format("rank {} runs {} blocks of {} on {} cores; block {} cannot begin before block {}, which waits",
                       edge.writer, core.blocks, core.op, physical, core.block + physical, core.block);
  }
  return std::nullopt;
}

/// Of the launches that two ranks remember, the first that is not of the same operator on both.
Because order(const Evidence& known, const Edge& edge) {
  if (edge.writer == edge.core->rank) return std::nullopt;
  const std::vector<std::string>& here = known.history(edge.core->rank).operators;
  const std::vector<std::string>& there = known.history(edge.writer).operators;
  const std::uint64_t here_last = core_0(known, edge.core->rank).launch;
  const std::uint64_t there_last = core_0(known, edge.writer).launch;
  const std::uint64_t last = std::min(here_last, there_last);
  for (std::uint64_t launch = last - std::min<std::uint64_t>(last, here.size()) + 1; launch <= last; ++launch) {
    const std::string* mine = launched_as(here, here_last, launch);
    const std::string* theirs = launched_as(there, there_last, launch);
    if (mine == nullptr || theirs == nullptr || *mine == *theirs) continue;
    return fmt::format("operator {} of the communicator is {} on rank {} and {} on rank {}", launch, *mine,
                       edge.core->rank, *theirs, edge.writer);
  }
  return std::nullopt;
}

Because left_out(const Evidence& known, const Edge& edge) {
  const std::uint64_t launches = core_0(known, edge.writer).launch;
  if (!known.sight().ended(edge.writer) || launches >= edge.core->launch) return std::nullopt;
  return fmt::format("rank {} ended after {} operators, and rank {} waits for it in {}, its operator {}", edge.writer,
                     launches, edge.core->rank, edge.core->op, edge.core->launch);
}

Because two_paths(const Evidence& known, const Edge& edge) {
  if (!core_counts(known, edge) && !magics(known, edge)) return std::nullopt;
  Because here = set_back(known, edge.core->rank);
  return here ? here : set_back(known, edge.writer);
}

Because core_counts(const Evidence& known, const Edge& edge) {
  if (!known.has_rounds(edge) || !known.counts_rounds(*edge.core)) return std::nullopt;
  for (const CoreSight& other : known.sight().of(edge.core->rank)) {
    if (!known.counts_rounds(other) || known.magic(other) == known.magic(*edge.core)) continue;
    return fmt::format(
        "on rank {} core {} is in round {} and core {} in round {} of the same launch; they have begun {} and {} "
        "launches; {}",
        edge.core->rank, edge.core->core, edge.core->round, other.core, other.round, edge.core->launch, other.launch,
        histogram_text(known, edge.core->rank));
  }
  return std::nullopt;
}

/// The writer's launch has no core for the awaited event, and the waiter's has.
Because total_cores(const Evidence& known, const Edge& edge) {
  const CoreSight* other = known.beside(edge);
  if (!by_source(edge) || other == nullptr || other->blocks == 0) return std::nullopt;
  const std::uint32_t event = Evidence::place_of(edge).event;
  if (event < other->blocks || event >= edge.core->blocks) return std::nullopt;
  return fmt::format("total cores of {}: {} on rank {} and {} on rank {}, which waits for event {}; {}", edge.core->op,
                     other->blocks, edge.writer, edge.core->blocks, edge.core->rank, event,
                     histogram_text(known, edge.writer));
}

std::vector<CoresAtMagic> histogram(const Evidence& known) {
  std::vector<CoresAtMagic> all;
  for (Rank rank{0}; rank.value() < known.sight().ranks; ++rank) {
    for (const auto& [magic, cores] : magics_of(known, rank)) all.push_back({rank, magic, cores});
  }
  return all;
}

Because magics(const Evidence& known, const Edge& edge) {
  const CoreSight* other = known.beside(edge);
  if (!known.has_rounds(edge) || other == nullptr) return std::nullopt;
  if (known.counts_rounds(*edge.core) && known.counts_rounds(*other) &&
      known.magic(*other) != known.magic(*edge.core)) {
    return fmt::format("{} is round {} on rank {} and round {} on rank {}", edge.core->op, edge.core->round,
                       edge.core->rank, other->round, other->rank);
  }
  if (!known.is_past(edge) || known.sent(edge).count != known.sent_back(edge)) return std::nullopt;
  return fmt::format("ranks {} and {} have signalled each other {}, yet one is at {} and the other at {}", edge.writer,
                     edge.where, times(known.sent(edge).count), word_text(known, edge, edge.seen),
                     word_text(known, edge, edge.wanted));
}

Because core_absent(const Evidence& known, const Edge& edge) {
  if (edge.family != &known.sight().slots->sync_all()) return std::nullopt;
  std::vector<std::string> elsewhere;
  for (const CoreSight& core : known.sight().of(edge.core->rank)) {
    if (meets(edge, core)) continue;
    const bool waits = core.busy && core.wait;
    const bool for_others = waits && &known.sight().slots->family_of(core.wait->slot()) != edge.family;
    if (for_others) return std::nullopt;  // it will come, once they have signalled
    elsewhere.push_back(waits ? fmt::format("core {} waits at {}", core.core, core.site)
                              : fmt::format("core {} has left", core.core));
  }
  if (elsewhere.empty()) return std::nullopt;
  return fmt::format("rank {} core {} waits in the SyncAll at {}; {}", edge.core->rank, edge.core->core,
                     edge.core->site, fmt::join(elsewhere, ", "));
}

/// Every core is there, and the slot has counted fewer.
Because arrival_lost(const Evidence& known, const Edge& edge) {
  if (edge.family != &known.sight().slots->sync_all()) return std::nullopt;
  const auto is_there = [&](const CoreSight& core) { return meets(edge, core); };
  if (!std::ranges::all_of(known.sight().of(edge.core->rank), is_there)) return std::nullopt;
  return fmt::format("all cores of rank {} wait in the SyncAll at {}, and {} of {} have been counted", edge.core->rank,
                     edge.core->site, edge.seen, edge.wanted);
}

}  // namespace shmoe::runtime::rules
