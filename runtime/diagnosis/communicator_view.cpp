#include "runtime/diagnosis/communicator_view.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "bootstrap/text.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

/// Of more than so many members in ascending order, ranges of ranks are named.
constexpr std::size_t kMostNamed = 8;

std::vector<Rank> members_in(const shmem::ControlMap& map, std::byte* block) {
  std::vector<Rank> members;
  const std::uint32_t size = map.membership(block).size.load(std::memory_order_acquire);
  for (Rank member{0}; member.index() < std::min<std::size_t>(size, static_cast<std::size_t>(map.ranks)); ++member)
    members.emplace_back(map.member(block, member).load(std::memory_order_relaxed));
  const bool known = std::ranges::all_of(members, [&](Rank r) { return r.value() >= 0 && r.value() < map.ranks; });
  return known ? members : std::vector<Rank>();
}

bool share_a_member(const Group& a, const Group& b) {
  return std::ranges::find_first_of(a.members, b.members) != a.members.end();
}

void mark_disagreement(std::vector<Group>& groups) {
  for (Group& a : groups) {
    a.agreed =
        std::ranges::none_of(groups, [&](const Group& b) { return &a != &b && a.id == b.id && share_a_member(a, b); });
  }
}

}  // namespace

std::string Group::scope() const {
  if (id == CommunicatorId{0}) return {};
  if (members.size() > kMostNamed && std::ranges::is_sorted(members)) {
    std::vector<std::int32_t> numbers;
    for (const Rank member : members) numbers.push_back(member.value());
    return fmt::format("communicator {} of world ranks {}", id, bootstrap::name_ranks(numbers));
  }
  return fmt::format("communicator {} of world ranks {}", id, fmt::join(members, " "));
}

std::vector<Group> groups_in(const shmem::ControlMap& map, std::int32_t blocks, std::span<std::byte* const> controls) {
  std::vector<Group> groups;
  for (std::byte* control : controls) {
    const std::uint64_t made = map.membership(control).made.load(std::memory_order_acquire);
    for (CommunicatorId id{0}; id.value() < blocks; ++id) {
      if ((made >> id.index() & 1) == 0) continue;
      Group group{.id = id, .members = members_in(map, control + map.size().value() * id.index())};
      const bool known = std::ranges::any_of(
          groups, [&](const Group& other) { return other.id == id && other.members == group.members; });
      if (!known && !group.members.empty()) groups.push_back(std::move(group));
    }
  }
  std::ranges::stable_sort(groups, {}, &Group::id);
  mark_disagreement(groups);
  return groups;
}

bool ended_in_order(const shmem::Peers& peers, Rank member) {
  if (peers.controls.empty()) return false;
  for (Core core{0}; core.value() < peers.control_map.cores; ++core) {
    const auto& record = peers.control_map.record(peers.controls[member.index()], core);
    const auto life = static_cast<shmem::Life>(record.life.load(std::memory_order_seq_cst));
    if (life != shmem::Life::ended) return false;
  }
  return true;
}

shmem::Challenge& CommunicatorView::challenge(Rank member) const {
  return *reinterpret_cast<shmem::Challenge*>(
      peers.place(member, peers.map->challenge(), Bytes{sizeof(shmem::Challenge)}));
}

bool CommunicatorView::is_aborted(Rank member) const {
  return shmem::load_slot(peers, member, peers.slots->abort().at(0, Rank{0})) != 0;
}

std::optional<Error> CommunicatorView::aborted() const {
  for (Rank member{0}; member.value() < peers.size(); ++member) {
    if (std::optional<Error> error = abort_seen_by(member, peers, group.members)) return error;
  }
  return std::nullopt;
}

}  // namespace shmoe::runtime
