#pragma once
// Looks after sleeping waits: is the rank that should write the slot still there? Says so when it is late.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/log.hpp"
#include "runtime/prover.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// "pid 4711 is gone", or nothing while the member lives.
using Gone = std::function<std::optional<std::string>(Rank member)>;

/// Whether the waits of a core are proven never to end.
using AskForProof = std::function<std::optional<Proof>(Core)>;

/// Errors:  the overseer returns peer_lost, naming the member by its world rank; deadlock, proven, with the verdict.
/// A living member that does not signal is no error: a line in the log every few seconds.
/// `verdict_file`: where a verdict is written as well; empty: nowhere. `ask` may be empty.
shmem::Overseer make_overseer(const shmem::Peers& peers, std::vector<Rank> members, std::int32_t cores, Gone gone,
                              Log log, std::string verdict_file, AskForProof ask);

}  // namespace shmoe::runtime
