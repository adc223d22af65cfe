#include "runtime/verdict.hpp"

#include <fmt/ranges.h>

namespace shmoe::runtime {

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::clean: return "clean";
    case VerdictKind::deadlock_cycle: return "deadlock cycle";
    case VerdictKind::orphan_wait: return "orphan wait";
    case VerdictKind::sync_mismatch: return "SyncAll mismatch";
    case VerdictKind::overrun: return "overrun";
    case VerdictKind::misdirected: return "misdirected notify";
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
  std::string text = fmt::format("{}: {}", name_of(verdict.kind), verdict.text);
  for (const StuckWait& wait : verdict.stuck) {
    text += fmt::format("\n  rank {} core {} in {} round {} waits at {} for {}; may be written by rank {}", wait.rank,
                        wait.core, wait.op, wait.round, wait.site, wait.what, fmt::join(wait.writers, ", "));
    if (!wait.written.empty()) text += "; " + wait.written;
  }
  return text;
}

}  // namespace shmoe::runtime
