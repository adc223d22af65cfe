#include "apps/shmoe/inspection.hpp"

#include <algorithm>

#include <fmt/ranges.h>

namespace shmoe::apps {
namespace {

using runtime::CommunicatorLook;
using runtime::CommunicatorView;

std::vector<PlacedEvent> last_events(const CommunicatorView& view, std::uint64_t most) {
  std::vector<PlacedEvent> events;
  for (Rank rank{0}; rank.value() < view.peers.size(); ++rank) {
    for (Core core{0}; core.value() < view.peers.control_map.cores; ++core) {
      for (const shmem::Event& event : view.ring(rank, core).last(most))
        events.push_back({view.id(), rank, core, event});
    }
  }
  return events;
}

Error no_family(const runtime::JobShape& shape, const std::string& name) {
  std::vector<std::string> names;
  for (const shmem::SlotFamily& family : shape.slots.families()) names.push_back(family.name);
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("--slots {}: the job has {}", name, fmt::join(names, ", "))};
}

}  // namespace

Result<Inspection> inspect(runtime::JobView& job, const InspectChoice& choice) {
  const auto& families = job.shape().slots.families();
  if (!choice.slots.empty() && std::ranges::find(families, choice.slots, &shmem::SlotFamily::name) == families.end())
    return no_family(job.shape(), choice.slots);
  auto look = runtime::JobLook::take(job);
  if (!look) return std::move(look).error();
  Inspection inspection{.job = &job, .choice = choice, .look = *std::move(look), .communicators = {}, .events = {}};
  for (std::size_t i = 0; i < inspection.look->views().size(); ++i) {
    const CommunicatorLook& at = inspection.communicators.emplace_back(*inspection.look, i);
    if (choice.events > 0)
      std::ranges::move(last_events(*at.view, choice.events), std::back_inserter(inspection.events));
  }
  std::ranges::stable_sort(inspection.events, {}, [](const PlacedEvent& placed) { return placed.event.time_ns; });
  const std::size_t shown = std::min<std::size_t>(choice.events, inspection.events.size());
  inspection.events.erase(inspection.events.begin(), inspection.events.end() - static_cast<std::ptrdiff_t>(shown));
  return inspection;
}

shmem::Life life_of(const shmem::WaitRecord& record) {
  return static_cast<shmem::Life>(record.life.load(std::memory_order_relaxed));
}

std::string_view name_of(shmem::Life life) {
  switch (life) {
    case shmem::Life::absent: return "absent";
    case shmem::Life::running: return "in an operator";
    case shmem::Life::parked: return "parked";
    case shmem::Life::ended: return "ended";
  }
  return "unknown";
}

std::string wait_text(const CommunicatorLook& look, const runtime::WaitSight& wait) {
  if (wait.slots.empty()) return "more slots than a record tells";
  const shmem::SlotPlan& slots = *look.view->peers.slots;
  const std::string slot = fmt::format("{} of rank {}", slots.describe(wait.slot()), wait.where);
  const std::uint64_t seen = look.sight->word(wait.where, wait.slot());
  switch (wait.match) {
    case shmem::Match::all:
      return fmt::format("{} to be {} {:#x}, sees {:#x}", slot, sign_of(wait.compare), wait.value, seen);
    case shmem::Match::any:
      return fmt::format("any of {} slots from {} on to be {} {:#x}", wait.slots.size(), slot, sign_of(wait.compare),
                         wait.value);
    case shmem::Match::sum:
      return fmt::format("the sum of {} slots from {} on to be at least {:#x}", wait.slots.size(), slot, wait.value);
  }
  return slot;
}

}  // namespace shmoe::apps
