#pragma once
// Shared memory that goes away under a running job. A page behind the new end of an object that somebody has shrunk, or
// one that was never committed while /dev/shm is full, raises SIGBUS where it is touched; the process would die without a
// word, and its peers would wait. The handler here says whose memory it was, gives up for the job, and ends the process.
//
// What the handler reads belongs to the process and not to a World, because nobody can pass anything to a handler: a table
// of pointers to what the objects of a job are, written by BusErrorWatch. The handler takes no lock and allocates nothing.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shmem/last_words.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

/// Exit code of a process whose shared memory went away.
inline constexpr int kExitMemoryLost = 87;

namespace detail {
struct Watched;
}

/// Shared objects of a job as mapped in this process, and what its peers are told when one of them goes away.
struct WatchedMemory {
  struct Place {
    const std::byte* at = nullptr;
    Bytes size{0};
    Rank owner;
    const char* object = "";  // ".mem", ".ctl"; a literal
    Offset from{0};           // where in the object the place begins
  };
  /// Of a communicator: 8-byte words that take `word`, after the own text has been written.
  struct GiveUp {
    std::byte* text = nullptr;
    std::vector<std::byte*> words = {};  // of all members
    std::uint64_t word = 0;
  };

  std::optional<Rank> self = {};  // nothing: this process only looks
  std::vector<Place> places = {};
  std::vector<LastWords*> last_words = {};  // by rank: who tells for all
  std::optional<GiveUp> give_up = {};
};

/// While this lives, a SIGBUS in one of the places ends the process with kExitMemoryLost and one line on stderr: whose
/// memory, where, why, and what to do. One rank of the job prints it; the others that touch the memory end silently, and
/// those that do not find their communicators aborted. Any other SIGBUS goes to whoever handled it before. A child that
/// was forked from this process is not watched.
///
/// Order:   the reason is readable by whoever sees the abort.
/// Errors:  none; more than kMostWatched at a time are not watched.
class BusErrorWatch {
 public:
  static constexpr std::size_t kMostWatched = 1024;

  BusErrorWatch();
  explicit BusErrorWatch(WatchedMemory memory);
  BusErrorWatch(BusErrorWatch&&) noexcept;
  BusErrorWatch& operator=(BusErrorWatch&& other) noexcept;
  ~BusErrorWatch();

 private:
  std::unique_ptr<detail::Watched> watched_;  // in the table of the handler, or nothing
};

}  // namespace shmoe::shmem
