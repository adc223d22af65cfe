#include "runtime/diagnosis/verdict.hpp"

#include <algorithm>
#include <span>

#include <fmt/ranges.h>

namespace shmoe::runtime {
namespace {

/// Of hundreds of ranks that are stuck the first few say why.
constexpr std::size_t kMostWaits = 16;

double seconds(shmem::Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::clean: return "clean";
    case VerdictKind::deadlock_cycle: return "deadlock cycle";
    case VerdictKind::orphan_wait: return "orphan wait";
    case VerdictKind::sync_mismatch: return "SyncAll mismatch";
    case VerdictKind::overrun: return "overrun";
    case VerdictKind::misdirected: return "misdirected notify";
    case VerdictKind::undelivered: return "undelivered";
    case VerdictKind::unordered_read: return "unordered read";
    case VerdictKind::stale_value: return "stale value";
    case VerdictKind::overwrite_before_read: return "overwrite before read";
    case VerdictKind::unordered_write: return "unordered write";
    case VerdictKind::bad_address: return "bad address";
    case VerdictKind::failed: return "failed";
    case VerdictKind::broken_contract: return "broken contract";
    case VerdictKind::nondeterminism: return "nondeterminism";
    case VerdictKind::no_verdict: return "no verdict";
  }
  return "unknown";
}

std::string to_string(const Verdict& verdict) {
  std::string text = verdict.scope.empty() ? "" : verdict.scope + ": ";
  text += fmt::format("{}: {}", name_of(verdict.kind), verdict.text);
  for (const Cause& cause : verdict.causes) {
    const bool first = &cause == &verdict.causes.front();
    if (first) text += fmt::format("\n  cause: {}: {}", name_of(cause.kind), cause.because);
    if (first) text += fmt::format("\n  what to do: {}", advice_on(cause.kind));
    if (!first)
      text += fmt::format("\n  also fits: {}: {}; {}", name_of(cause.kind), cause.because, told_apart_by(cause.kind));
  }
  if (verdict.causes.size() > 1)
    text += "\n  to see the events: run again with SHMOE_PROVE=off and, when it hangs, shmoe inspect JOB --events 50";
  const std::size_t shown = std::min(verdict.stuck.size(), kMostWaits);
  for (const StuckWait& wait : std::span{verdict.stuck}.first(shown)) {
    text += fmt::format("\n  {}{}rank {} core {} in {} round {} waits at {} for {}; may be written by rank {}",
                        wait.scope, wait.scope.empty() ? "" : ": ", wait.rank, wait.core, wait.op, wait.round,
                        wait.site, wait.what, fmt::join(wait.writers, ", "));
    if (!wait.written.empty()) text += "; " + wait.written;
  }
  if (verdict.after)
    text += fmt::format("\n  proven {:.3f} s after the last of these waits began", seconds(*verdict.after));
  if (!verdict.scope.empty())
    text += fmt::format("\n  ranks in lines that name no communicator are members of {}, from 0 in that order",
                        verdict.scope);
  if (shown < verdict.stuck.size()) text += fmt::format("\n  and {} more waits", verdict.stuck.size() - shown);
  return text;
}

}  // namespace shmoe::runtime
