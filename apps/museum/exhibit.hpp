#pragma once
// One bug of a signal protocol, small enough to read, that fails in one way and in no other.

#include <functional>
#include <string>
#include <vector>

#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::apps {

struct Exhibit {
  std::string name;
  std::string what;      // one line
  std::string expected;  // "verdict: cause", or the name of an error; the first line of its file says the same
  std::string story;     // what goes wrong and why, and what cures it
  std::int32_t ranks = 2;
  std::int32_t cores = 1;
  Profile profile = kSafe;
  bool strict = true;
  std::int32_t communicators = 1;
  std::string faults = {};  // a plan as in apps/11_faults
  /// What a rank sets besides, perhaps otherwise than the others; may be empty.
  std::function<void(Rank, runtime::Config&)> settings = {};
  bool finalize = true;  // false: a rank that is done just ends
  /// Slot families of its own; may be empty.
  std::function<void(shmem::SlotPlan&, const shmem::BlockMap&)> slots = {};
  // One of the two.
  /// What each rank does, in processes of its own.
  std::function<Result<void>(runtime::World&)> run = {};
  /// What each rank does in the checker, which tries schedules until one fails: memory that is read too early or written
  /// too early looks right on most machines.
  std::function<Result<void>(runtime::Communicator&)> checked = {};
};

/// All of them, in the order of the catalogue.
std::vector<Exhibit> collection();

/// A hazard of the catalogues that has no exhibit.
struct LeftOut {
  std::string name;
  std::string why;  // as in README.md
};
std::vector<LeftOut> left_out();

/// One kernel, on every rank.
inline std::function<Result<void>(runtime::World&)> kernel(const char* op,
                                                           std::function<void(runtime::CoreContext&)> body) {
  return [op, body = std::move(body)](runtime::World& world) { return world.all().launch(op, body); };
}

/// The same in the checker.
inline std::function<Result<void>(runtime::Communicator&)> checked_kernel(
    const char* op, std::function<void(runtime::CoreContext&)> body) {
  return [op, body = std::move(body)](runtime::Communicator& comm) { return comm.launch(op, body); };
}

/// The next kernel is the first, as in the catalogue: the start of a job has taken a round. On every rank, before any kernel.
inline void start_from_zero(runtime::World& world) {
  runtime::Communicator& comm = world.all();
  for (Core core{0}; core.value() < comm.cores(); ++core) {
    comm.local<std::uint64_t>(comm.map().magic_of(core), 1)[0] = 0;
  }
}

/// A kernel of so many barriers.
inline Result<void> barriers(runtime::World& world, const char* op, int count) {
  return world.all().launch(op, [count](runtime::CoreContext& context) {
    runtime::ZeroBufferSync sync(context);
    for (int i = 0; i < count; ++i) sync.barrier_all();
  });
}

}  // namespace shmoe::apps
