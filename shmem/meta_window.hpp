#pragma once
// The first bytes of all blocks once more, side by side.
//
//   as mapped    | meta 0 | ipc window, heap ......... | meta 1 | ipc window, heap ......... | meta 2 |
//   once more    | meta 0 | meta 1 | meta 2 |
//
// Flags and cards are what every rank touches on every peer. Far apart, each costs a walk through page tables of its own:
// at 384 ranks on one machine that is half of a barrier.

#include <memory>
#include <span>

#include "shmem/addresses.hpp"
#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

class MetaWindow {
 public:
  /// `blocks`: mappings of shared objects, by rank. `size`: whole 2-MiB areas.
  /// Errors:  system where there are no addresses or mappings to be had.
  static Result<MetaWindow> map(std::span<std::byte* const> blocks, Bytes size);

  [[nodiscard]] Bytes size() const { return size_; }
  [[nodiscard]] std::byte* of(Rank rank) const { return addresses_.data() + rank.index() * size_.value(); }

 private:
  MetaWindow(Addresses addresses, Bytes size) : addresses_(std::move(addresses)), size_(size) {}
  Addresses addresses_;
  Bytes size_;
};

}  // namespace shmoe::shmem
