#pragma once
// Looks after sleeping waits: is the rank that should write the slot still there? Says so when it is late.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/diagnosis/prover.hpp"
#include "runtime/log.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// "pid 4711 is gone", or nothing while the member lives.
using Gone = std::function<std::optional<std::string>(Rank member)>;

/// Whether the waits of a core are proven never to end.
using AskForProof = std::function<std::optional<Proof>(Core)>;

/// The deadlock that somebody has proven in another communicator of this rank.
using ToldElsewhere = std::function<std::optional<Error>()>;

/// Errors:  the overseer returns peer_lost, naming the member by its world rank; deadlock, proven, with the verdict, or as
///          another communicator has been told it. A living member that does not signal is no error: a line in the log
///          after a few seconds, and each time that the wait has doubled; of a SyncAll none while another core of the rank
///          waits elsewhere.
/// `verdict_file`: where a verdict is written as well; empty: nowhere. `ask` and `told` may be empty.
shmem::Overseer make_overseer(const shmem::Peers& peers, std::vector<Rank> members, std::int32_t cores, Gone gone,
                              Log log, std::string verdict_file, AskForProof ask, ToldElsewhere told);

}  // namespace shmoe::runtime
