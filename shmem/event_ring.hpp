#pragma once
// The last things that one core did, for inspectors. Only the core writes; anybody may read meanwhile.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::shmem {

enum class EventKind : std::uint8_t {
  enter = 1,  // an operator; again when it knows its round
  leave,
  set,
  add,
  fence,
  quiet,
  wait_begin,  // of waits that are not satisfied at once
  wait_end,
  wait_failed,
};

std::string_view name_of(EventKind kind);

struct Event {
  std::int64_t time_ns = 0;  // steady clock
  /// set, add: what was sent; fence, quiet: the bytes put since the last quiet; wait_begin: what is expected; wait_end,
  /// wait_failed: what was seen.
  std::uint64_t value = 0;
  Round round = {};
  Rank rank = {};           // set, add, fence: to whom; waits: whose memory
  Slot slot = {};           // set, add, waits: the first one
  std::uint16_t count = 0;  // set, add: destinations, `rank` the first; waits: slots
  EventKind kind = EventKind::enter;
  std::uint8_t reserved = 0;
  std::uint32_t line = 0;
  std::array<char, 24> text = {};  // enter: the operator; else the file

  void set_text(std::string_view name) { name.copy(text.data(), text.size() - 1); }
};
static_assert(sizeof(Event) == 64);

class EventRing {
 public:
  static constexpr std::uint64_t kEvents = 256;

  void write(const Event& event);

  [[nodiscard]] std::uint64_t written() const { return head_.load(std::memory_order_acquire); }
  /// The newest `most`, oldest first; none that was overwritten while it was read.
  [[nodiscard]] std::vector<Event> last(std::uint64_t most) const;

 private:
  using Words = std::array<std::atomic<std::uint64_t>, 8>;

  alignas(64) std::atomic<std::uint64_t> head_;  // events ever written
  alignas(64) std::array<Words, kEvents> events_;
};
static_assert(sizeof(EventRing) == 64 + 64 * EventRing::kEvents);
static_assert((EventRing::kEvents & (EventRing::kEvents - 1)) == 0);

}  // namespace shmoe::shmem
