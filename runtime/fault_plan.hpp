#pragma once
// Faults that a user writes down: one a line, where a call of a fabric goes wrong and how. apps/11_faults/README.md is the
// page on the grammar.
//
//   rank 1 core 0 in notify signal 2 barrier: drop     # the second signal to a barrier slot is lost
//   rank 1 in "hand over" launch 3 wait *: skip        # in the third launch, waits for nothing
//   in dispatch_normal put 1-4: tear 8                 # every rank and core: 8 bytes of each arrive
//   rank 1 any *: weak                                 # its puts and signals land late and in another order
//   seed 7                                             # of what is drawn: weak, delay 0-5ms

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmem/fabric.hpp"

namespace shmoe::runtime {

/// The kinds of calls that a fault can meet. A view counts as the put or the get that stands for it; test is no point,
/// because how often it is called is chance.
enum class FaultCall : std::uint8_t { put, get, signal, put_signal, fence, quiet, wait, any };

enum class FaultAction : std::uint8_t {
  drop,      // put, signal, put_signal: lost on the way
  late,      // wait: looks only when a word has gone past what is waited for, or after 5 s
  skip,      // get, fence, quiet, wait: the step is left out
  tear,      // put, get, put_signal: only so many bytes of the data
  twice,     // signal, put_signal: the signal is delivered a second time
  redirect,  // put, signal, put_signal: to another rank
  slot,      // signal, put_signal: to a slot so many further on
  value,     // signal, put_signal: with a value so much larger
  weak,      // put, signal, put_signal: late, in an order drawn from those that fence and quiet leave
  hold,      // put, signal, put_signal: not before its core has called quiet
  delay,     // any: late by a time between two
  stall,     // any: never, until the job is given up
  stop,      // any: the process stops itself (SIGSTOP)
  kill,      // any: the process kills itself (SIGKILL)
};

/// Where a fault is injected.
struct FaultPoint {
  std::optional<Rank> rank;             // of the job; nothing: any
  std::optional<Core> core;             // a physical one; nothing: any
  std::optional<std::string> op;        // nothing: any operator
  std::optional<std::uint64_t> launch;  // only the launch of this number, from 1, of `op` by the core in a communicator
  FaultCall call = FaultCall::any;
  std::uint64_t first = 1;  // occurrences of such calls of a core in a launch
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  std::optional<std::string> family;  // of the slot, of a wait the first one; nothing: any
};

struct Fault {
  std::size_t line = 0;
  FaultPoint at;
  FaultAction action = FaultAction::drop;
  std::int64_t amount = 0;  // tear: bytes; redirect: a rank of the communicator; slot and value: what is added
  shmem::Time shortest{0};  // delay
  shmem::Time longest{0};
};

/// What the ranks of a job are like, for the check of a plan.
struct FaultWorld {
  std::int32_t ranks = 1;
  std::int32_t cores = 1;
  const shmem::SlotPlan& slots;
  bool threads = false;  // ranks of one process
};

struct FaultPlan {
  std::string name;  // where it comes from, for messages
  std::uint64_t seed = 1;
  std::vector<Fault> faults;

  /// Errors:  invalid_argument naming the line, the word that is wrong there, and what the line takes.
  static Result<FaultPlan> parse(std::string_view text, std::string name);
  /// Of a file.
  /// Errors:  as parse; not_found.
  static Result<FaultPlan> load(const std::string& path);

  /// Errors:  invalid_argument naming the line of a fault whose rank, core or slot family the job does not have, or that
  ///          would end a process in which all ranks live.
  [[nodiscard]] Result<void> check(const FaultWorld& world) const;
};

/// In the words of a plan; parses into an equal fault.
std::string to_string(const Fault& fault);
/// Without comments.
std::string to_string(const FaultPlan& plan);

}  // namespace shmoe::runtime
