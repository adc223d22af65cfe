#include "runtime/diagnosis/root_cause.hpp"

#include <algorithm>
#include <span>

#include "runtime/diagnosis/cause_rules.hpp"

namespace shmoe::runtime {
namespace {

enum class Stage : std::uint8_t {
  channels,   // seen, and not inferred
  sync_all,   // of cores that do not meet
  structure,  // how the job is put together: where one of these fits, the signals merely follow
  signals,
  last,  // only where nothing else fits: they are true of many waits that merely follow
};

struct Rule {
  Stage stage;
  CauseKind kind;
  rules::Because (*fits)(const Evidence&, const Edge&);
};

/// The more a rule asks for, the earlier it stands in its stage.
constexpr Rule kRules[] = {
    {Stage::channels, CauseKind::missing_quiet, rules::not_quiet},

    {Stage::sync_all, CauseKind::sync_all_left, rules::core_absent},
    {Stage::sync_all, CauseKind::missing_notify, rules::arrival_lost},

    {Stage::structure, CauseKind::oversized_grid, rules::queued},
    {Stage::structure, CauseKind::operator_order, rules::order},
    {Stage::structure, CauseKind::operator_left_out, rules::left_out},
    {Stage::structure, CauseKind::two_paths, rules::two_paths},
    {Stage::structure, CauseKind::core_count_drift, rules::core_counts},
    {Stage::structure, CauseKind::core_count_drift, rules::total_cores},
    {Stage::structure, CauseKind::magic_drift, rules::magics},

    {Stage::signals, CauseKind::two_barriers_in_one_epoch, rules::two_barriers},
    {Stage::signals, CauseKind::shared_window, rules::shared_window},
    {Stage::signals, CauseKind::buffer_reused_early, rules::buffer_reused},
    {Stage::signals, CauseKind::clear_missing, rules::never_cleared},
    {Stage::signals, CauseKind::doubled_notify, rules::doubled},
    {Stage::signals, CauseKind::shared_line, rules::shared_line},
    {Stage::signals, CauseKind::clear_unaligned, rules::cleared},
    {Stage::signals, CauseKind::slot_erased, rules::erased},
    {Stage::signals, CauseKind::slot_drift, rules::drifted},
    {Stage::signals, CauseKind::wrong_rank, rules::wrong_rank},
    {Stage::signals, CauseKind::wrong_word, rules::wrong_word},
    {Stage::signals, CauseKind::double_reset, rules::reset_twice},
    {Stage::signals, CauseKind::clear_unaligned, rules::credit_cleared},
    {Stage::signals, CauseKind::merged_notify, rules::merged},
    {Stage::signals, CauseKind::cleared_early, rules::cleared_early},
    {Stage::signals, CauseKind::missing_notify, rules::missing_here},
    {Stage::signals, CauseKind::notify_range, rules::range},
    {Stage::signals, CauseKind::missing_notify, rules::missing},
    {Stage::signals, CauseKind::missing_notify, rules::missing_of_cores},
    {Stage::signals, CauseKind::clear_missing, rules::credit_never_cleared},
    {Stage::signals, CauseKind::credit_missing, rules::no_credit},

    {Stage::last, CauseKind::missing_notify, rules::left_out_midway},
    {Stage::last, CauseKind::wait_first, rules::everybody_waits},
    {Stage::last, CauseKind::missing_notify, rules::left_out_before},
};

/// At the first of the waits that it fits.
void apply(const Evidence& known, const Rule& rule, std::vector<Cause>& causes) {
  if (std::ranges::any_of(causes, [&](const Cause& cause) { return cause.kind == rule.kind; })) return;
  for (const Edge& edge : known.edges()) {
    rules::Because because = rule.fits(known, edge);
    if (!because) continue;
    causes.push_back({rule.kind, *std::move(because), edge.core->rank, edge.core->core});
    if (rule.kind == CauseKind::core_count_drift) causes.back().histogram = rules::histogram(known);
    return;
  }
}

}  // namespace

std::vector<Cause> causes_of(const Sight& sight, VerdictKind kind) {
  const Evidence known(sight);
  std::vector<Cause> causes;
  Stage stage = Stage::channels;
  for (const Rule& rule : kRules) {
    if (rule.stage != stage && !causes.empty()) break;
    stage = rule.stage;
    if (stage == Stage::sync_all && kind != VerdictKind::sync_mismatch) continue;
    apply(known, rule, causes);
  }
  return causes;
}

}  // namespace shmoe::runtime
