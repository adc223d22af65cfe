#pragma once
// Who is gone from a communicator, settled among those who are left.
//
//   each survivor   finds somebody gone -> notes all it finds -> asks to be chosen
//   all             whom the chosen one noted
//
// Ranks that end are seen by everybody in the end, and only such are noted. So it does not matter who is chosen, nor whether
// the chosen one has ended since.

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/roll_call.hpp"

namespace shmoe::runtime {

/// The members as one of them sees them; ranks are world ranks.
struct Survivors {
  Rank self;
  std::span<const Rank> members;
  std::function<shmem::RollCall(Rank)> roll_call;  // in the memory of a member
  std::function<std::optional<std::string>(Rank)> gone;
  std::chrono::milliseconds limit;  // until somebody must be found gone
};

/// Members that are gone, ascending. Every survivor calls it.
/// Order:   none.
/// Errors:  deadline where nobody is found gone.
Result<std::vector<Rank>> settle_losses(const Survivors& survivors);

}  // namespace shmoe::runtime
