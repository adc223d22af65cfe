// What the rings of a lost rank say.

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/diagnosis/last_step.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using shmem::Event;
using shmem::EventKind;

namespace {

struct Rings {
  shmem::BlockMap map = shmem::block_map(kSafe, {.ranks = 2, .cores = 2, .slots = 2});
  shmem::Peers peers;
  std::vector<std::uint64_t> words;

  Rings() {
    peers.slots = std::make_shared<shmem::SlotPlan>(shmem::SlotPlan::of_block(map));
    peers.control_map = {.cores = 2, .ledger_entries = 0};
    words.resize(2 * peers.control_map.size().value() / 8);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      peers.controls.push_back(reinterpret_cast<std::byte*>(words.data()) + rank * peers.control_map.size().value());
    }
  }

  /// `ago`: milliseconds
  void write(int core, int ago, Event event, std::string_view text) {
    const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
    event.time_ns = (now - std::chrono::milliseconds(ago)).count();
    event.set_text(text);
    peers.control_map.ring(peers.controls[1], Core{core}).write(event);
  }
  /// Without the time, which depends on when it is asked.
  [[nodiscard]] std::string step() const {
    const std::string text = last_step(peers, Rank{1});
    return text.substr(0, text.rfind(", "));
  }
};

}  // namespace

TEST_CASE("the last step of a lost rank is the newest of all its cores") {
  Rings rings;
  CHECK(rings.step().empty());
  rings.write(0, 9000, {.round = Round{7}, .kind = EventKind::enter}, "notify");
  CHECK(rings.step() == "core 0 in notify round 7");
  const Slot barrier = rings.peers.slots->barrier().at(1, Rank{0});
  rings.write(0, 8000, {.round = Round{7}, .slot = barrier, .count = 3, .kind = EventKind::wait_begin, .line = 12},
              "sync.cpp");
  rings.write(1, 8500, {.round = Round{6}, .kind = EventKind::enter}, "notify");
  CHECK(rings.step() == "core 0 in notify round 7, wait for barrier[1] from rank 0 and 2 more at sync.cpp:12");
  rings.write(1, 7000,
              {.round = Round{7}, .rank = Rank{0}, .slot = barrier, .count = 1, .kind = EventKind::set, .line = 9},
              "sync.cpp");
  CHECK(rings.step() == "core 1 in notify round 7, signal to barrier[1] from rank 0 of rank 0 at sync.cpp:9");
  rings.write(1, 6000, {.round = Round{7}, .rank = Rank{0}, .kind = EventKind::fence, .line = 3}, "rows.cpp");
  CHECK(rings.step() == "core 1 in notify round 7, fence towards rank 0 at rows.cpp:3");
  rings.write(1, 5000, {.round = Round{7}, .kind = EventKind::leave, .line = 3}, "communicator.cpp");
  CHECK(rings.step() == "core 1 after notify round 7");
  const std::string text = last_step(rings.peers, Rank{1});
  CHECK(text.ends_with(" s ago"));
  CHECK(std::stod(text.substr(text.rfind(", ") + 2)) >= 5.0);
}

TEST_CASE("an operator with more events than the ring holds is named by the record") {
  Rings rings;
  rings.peers.control_map.record(rings.peers.controls[1], Core{0}).op.store("dispatch_normal");
  rings.write(0, 2000, {.kind = EventKind::enter}, "overwritten");
  for (std::uint64_t i = 0; i <= shmem::EventRing::kEvents; ++i) {
    rings.write(0, 1000, {.round = Round{4}, .kind = EventKind::quiet, .line = 5}, "rows.cpp");
  }
  CHECK(rings.step() == "core 0 in dispatch_normal round 4, quiet at rows.cpp:5");
  rings.peers.controls.clear();
  CHECK(last_step(rings.peers, Rank{1}).empty());
}
