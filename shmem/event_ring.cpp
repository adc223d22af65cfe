#include "shmem/event_ring.hpp"

#include <algorithm>
#include <bit>

namespace shmoe::shmem {

std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::enter: return "enter";
    case EventKind::leave: return "leave";
    case EventKind::set: return "set";
    case EventKind::add: return "add";
    case EventKind::fence: return "fence";
    case EventKind::quiet: return "quiet";
    case EventKind::wait_begin: return "wait begin";
    case EventKind::wait_end: return "wait end";
    case EventKind::wait_failed: return "wait failed";
  }
  return "unknown";
}

// Released word by word: whoever reads a word of this event sees how many were written before it, so that the event whose
// place it takes is known to be gone.
void EventRing::write(const Event& event) {
  const std::uint64_t number = head_.load(std::memory_order_relaxed);
  const auto words = std::bit_cast<std::array<std::uint64_t, 8>>(event);
  Words& place = events_[number % kEvents];
  for (std::size_t i = 0; i < words.size(); ++i) place[i].store(words[i], std::memory_order_release);
  head_.store(number + 1, std::memory_order_release);
}

std::vector<Event> EventRing::last(std::uint64_t most) const {
  std::vector<Event> events;
  const std::uint64_t end = written();
  const std::uint64_t first = end - std::min({end, most, kEvents});
  for (std::uint64_t number = first; number < end; ++number) {
    std::array<std::uint64_t, 8> words{};
    const Words& place = events_[number % kEvents];
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = place[i].load(std::memory_order_acquire);
    events.push_back(std::bit_cast<Event>(words));
  }
  // The one that is being written now lies where the oldest of a full ring was.
  const std::uint64_t now = written();
  const std::uint64_t oldest = now - std::min(now, kEvents - 1);
  if (oldest > first)
    events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(std::min(oldest, end) - first));
  return events;
}

}  // namespace shmoe::shmem
