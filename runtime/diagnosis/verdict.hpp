#pragma once
// What was found out about a run that went wrong, in the same words for the checker and for live jobs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/diagnosis/cause.hpp"
#include "shmem/fabric.hpp"
#include "shmem/result.hpp"

namespace shmoe::runtime {

enum class VerdictKind : std::uint8_t {
  clean,
  // Nobody can go on. Proven.
  deadlock_cycle,  // every stuck wait is for a core that is stuck itself
  orphan_wait,     // all who may write the slot have ended
  sync_mismatch,   // cores of one rank do not meet in the same SyncAll
  overrun,         // the word went past the value that an equality wait looks for
  misdirected,     // the awaited word lies in a slot that nobody waits for
  undelivered,     // the awaited signal lies with its sender, which has not completed it and never will
  // Memory. Real in this execution, whatever value was read.
  unordered_read,         // nothing orders the write before the read
  stale_value,            // the same, and the write had not landed
  overwrite_before_read,  // nothing orders the read before the write
  unordered_write,        // two writes of one place, in no order
  bad_address,            // symmetric heap that is not allocated
  // Of the program.
  failed,           // a rank returned an error
  broken_contract,  // a call that is not allowed
  nondeterminism,   // the same choices gave another run
  no_verdict,       // the step limit was reached
};

std::string_view name_of(VerdictKind kind);

/// The same fault: a stale value is an unordered read whose write had not landed.
constexpr bool same_fault(VerdictKind a, VerdictKind b) {
  const auto plain = [](VerdictKind kind) {
    return kind == VerdictKind::stale_value ? VerdictKind::unordered_read : kind;
  };
  return plain(a) == plain(b);
}

/// One wait that cannot end.
struct StuckWait {
  Rank rank;
  Core core;
  std::string op;
  Round round;
  std::string what;           // "barrier[1] from rank 0 of rank 1 to be == 0x100000002, sees 0x100000001"
  std::string site;           // where it waits: "barrier.cpp:12"
  std::vector<Rank> writers;  // who may write the slot, by declaration
  Rank where = {};            // whose slot
  Slot slot = {};
  std::string written = {};  // what its one writer has noted: "rank 1 never signalled it"; empty where nobody knows
  std::string scope = {};    // of several communicators, told by world ranks: "communicator 2 of world ranks 1 2 3"
};

/// A slot of a rank.
struct SlotAt {
  Rank where;
  Slot slot;
};

/// Two accesses of one place that nothing orders, in the order in which they happened.
struct Conflict {
  struct Side {
    Rank rank;
    Core core;
    bool writes;
    SourceSite site;
  };
  Rank owner;
  Offset at;
  Bytes size;
  Side first;
  Side second;
};

struct Verdict {
  VerdictKind kind = VerdictKind::clean;
  std::string text;                       // one sentence: what happened, and what would have prevented it
  std::vector<StuckWait> stuck;           // the cause first
  std::optional<SlotAt> astray = {};      // of misdirected: where the word lies
  std::optional<Conflict> conflict = {};  // of the verdicts on memory
  std::optional<shmem::Time> after = {};  // of a live job: how long after the last of the waits had begun
  std::vector<Cause> causes = {};         // of waits that cannot end, the likeliest first
  std::string scope = {};                 // whose ranks it names, where they are not world ranks

  [[nodiscard]] bool clean() const { return kind == VerdictKind::clean; }
};

/// The sentence, the cause with what to do about it, and the stuck waits, one a line.
std::string to_string(const Verdict& verdict);

}  // namespace shmoe::runtime
