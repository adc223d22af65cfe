#pragma once
// How a core waits for flag words, and how whoever writes one wakes it.
//
//   slot, 32 B:   | word 0-7 | sequence 8-11 | sleepers 12-15 | unused |
//
// The bell (sequence, sleepers) lies beside the word it belongs to, so a signal wakes only those who sleep on that word.
// A waiter climbs a ladder: spin, yield, sleep on the bell. Asleep, it asks its overseer a few times a second whether
// there is still something to wait for, and answers whoever wants to know whether it really still waits.

#include "shmem/fabric.hpp"
#include "shmem/futex.hpp"
#include "shmem/peers.hpp"

namespace shmoe::shmem {

/// What a core is doing, for its wait record and for messages.
struct Activity {
  std::string op;
  Round round;
  Core core;
};

bool satisfies(Compare compare, std::uint64_t seen, std::uint64_t value);

/// The one rank whose signal can end a wait on the slot, or nothing where several may.
std::optional<Rank> awaited_writer(const SlotPlan& plan, Slot slot, Rank owner, Compare compare, std::uint64_t value);

/// Order:   whoever sees the word sees everything this thread wrote before.
void store_word(std::byte* slot, SignalOp op, std::uint64_t value);
/// Wakes who sleeps on the slot.
/// Order:   a full fence lies between the store of the word and this.
void ring(std::byte* slot, Sharing sharing);
/// Both, with the fence.
/// Order:   the word is stored before sleepers are woken; whoever sees it sees everything this thread wrote before.
void store_and_ring(std::byte* slot, SignalOp op, std::uint64_t value, Sharing sharing);

/// The cores of a member that sleep look at their slots, and whether somebody wants to know something, now and not in their
/// next tick. Whoever falls asleep meanwhile may miss it. `peers` has `controls`.
void wake_waiters(const Peers& peers, Rank member);

/// Order:   acquires the word.
std::uint64_t load_slot(const Peers& peers, Rank owner, Slot slot);
/// Of a word that is no slot.
/// Order:   none.
std::uint64_t load_word(const Peers& peers, Rank owner, Offset at);

class Waiter {
 public:
  Waiter(const Peers& peers, WaitRecord& record, WaitList& list, EventRing& ring, Sharing sharing)
      : peers_(&peers), record_(&record), list_(&list), ring_(&ring), sharing_(sharing) {}

  /// Match::all: each slot compared true at some moment of the wait, in ascending order.
  /// Order:   acquires every word that satisfied it.
  /// Errors:  what the overseer says; deadline.
  Result<Arrival> wait(const WaitSpec& spec, const Activity& activity, SourceSite site);
  /// One look at the words.
  /// Order:   acquires every word that satisfied it.
  [[nodiscard]] std::optional<Arrival> test(const WaitSpec& spec) const;

 private:
  struct Progress {
    std::size_t done = 0;      // all: slots seen true so far
    std::size_t blocking = 0;  // index of a slot that is not satisfied
    std::uint64_t seen = 0;
  };

  [[nodiscard]] std::byte* place(const WaitSpec& spec, std::size_t index) const;
  bool satisfied(const WaitSpec& spec, Progress& progress, Arrival& arrival) const;
  bool all(const WaitSpec& spec, Progress& progress, Arrival& arrival) const;
  bool any(const WaitSpec& spec, Progress& progress, Arrival& arrival) const;
  bool sum(const WaitSpec& spec, Progress& progress, Arrival& arrival) const;
  void write_event(EventKind kind, std::uint64_t value, const WaitSpec& spec, const Activity& activity,
                   SourceSite site);
  void write_record(const WaitSpec& spec, const Progress& progress, const Activity& activity, SourceSite site);
  Result<Arrival> sleep(const WaitSpec& spec, Progress& progress, const Activity& activity, SourceSite site);
  bool sleep_once(const WaitSpec& spec, Progress& progress, Arrival& arrival, Time limit) const;

  const Peers* peers_;
  WaitRecord* record_;
  WaitList* list_;
  EventRing* ring_;
  Sharing sharing_;
};

}  // namespace shmoe::shmem
