#pragma once
// An all-to-all over heads that is small enough for the checker, and what must come out. New elements in every call.

#include <cstdint>
#include <functional>

#include "ops/tile/reverse_all2all.hpp"
#include "runtime/check/program.hpp"

namespace shmoe::apps {

struct All2AllProblem {
  ops::All2AllWay way = ops::All2AllWay::reverse;
  ops::All2AllShape shape = {};
  ops::All2AllTiling tiling = {};
  ops::Merge merge = ops::Merge::none;
};

/// The family "all2all", as large as the problem needs.
void declare_all2all_slots(const All2AllProblem& problem, shmem::SlotPlan& plan, const shmem::BlockMap& map);

/// Symmetric memory for the problem's buffers.
/// Errors:  as Communicator::allocate
Result<Offset> allocate_all2all(runtime::Communicator& comm, const All2AllProblem& problem);

/// What carries one call out.
using All2AllCall = std::function<Result<void>(const ops::All2AllArgs&)>;
/// The operator itself.
All2AllCall all2all_operator(runtime::Communicator& comm, ops::All2AllWay way);

/// One call with this rank's elements of it.
/// Errors:  those of the call; mismatch where other elements come out
Result<void> check_all2all(runtime::Communicator& comm, const All2AllProblem& problem, Offset buffers, int number,
                           const All2AllCall& call);

}  // namespace shmoe::apps
