#pragma once
// The detour collectives as published: the ipc window is cut into a slot for each pair of ranks, each slot into two halves
// by the parity of the magic, each half into 2 MiB of flags and the data; nothing keeps a rank back but the flags.
//
//   slot of s -> d:   (N s + d) * S, S = window / N^2      at the same place in every rank's window
//   half of magic m:  + (m mod 2) * S / 2
//   flag of s:        + 32 s          written with the data, by the sender, in whoever's memory the shard lies
//   data:             + 2 MiB
//   progress of r:    slot of r -> r + 32 * 48 + 32 (N + r), one for all cores that reduce
//
// The faithful profiles run this. It has the published holes: a group that changes (H3), a rank that skips a call (H2), a
// group of one in a reduce-scatter (H5), too few cores (H6). Slots that do not fit, or do not lie at multiples of 64 bytes,
// are refused (H8, H9, H10): there the published kernels leave their memory.
//
// Source: all_to_all_detour and reduce_scatter_detour of the published operators.

#include <string>

#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "shmem/signal.hpp"

namespace shmoe::ops {

/// Where a window of so many bytes has its slots.
class PublishedSlots {
 public:
  PublishedSlots(Bytes window, std::int32_t ranks) : ranks_(ranks), slot_(window.value() / square(ranks)) {}

  /// S
  [[nodiscard]] Bytes size() const { return Bytes{slot_}; }
  [[nodiscard]] Bytes half() const { return Bytes{slot_ / 2}; }
  [[nodiscard]] Bytes slot(Rank source, Rank target, std::uint64_t magic) const {
    return Bytes{(source.index() * static_cast<std::uint64_t>(ranks_) + target.index()) * slot_ +
                 magic % 2 * half().value()};
  }
  [[nodiscard]] Bytes flag(Rank source, Rank target, std::uint64_t magic) const {
    return slot(source, target, magic) + Bytes{shmem::kSlotStride * source.index()};
  }
  [[nodiscard]] Bytes data(Rank source, Rank target, std::uint64_t magic) const {
    return slot(source, target, magic) + kFlagBytes;
  }
  [[nodiscard]] Bytes progress(Rank rank, std::uint64_t magic) const {
    return slot(rank, rank, magic) +
           Bytes{shmem::kSlotStride * (kLaunched + static_cast<std::uint64_t>(ranks_) + rank.index())};
  }
  /// Why calls with so many bytes in a slot are refused; empty where they are not.
  [[nodiscard]] std::string fault(Bytes payload) const;

 private:
  static constexpr Bytes kFlagBytes{2 * shmem::kMiB};
  static constexpr std::uint64_t kLaunched = 48;  // cores, of which the place of the progress flags counts all
  static std::uint64_t square(std::int32_t ranks) {
    return static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(ranks);
  }

  std::int32_t ranks_;
  std::uint64_t slot_;
};

/// Adds the flags of all pairs and halves to a plan, in the ipc window; none where they would not lie at multiples of 32
/// bytes. To be called in Config::declare_slots by a job of a faithful profile.
void declare_published_detours(shmem::SlotPlan& plan, const shmem::BlockMap& map);

/// What the published host would count for this round.
constexpr std::uint64_t published_magic(Round round) { return 1 + round.value() % ((std::uint64_t{1} << 30) - 1); }

/// Order:   flags only; see above
void published_all_to_all(runtime::CoreContext& context, const AllToAllArgs& args, const DetourCall& call);
/// Order:   flags only; see above
void published_reduce_scatter(runtime::CoreContext& context, const ReduceScatterArgs& args, const DetourCall& call);

/// What is wrong with a call in a faithful profile; `accumulator`: bytes that the slot of a rank with itself must hold.
std::string published_fault(const runtime::Communicator& comm, const DetourCall& call, Bytes accumulator);

}  // namespace shmoe::ops
