#include "runtime/diagnosis/last_step.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

namespace shmoe::runtime {
namespace {

using shmem::Event;
using shmem::EventKind;

struct Step {
  Core core;
  Event event;
  std::string op;
};

std::string text_in(const Event& event) {
  std::string text(event.text.begin(), event.text.end());
  return text.substr(0, text.find('\0'));
}

std::optional<Step> last_of(const shmem::Peers& peers, Rank member, Core core) {
  std::byte* control = peers.controls[member.index()];
  const std::vector<Event> events = peers.control_map.ring(control, core).last(shmem::EventRing::kEvents);
  if (events.empty()) return std::nullopt;
  const auto entry =
      std::find_if(events.rbegin(), events.rend(), [](const Event& event) { return event.kind == EventKind::enter; });
  // A long operator has overwritten its entry, but not its name in the record.
  return Step{.core = core,
              .event = events.back(),
              .op = entry == events.rend() ? peers.control_map.record(control, core).op.text() : text_in(*entry)};
}

std::optional<Step> newest(const shmem::Peers& peers, Rank member) {
  std::optional<Step> newest;
  for (Core core{0}; core.value() < peers.control_map.cores; ++core) {
    std::optional<Step> step = last_of(peers, member, core);
    if (step && (!newest || step->event.time_ns > newest->event.time_ns)) newest = std::move(step);
  }
  return newest;
}

std::string slots_in(const Event& event, const shmem::SlotPlan& slots) {
  const std::string first = slots.describe(event.slot);
  return event.count > 1 ? fmt::format("{} and {} more", first, event.count - 1) : first;
}

std::string deed(const Event& event, const shmem::SlotPlan& slots) {
  switch (event.kind) {
    case EventKind::enter:
    case EventKind::leave: return {};
    case EventKind::set:
    case EventKind::add:
      return fmt::format("signal to {} of rank {}{}", slots.describe(event.slot), event.rank,
                         event.count > 1 ? fmt::format(" and {} more", event.count - 1) : "");
    case EventKind::fence: return fmt::format("fence towards rank {}", event.rank);
    case EventKind::quiet: return "quiet";
    case EventKind::wait_begin: return fmt::format("wait for {}", slots_in(event, slots));
    case EventKind::wait_end: return fmt::format("end of the wait for {}", slots_in(event, slots));
    case EventKind::wait_failed: return fmt::format("failed wait for {}", slots_in(event, slots));
  }
  return "unknown";
}

}  // namespace

std::string last_step(const shmem::Peers& peers, Rank member) {
  if (peers.controls.empty()) return {};
  const std::optional<Step> step = newest(peers, member);
  if (!step) return {};
  const Event& event = step->event;
  std::string what = deed(event, *peers.slots);
  if (!what.empty()) what = fmt::format(", {} at {}:{}", what, text_in(event), event.line);
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
  const std::chrono::duration<double> passed = now - std::chrono::nanoseconds(event.time_ns);
  return fmt::format("core {} {} {} round {}{}, {:.2f} s ago", step->core,
                     event.kind == EventKind::leave ? "after" : "in", step->op, event.round, what, passed.count());
}

}  // namespace shmoe::runtime
