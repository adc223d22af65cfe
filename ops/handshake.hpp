#pragma once
// What a rank brings into the entry barrier of an operator.
//
//   host      arguments --> Handshake{card, fault}
//   kernel    ZeroBufferSync sync(context);  sync.enter(handshake.card, handshake.fault)
//               every card equal, no fault  --> all ranks go on
//               else                        --> all ranks leave with the same error; no row was written

#include <optional>
#include <string_view>
#include <utility>

#include "runtime/communicator.hpp"
#include "runtime/zero_buffer_sync.hpp"
#include "shmem/result.hpp"

namespace shmoe::ops {

struct Handshake {
  runtime::CallCard card;
  /// What is wrong with this rank's own arguments.
  std::optional<Error> fault;
};

/// Runs an operator that synchronises between ranks. A rank with a fault takes part all the same, because its peers
/// would wait for it for ever; only the published profiles, whose entry barrier carries no error, leave it out.
/// Order:   as the kernel.
/// Errors:  as the kernel.
inline Result<void> launch_collective(runtime::Communicator& comm, std::string_view op, const Handshake& handshake,
                                      runtime::Kernel kernel) {
  if (handshake.fault && !comm.profile().handshake) return Error(*handshake.fault).within(op);
  return comm.launch(op, kernel);
}

/// A fault of `rank`.
inline Error fault_of(Rank rank, Errc code, std::string text) {
  return Error{.code = code, .context = fmt::format("rank {}: {}", rank, text), .where = rank};
}

/// Where tables that a call on `filled_on` has filled are handed to a call on another communicator.
inline std::optional<Error> tables_fault(runtime::CommunicatorId filled_on, const runtime::Communicator& comm) {
  if (filled_on == comm.id()) return std::nullopt;
  return fault_of(comm.rank(), Errc::invalid_argument,
                  fmt::format("these tables belong to communicator {}, and this call is on communicator {}: each has "
                              "tables of its own",
                              filled_on, comm.id()));
}

}  // namespace shmoe::ops
