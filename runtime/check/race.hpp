#pragma once
// Finds accesses that nothing orders. One schedule in which they merely occur is enough: it asks whether an order exists,
// not which came first.
//
// A clock says how far a core knows what the others did:
//     per core      events up to its n-th signal
//     per channel   puts known to have landed
// A signal carries its core's clock; of its own channel it adds the puts before the last fence, of other channels only
// what the core has quieted. That restriction is the fence check. A wait joins the clock of the word it saw.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/check/memory.hpp"
#include "runtime/diagnosis/verdict.hpp"
#include "shmem/fabric.hpp"

namespace shmoe::runtime::check {

/// What was found; the text names both accesses and what would have ordered them.
struct Race {
  VerdictKind kind;
  std::string text;
  Conflict conflict;
};

class RaceDetector {
 public:
  RaceDetector(std::int32_t ranks, std::int32_t cores);

  /// `core` numbers the cores of all ranks. Own memory is written at once, other memory through the channel.
  [[nodiscard]] std::optional<Race> on_write(std::size_t core, Rank owner, Offset at, Bytes size, SourceSite site);
  [[nodiscard]] std::optional<Race> on_read(std::size_t core, Rank owner, Offset at, Bytes size, const Memory& memory,
                                            SourceSite site);

  void on_fence(std::size_t core, Rank dst);
  void on_quiet(std::size_t core);

  /// What a signal carries. `payload`: the put before it is its own.
  [[nodiscard]] Stamp on_signal(std::size_t core, Rank dst, bool payload, SourceSite site);
  void on_landing(Rank owner, Slot slot, shmem::SignalOp op, Stamp stamp);
  /// A wait or a test was satisfied by the slot.
  void on_seen(std::size_t core, Rank owner, Slot slot, SourceSite site);

  /// The cores of a launch start after `host`, and `host` goes on after they have ended.
  void on_fork(std::size_t host, std::size_t core);
  void on_join(std::size_t host, std::size_t core);

  void reset();

 private:
  static constexpr std::uint32_t kLocal = 0xFFFF'FFFFU;

  /// A write: by a core to its own memory, or the n-th put of a channel.
  struct Write {
    std::uint32_t core = 0;
    std::uint32_t channel = kLocal;
    std::uint64_t position = 0;  // of the channel
    std::uint64_t tick = 0;      // of the core
    SourceSite site;
  };
  struct Read {
    std::uint32_t core = 0;
    std::uint64_t tick = 0;
    SourceSite site;
  };
  struct Cell {
    std::uint64_t end = 0;
    std::optional<Write> write;
    std::optional<Write> before;  // the write that it replaced
    std::vector<Read> reads;      // at most one a core
  };
  using Cells = std::map<std::uint64_t, Cell>;  // by first byte, disjoint

  /// A put of a channel that is known although earlier ones are not: the payload of a put_signal.
  struct Payload {
    std::uint32_t channel;
    std::uint64_t position;
    bool operator==(const Payload&) const = default;
  };
  struct Clock {
    std::vector<std::uint64_t> known;  // cores, then channels
    std::vector<Payload> payloads;
    void join(const Clock& other);
  };
  /// What a signal carried, and where it was sent.
  struct Sent {
    Clock clock;
    std::uint32_t core = 0;
    std::uint64_t tick = 0;
    SourceSite site;
  };
  struct Heard {
    bool any = false;
    std::uint64_t tick = 0;
    SourceSite sent;
    SourceSite seen;
  };
  struct SlotClock {
    std::uint64_t run = 0;
    Clock clock;
    std::vector<Stamp> stamps;
  };

  [[nodiscard]] bool knows(std::size_t core, const Write& write) const;
  [[nodiscard]] bool knows(std::size_t core, const Read& read) const;
  [[nodiscard]] std::string name(std::size_t core) const;
  [[nodiscard]] std::string place(Rank owner, std::uint64_t first, std::uint64_t end) const;
  [[nodiscard]] Conflict::Side side(std::size_t core, bool writes, SourceSite site) const {
    return {.rank = Rank{core / cores_}, .core = Core{core % cores_}, .writes = writes, .site = site};
  }
  static Conflict conflict(Rank owner, const Cells::value_type& cell, Conflict::Side first, Conflict::Side second) {
    return {.owner = owner,
            .at = Offset{cell.first},
            .size = Bytes{cell.second.end - cell.first},
            .first = first,
            .second = second};
  }
  /// The core has waited for something that the writer sent after the write.
  [[nodiscard]] bool heard_after(std::size_t core, const Write& write) const;
  [[nodiscard]] Race read_race(std::size_t core, Rank owner, const Cells::value_type& cell, const Memory& memory,
                               SourceSite site) const;
  [[nodiscard]] std::string remedy(std::size_t reader, const Write& write) const;
  [[nodiscard]] std::uint64_t& channel_known(std::size_t core, std::size_t channel) {
    return clocks_[core].known[actors_ + channel];
  }
  /// The cells of exactly [first, end), split at the edges and made where there are none.
  std::span<Cells::iterator> cells(Rank owner, std::uint64_t first, std::uint64_t end);
  SlotClock& slot(Rank owner, Slot slot);

  std::size_t ranks_;
  std::size_t cores_;
  std::size_t actors_;
  std::uint64_t run_ = 1;
  std::vector<Clock> clocks_;          // per core
  std::vector<std::uint64_t> issued_;  // per channel
  std::vector<std::uint64_t> fenced_;  // per channel
  std::vector<Sent> sent_;             // by stamp
  std::size_t sent_count_ = 0;
  std::vector<Heard> heard_;                   // [core][source core]
  std::vector<Cells> memory_;                  // per rank
  std::vector<std::vector<SlotClock>> slots_;  // per rank
  std::vector<Cells::iterator> touched_;
};

}  // namespace shmoe::runtime::check
