// The last events of a core, read while it goes on.

#include "shmem/event_ring.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>

using namespace shmoe;
using namespace shmoe::shmem;

namespace {

Event numbered(std::uint64_t number) {
  Event event{.time_ns = static_cast<std::int64_t>(number),
              .value = 3 * number,
              .round = Round{number / 7},
              .rank = Rank{number % 5},
              .slot = Slot{number % 11},
              .count = static_cast<std::uint16_t>(number % 13),
              .kind = EventKind::add,
              .line = static_cast<std::uint32_t>(number)};
  event.set_text(std::to_string(number));
  return event;
}

void check_is(const Event& event, std::uint64_t number) {
  const Event expected = numbered(number);
  CHECK(event.time_ns == expected.time_ns);
  CHECK(event.value == expected.value);
  CHECK(event.round == expected.round);
  CHECK(event.rank == expected.rank);
  CHECK(event.slot == expected.slot);
  CHECK(event.count == expected.count);
  CHECK(event.kind == EventKind::add);
  CHECK(event.line == expected.line);
  CHECK(event.text == expected.text);
}

}  // namespace

TEST_CASE("event ring: the newest events, oldest first, as many as there are") {
  const auto ring = std::make_unique<EventRing>();
  CHECK(ring->last(10).empty());
  for (std::uint64_t number = 0; number < 600; ++number) {
    ring->write(numbered(number));
    CHECK(ring->written() == number + 1);
    for (const std::uint64_t most : {1ULL, 3ULL, 255ULL, 1000ULL}) {
      CAPTURE(number);
      CAPTURE(most);
      const std::vector<Event> events = ring->last(most);
      // Of a full ring the oldest may be the one that is being overwritten.
      const std::uint64_t expected = std::min({most, number + 1, EventRing::kEvents - 1});
      REQUIRE(events.size() == expected);
      check_is(events.front(), number + 1 - expected);
      check_is(events.back(), number);
    }
  }
}

TEST_CASE("event ring: long names are cut") {
  Event event;
  event.set_text("an operator with a name that does not fit");
  CHECK(std::string(event.text.data()) == "an operator with a name");
}

TEST_CASE("event ring: whoever reads while events are written sees whole events in a row") {
  const auto ring = std::make_unique<EventRing>();
  std::atomic<bool> ends = false;
  std::thread core([&] {
    for (std::uint64_t number = 0; !ends.load(); ++number) ring->write(numbered(number));
  });
  std::uint64_t seen = 0;
  for (int look = 0; look < 2000 || seen < 1000; ++look) {
    const std::vector<Event> events = ring->last(EventRing::kEvents);
    bool whole = true;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const auto number = static_cast<std::uint64_t>(events[i].time_ns);
      const Event expected = numbered(number);
      whole &= events[i].value == expected.value && events[i].text == expected.text &&
               events[i].line == expected.line && (i == 0 || events[i].time_ns == events[i - 1].time_ns + 1);
    }
    CHECK(whole);
    seen += events.size();
  }
  ends = true;
  core.join();
}
