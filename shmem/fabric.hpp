#pragma once
// The one interface every protocol goes through. Operators hold a Context, a Context holds a Fabric; processes over
// mapped segments, threads over plain memory, delayed delivery and the interleaving checker are bodies of it.

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "shmem/result.hpp"
#include "shmem/signal.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

using Time = std::chrono::nanoseconds;  // since an arbitrary start; virtual in the checker

enum class Match : std::uint8_t {
  all,  // every slot compares true
  any,  // at least one does
  sum,  // the sum of the slots lies in [value, upper]
};

/// What a wait waits for.
struct WaitSpec {
  Rank where;                   // whose memory the slots are in: own or remote
  std::span<const Slot> slots;  // at least one
  Match match = Match::all;
  Compare compare = Compare::at_least;
  std::uint64_t value = 0;
  std::uint64_t upper = std::numeric_limits<std::uint64_t>::max();
  std::optional<Time> deadline = {};       // on Fabric::now()
  std::span<std::uint64_t> observed = {};  // as long as `slots`: the words that satisfied the wait
};

/// What a satisfied wait saw.
struct Arrival {
  std::size_t index = 0;    // any: the slot that satisfied it
  std::uint64_t value = 0;  // that slot's word; sum: the sum
};

enum class Access : std::uint8_t { read, write };

struct ActorEvent {
  enum class Kind : std::uint8_t { start, stop, enter, leave };
  Kind kind = Kind::start;
  std::string_view op;  // enter: the operator
  Round round;          // enter: its round
  std::int32_t block = 0;
  std::int32_t blocks = 0;  // of the launch, of which this core runs `block`; 0: the same as before
};

/// Everything a protocol may do to the world outside its core. Stable: operators, decorators and bodies may rely on it.
/// One object a core, never called concurrently.
///
/// Units:   ranks are ranks of the communicator, offsets count from its block
/// Order:   put and signal to one rank are unordered until fence; to different ranks until quiet. put_signal orders its
///          own payload only. wait returns after the stores that preceded the observed signal are readable.
/// Errors:  only wait fails: peer_lost, aborted, deadline, or deadlock, proven. A rank,
///          slot or range that does not exist, or a signal by an undeclared writer, breaks the contract.
class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  virtual void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) = 0;
  /// Complete on return.
  virtual void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) = 0;

  /// A peer's memory in place, or an empty span where it cannot be reached: then get and put serve.
  /// Order:   open and close are the read (write) event; nothing that may block in between.
  virtual std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) = 0;
  virtual void close_read(Rank src, Offset at, Bytes size, SourceSite site) = 0;
  virtual std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) = 0;
  virtual void close_write(Rank dst, Offset at, Bytes size, SourceSite site) = 0;

  virtual void signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) = 0;
  /// The same signal to several ranks, in no order between them; a body may do better than one after the other.
  virtual void signal_each(std::span<const Rank> dsts, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) {
    for (const Rank dst : dsts) signal(dst, slot, op, value, site);
  }
  virtual void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op,
                          std::uint64_t value, SourceSite site) = 0;

  /// Order:   earlier puts and signals to dst before later ones to dst.
  virtual void fence(Rank dst, SourceSite site) = 0;
  /// Order:   all earlier puts and signals of this core, to any rank, are complete on return.
  virtual void quiet(SourceSite site) = 0;

  /// The only blocking act.
  virtual Result<Arrival> wait(const WaitSpec& spec, SourceSite site) = 0;
  /// Order:   a satisfied test orders like a wait.
  virtual std::optional<Arrival> test(const WaitSpec& spec, SourceSite site) = 0;

  /// "I now read (write) this place of mine": nothing in real memory, the race detector's hook in the checker.
  virtual void touch(Access access, Rank owner, Offset at, Bytes size, SourceSite site) = 0;
  virtual void actor(const ActorEvent& event, SourceSite site) = 0;
  virtual Time now() = 0;
};

}  // namespace shmoe::shmem
