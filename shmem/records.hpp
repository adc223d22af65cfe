#pragma once
// What a rank writes about itself in its `.ctl` segment, for peers and inspectors to read.
//
//   +0     header      4 KiB     identity and shape of the job; version last
//          per communicator block:
//          wait records  128 B x (C + 1)   one per core, then the host thread's, which nothing writes yet
//          wait lists    576 B x C         slots of waits for any of several
//          ledger         64 B x entries   one per (destination, slot) this rank may write; of slots that all its cores
//                                          add to, one per core; of credits, one per side
//          membership     64 B             who this rank is in the communicator, and what its heap holds
//          members        4 B x ranks      world ranks, in group order
//          event rings   16.1 KiB x C      the last 256 events of each core
//
// Every word is atomic, but a record is many words. What a wait record says of a wait belongs together while `epoch` is odd
// and stays the same, except `slot`, which moves on meanwhile. `op` and ledger entries are under no such lock: a reader may
// see words of two operators or signals. An entry is written after the word it tells of, so it may lag the slot by one signal.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "shmem/event_ring.hpp"
#include "shmem/layout.hpp"
#include "shmem/signal.hpp"

namespace shmoe::shmem {

/// Bytes as atomic words, so that a racing reader sees old or new words and never undefined behaviour.
template <std::size_t Words>
class alignas(8) RecordBytes {
 protected:
  using Buffer = std::array<char, 8 * Words>;

  void store_words(const Buffer& buffer) {
    for (std::size_t i = 0; i < Words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, buffer.data() + 8 * i, 8);
      words_[i].store(word, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] Buffer load_words() const {
    Buffer buffer;
    for (std::size_t i = 0; i < Words; ++i) {
      const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(buffer.data() + 8 * i, &word, 8);
    }
    return buffer;
  }

 private:
  std::atomic<std::uint64_t> words_[Words];
};

/// Up to 27 characters and a number.
class RecordText : RecordBytes<4> {
 public:
  void store(const char* text, std::uint32_t number) {
    Buffer buffer{};
    std::memcpy(buffer.data(), text, std::min<std::size_t>(std::strlen(text), 27));
    std::memcpy(buffer.data() + 28, &number, sizeof number);
    store_words(buffer);
  }
  [[nodiscard]] std::string text() const {
    Buffer buffer = load_words();
    buffer[27] = '\0';
    return buffer.data();
  }
  [[nodiscard]] std::uint32_t number() const {
    std::uint32_t number = 0;
    std::memcpy(&number, load_words().data() + 28, sizeof number);
    return number;
  }
};

/// Up to 23 characters.
class RecordName : RecordBytes<3> {
 public:
  void store(std::string_view text) {
    Buffer buffer{};
    text.copy(buffer.data(), buffer.size() - 1);
    store_words(buffer);
  }
  [[nodiscard]] std::string text() const {
    Buffer buffer = load_words();
    buffer.back() = '\0';
    return buffer.data();
  }
};

/// One actor's current wait. `epoch` is odd while it waits and grows on entry and on exit.
struct alignas(128) WaitRecord {
  std::atomic<std::uint64_t> epoch;
  std::atomic<std::uint64_t> value;  // expected
  std::atomic<std::uint64_t> round;  // of the operator, and of the wait
  std::atomic<std::int64_t> since_ns;
  std::atomic<std::uint32_t> slot;   // the first slot that is not satisfied
  std::atomic<std::uint32_t> count;  // slots in the wait
  std::atomic<std::int32_t> where;   // rank whose memory is polled
  std::atomic<std::uint8_t> match;
  std::atomic<std::uint8_t> compare;
  std::atomic<std::uint8_t> life;         // Life
  std::atomic<std::uint8_t> may_give_up;  // the wait has a deadline of its own
  std::atomic<std::uint32_t> progress;    // operators entered and left; wraps
  std::atomic<std::uint16_t> block;       // of the launch, the one this core runs now; its next ones come afterwards
  std::atomic<std::uint16_t> blocks;      // of the launch
  std::atomic<std::uint64_t> launches;    // begun, this one counted
  std::atomic<std::uint64_t> echo;        // the Challenge after which the core last looked in vain
  RecordName op;                          // under no lock; empty between operators
  RecordText site;
};
static_assert(sizeof(WaitRecord) == 128);
static_assert(offsetof(WaitRecord, slot) == 32);
static_assert(offsetof(WaitRecord, progress) == 48);
static_assert(offsetof(WaitRecord, op) == 72);
static_assert(offsetof(WaitRecord, site) == 96);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Of a wait for any of several slots, or for their sum, which slots. Of longer ones nobody but the waiter knows all.
struct alignas(64) WaitList {
  static constexpr std::size_t kLongest = 128;
  std::atomic<std::uint64_t> upper;  // of a sum
  std::atomic<std::uint32_t> slots[kLongest];
};
static_assert(sizeof(WaitList) == 576);

/// In a rank's `.mem`. Whoever suspects that the rank's waits are stuck writes a number that was never there before; each
/// waiting core repeats it in its record when it has looked once more in vain.
struct alignas(32) Challenge {
  std::atomic<std::uint64_t> number;
};
static_assert(sizeof(Challenge) == 32);

enum class Life : std::uint8_t {
  absent,
  running,  // in an operator
  parked,   // between operators
  ended,
};

/// What this rank last sent to one (destination, slot). A fabric that holds writes back says so here: who waits for such a
/// signal waits for its sender to complete it.
struct alignas(64) LedgerEntry {
  std::atomic<std::uint64_t> count;  // delivered
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> round;
  std::atomic<std::uint32_t> core;
  std::atomic<std::uint32_t> held;  // sent as well, and not delivered
  RecordText site;
};
static_assert(sizeof(LedgerEntry) == 64);
static_assert(offsetof(LedgerEntry, site) == 32);

/// What a rank says of a communicator as a whole. All zeros until it has made it.
struct alignas(64) Membership {
  std::atomic<std::uint32_t> size;  // members; written after `rank`
  std::atomic<std::int32_t> rank;   // this one in the communicator
  std::atomic<std::uint64_t> heap_used;
  std::atomic<std::uint64_t> heap_blocks;
  std::atomic<std::uint64_t> heap_largest_free;
  std::atomic<std::uint64_t> made;  // in the first block: a bit for each communicator that this rank has made
};
static_assert(sizeof(Membership) == 64);

inline constexpr std::uint64_t kControlHeaderBytes = 4096;

/// A SlotFamily as written in the header.
struct HeaderFamily {
  std::array<char, 24> name;
  std::uint64_t base;
  std::uint32_t buffers;
  std::uint32_t sources;
  std::uint32_t events;
  std::uint8_t writers;
  std::uint8_t op;
  std::uint16_t reserved;
};
static_assert(sizeof(HeaderFamily) == 48);

/// The start of a `.ctl`: enough for an inspector to find everything in it and in the `.mem`. A reader that sees the version
/// sees the rest.
struct ControlHeader {
  static constexpr std::size_t kMostFamilies = 80;

  std::int32_t rank;
  std::int32_t ranks;
  std::int64_t pid;
  std::uint64_t memory_bytes;
  std::atomic<std::uint32_t> version;  // written last; at this place in every version
  std::int32_t cores;
  std::uint64_t job;       // the same of all ranks of a job, of two jobs hardly ever
  std::int64_t begun_ns;   // steady clock
  std::uint64_t ipc_data;  // bytes, as those of the heap
  std::uint64_t heap;
  std::int32_t communicators;
  std::uint8_t profile;  // ProfileId
  std::array<std::uint8_t, 3> reserved;
  std::uint32_t families;  // declared; no more than kMostFamilies are told
  std::uint32_t reserved_too;
  std::array<HeaderFamily, kMostFamilies> family;
};
static_assert(sizeof(ControlHeader) <= kControlHeaderBytes);
static_assert(offsetof(ControlHeader, version) == 24);
static_assert(offsetof(ControlHeader, family) == 80);

/// Where one communicator's block of a `.ctl` lies, relative to the first block.
struct ControlMap {
  std::int32_t cores = 1;
  std::uint32_t ledger_entries = 0;
  std::int32_t ranks = 1;  // of the job

  [[nodiscard]] constexpr Bytes size() const {
    return Bytes{round_up(rings_at() + sizeof(EventRing) * static_cast<std::uint64_t>(cores), 4096)};
  }
  [[nodiscard]] WaitRecord& record(std::byte* block, Core core) const {
    return *reinterpret_cast<WaitRecord*>(block + sizeof(WaitRecord) * core.index());
  }
  [[nodiscard]] WaitList& list(std::byte* block, Core core) const {
    return *reinterpret_cast<WaitList*>(block + lists_at() + sizeof(WaitList) * core.index());
  }
  [[nodiscard]] LedgerEntry& ledger(std::byte* block, std::uint32_t index) const {
    return *reinterpret_cast<LedgerEntry*>(block + ledger_at() + sizeof(LedgerEntry) * index);
  }
  [[nodiscard]] Membership& membership(std::byte* block) const {
    return *reinterpret_cast<Membership*>(block + membership_at());
  }
  /// World ranks, in group order. Written before Membership::size.
  [[nodiscard]] std::atomic<std::int32_t>& member(std::byte* block, Rank rank) const {
    return *reinterpret_cast<std::atomic<std::int32_t>*>(block + members_at() + sizeof(std::int32_t) * rank.index());
  }
  [[nodiscard]] EventRing& ring(std::byte* block, Core core) const {
    return *reinterpret_cast<EventRing*>(block + rings_at() + sizeof(EventRing) * core.index());
  }

 private:
  [[nodiscard]] constexpr std::uint64_t lists_at() const {
    return sizeof(WaitRecord) * (static_cast<std::uint64_t>(cores) + 1);
  }
  [[nodiscard]] constexpr std::uint64_t ledger_at() const {
    return lists_at() + sizeof(WaitList) * static_cast<std::uint64_t>(cores);
  }
  [[nodiscard]] constexpr std::uint64_t membership_at() const {
    return ledger_at() + sizeof(LedgerEntry) * ledger_entries;
  }
  [[nodiscard]] constexpr std::uint64_t members_at() const { return membership_at() + sizeof(Membership); }
  [[nodiscard]] constexpr std::uint64_t rings_at() const {
    return round_up(members_at() + sizeof(std::int32_t) * static_cast<std::uint64_t>(ranks), 64);
  }
};

}  // namespace shmoe::shmem
