#pragma once
// The communicators of a job, as whoever looks at the records of their members sees them.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/world.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// No member; Peers::rank of whoever looks on and takes no part.
inline constexpr Rank kOutside{-1};

/// A communicator that some rank has made. Groups without a common member may use the same number.
struct Group {
  CommunicatorId id;
  std::vector<Rank> members;  // world ranks
  bool agreed = true;         // all who have made it, and share a member with it, name the same members

  /// "communicator 2 of world ranks 1 2 3"; empty of the one of all ranks.
  [[nodiscard]] std::string scope() const;
};

/// By number. `controls`: of each rank the first of the blocks of its `.ctl`, zeros where that is not known.
std::vector<Group> groups_in(const shmem::ControlMap& map, std::int32_t blocks, std::span<std::byte* const> controls);

/// Whether a member has left its World: then what waits for it is a fault of the protocol, and its end no loss.
bool ended_in_order(const shmem::Peers& peers, Rank member);

struct CommunicatorView {
  Group group;
  shmem::Peers peers;  // its rank is kOutside

  [[nodiscard]] CommunicatorId id() const { return group.id; }
  [[nodiscard]] const std::vector<Rank>& members() const { return group.members; }
  [[nodiscard]] shmem::WaitRecord& record(Rank member, Core core) const {
    return peers.control_map.record(peers.controls[member.index()], core);
  }
  [[nodiscard]] const shmem::Membership& membership(Rank member) const {
    return peers.control_map.membership(peers.controls[member.index()]);
  }
  [[nodiscard]] const shmem::EventRing& ring(Rank member, Core core) const {
    return peers.control_map.ring(peers.controls[member.index()], core);
  }
  /// The number that was last written to a member.
  [[nodiscard]] shmem::Challenge& challenge(Rank member) const;
  /// Somebody has given up, and has told the member.
  [[nodiscard]] bool is_aborted(Rank member) const;
  /// Why it cannot be used any more.
  [[nodiscard]] std::optional<Error> aborted() const;
};

}  // namespace shmoe::runtime
