#pragma once
// A job that fails says why once. A launcher may end all ranks as soon as one has left, so nobody leaves before it is
// told: the others stay until the rank that tells has ended.

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "shmem/last_words.hpp"
#include "shmem/result.hpp"

namespace shmoe::runtime {

/// For each thing that a failing rank waits for: that all have failed or ended, that one of them tells, that this one has
/// ended. Whoever lives is heard within a tenth of a second; the rest is for a busy machine.
inline constexpr std::chrono::seconds kTellingLimit{2};

/// What one rank tells for all, another tells after so long: by then a launcher has ended it, unless nobody else failed.
inline constexpr std::chrono::seconds kAloneLimit{5};

using Tell = std::function<void()>;

/// The ranks as a failing one sees them.
struct Witnesses {
  Rank self;
  std::span<shmem::LastWords* const> words;  // of each rank
  std::function<std::optional<std::string>(Rank)> gone;
};

/// Calls `tell` on one of the failing ranks: on the one nearest to the cause, the lowest of several. Each calls this as
/// the last thing it does, and ends.
/// Order:   nothing; returns on the other ranks when the one that tells has ended, or past the limit.
void tell_once(const Witnesses& witnesses, const Error& error, const Tell& tell);

/// Before the ranks have met: of an error that every rank of the job finds alike. Rank 0 tells.
/// Order:   nothing; the others give rank 0 kAloneLimit.
void tell_alike(const Tell& tell);

/// Of an error before or while the ranks meet. The rank that has found it tells; what is between ranks rank 0 tells, and
/// rank 1 where rank 0 is lost.
/// Order:   as tell_alike.
void tell_failed_start(const Error& error, const Tell& tell);

}  // namespace shmoe::runtime
