#pragma once
// The map of one communicator's block in a rank's `.mem` segment. The same on every rank, so an Offset means the same
// place everywhere. S = slots a source rank has in each flag buffer, normally the cores of a rank.
//
//   +0        user data                    100 KB   lessons and users; the published low-latency region lies here too
//   +0x19000  magic slots                  48 x 512 B   {magic, barriers executed} of each core
//   +0x1F000  barrier ping-pong 0 | 1      R x 32 B each
//             flag ping-pong 0 | 1         R x S x 32 B each
//             sync-all slot                64 B     the cores of this rank meet here
//             abort slot                   32 B     who gave up; the reason (256 B) lies behind the last words
//             last words                   32 B     who tells why the job failed
//             call cards 0 | 1             512 B each   what this rank calls, compared in the handshake
//             error text 0 | 1             256 B each   what this rank raises in the handshake
//             roll calls                   one a communicator   who is left of a communicator that has lost a rank
//             low-latency region           (safe only; published: over the first 100 KB and the magic slots)
//   2 MiB     ipc window                   2 MiB of flags, then data (detour collectives)
//   2 MiB     heap                         token rows, expert outputs, user tensors
//
// Source: published map of the zero-buffer sync class; everything from the sync-all slot on is ours.

#include <array>
#include <cstdint>

#include "shmem/profile.hpp"
#include "shmem/roll_call.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

inline constexpr std::uint32_t kLayoutVersion = 5;
inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kPageGranule = 2 * kMiB;
/// Slots lie 32 bytes apart: the word in bytes 0-7, its bell in bytes 8-15.
inline constexpr std::uint64_t kSlotStride = 32;
inline constexpr std::uint64_t kMagicStride = 512;
/// The magic area holds 48 slots; more cores would run into the barrier buffers.
inline constexpr std::int32_t kMaxCores = 48;
inline constexpr std::uint64_t kCardBytes = 512;
inline constexpr std::uint64_t kErrorTextBytes = 256;

/// What the size of a block depends on.
struct BlockShape {
  std::int32_t ranks = 1;
  std::int32_t cores = 1;
  std::int32_t slots = 1;       // S
  std::int32_t experts = 1024;  // room for this many low-latency counts
  std::int32_t communicators = 1;
  Bytes ipc_data{0};
  Bytes heap{0};
};

struct Region {
  Offset at;
  Bytes size;

  [[nodiscard]] constexpr Offset end() const { return at + size; }
  [[nodiscard]] constexpr bool overlaps(const Region& other) const { return at < other.end() && other.at < end(); }
};

/// Every region of a block, by value.
struct BlockMap {
  BlockShape shape;
  Region user_data, magic, barrier, flags, sync_all, abort, cards, error_text, roll_calls, low_latency, ipc_flags,
      ipc_data, heap;
  Bytes size;

  [[nodiscard]] constexpr Offset magic_of(Core core) const { return magic.at + Bytes{kMagicStride * core.index()}; }
  /// What lies before the ipc window: whole 2-MiB areas.
  [[nodiscard]] constexpr Bytes meta_window() const { return ipc_flags.at - Offset{0}; }
  [[nodiscard]] constexpr Offset card(std::uint64_t buffer) const { return cards.at + Bytes{kCardBytes * buffer}; }
  [[nodiscard]] constexpr Offset error(std::uint64_t buffer) const {
    return error_text.at + Bytes{kErrorTextBytes * buffer};
  }

  [[nodiscard]] constexpr Offset challenge() const { return sync_all.at + Bytes{32}; }
  [[nodiscard]] constexpr Offset last_words() const { return abort.at + Bytes{32}; }
  [[nodiscard]] constexpr Offset abort_text() const { return abort.at + Bytes{64}; }

  /// In the first block of a rank: of each communicator that is made of survivors.
  [[nodiscard]] constexpr Offset roll_call(std::uint64_t communicator) const {
    return roll_calls.at + RollCall::size(shape.ranks) * communicator;
  }

  struct Named {
    const char* name;
    Region region;
  };
  [[nodiscard]] constexpr std::array<Named, 13> regions() const {
    return {{{"user data", user_data},
             {"magic slots", magic},
             {"barrier ping-pong", barrier},
             {"flag ping-pong", flags},
             {"sync-all slot", sync_all},
             {"abort slot", abort},
             {"call cards", cards},
             {"error text", error_text},
             {"roll calls", roll_calls},
             {"low-latency region", low_latency},
             {"ipc flags", ipc_flags},
             {"ipc data", ipc_data},
             {"heap", heap}}};
  }
  [[nodiscard]] constexpr bool disjoint() const {
    const auto all = regions();
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        if (all[a].region.overlaps(all[b].region)) return false;
      }
    }
    return true;
  }
};

/// Bytes the published low-latency kernels use from the start of their region.
constexpr Bytes low_latency_bytes(const BlockShape& shape) {
  const auto cores = static_cast<std::uint64_t>(shape.cores);
  const auto ranks = static_cast<std::uint64_t>(shape.ranks);
  const std::uint64_t counts_end = 128 * cores + 4 * static_cast<std::uint64_t>(shape.experts);
  const std::uint64_t flags_end = 164 * kKiB + 32 * ranks;
  return Bytes{round_up(counts_end > flags_end ? counts_end : flags_end, 64)};
}

template <Profile P>
struct Layout {
  static constexpr BlockMap of(const BlockShape& shape) {
    const auto ranks = static_cast<std::uint64_t>(shape.ranks);
    const auto slots = static_cast<std::uint64_t>(shape.slots);
    BlockMap map{};
    map.shape = shape;
    map.user_data = {Offset{0}, Bytes{100 * kKiB}};
    map.magic = {map.user_data.end(), Bytes{kMagicStride * kMaxCores}};
    map.barrier = {map.magic.end(), Bytes{2 * kSlotStride * ranks}};
    map.flags = {map.barrier.end(), Bytes{2 * kSlotStride * ranks * slots}};
    map.low_latency = {Offset{0}, low_latency_bytes(shape)};
    // What is ours stays clear of the published overlay, whose dispatch flags may lie beyond the flag buffers.
    const Offset published_end =
        P.low_latency_overlays && map.flags.end() < map.low_latency.end() ? map.low_latency.end() : map.flags.end();
    map.sync_all = {Offset{round_up(published_end.value(), 64)}, Bytes{64}};
    map.abort = {map.sync_all.end(), Bytes{64 + kErrorTextBytes}};
    map.cards = {map.abort.end(), Bytes{2 * kCardBytes}};
    map.error_text = {map.cards.end(), Bytes{2 * kErrorTextBytes}};
    map.roll_calls = {map.error_text.end(),
                      RollCall::size(shape.ranks) * static_cast<std::uint64_t>(shape.communicators)};
    const Offset own{round_up(map.roll_calls.end().value(), 64)};
    if (!P.low_latency_overlays) map.low_latency.at = own;
    const Offset meta_end = P.low_latency_overlays ? own : map.low_latency.end();
    map.ipc_flags = {Offset{round_up(meta_end.value(), kPageGranule)}, Bytes{2 * kMiB}};
    map.ipc_data = {map.ipc_flags.end(), Bytes{round_up(shape.ipc_data.value(), kPageGranule)}};
    map.heap = {map.ipc_data.end(), Bytes{round_up(shape.heap.value(), kPageGranule)}};
    map.size = map.heap.end() - Offset{0};
    return map;
  }
};

/// The map for a profile chosen at run time.
constexpr BlockMap block_map(const Profile& profile, const BlockShape& shape) {
  return profile.low_latency_overlays ? Layout<kFaithful202607>::of(shape) : Layout<kSafe>::of(shape);
}

// The published offsets.
static_assert(Layout<kSafe>::of({}).magic.at == Offset{0x19000});
static_assert(Layout<kSafe>::of({}).barrier.at == Offset{0x1F000});
static_assert(Layout<kSafe>::of({.ranks = 2, .slots = 6}).flags.at == Offset{0x1F080});
static_assert(Layout<kSafe>::of({.ranks = 8}).flags.at == Offset{0x1F200});
static_assert(Layout<kSafe>::of({.ranks = 384}).flags.at == Offset{0x25000});
static_assert(Layout<kFaithful202607>::of({.ranks = 2}).low_latency.at == Offset{0});

namespace detail {
constexpr bool disjoint_over_grid() {
  for (std::int32_t ranks : {1, 2, 3, 7, 8, 16, 24, 160, 384, 1024}) {
    for (std::int32_t cores : {1, 2, 5, 48}) {
      for (std::int32_t experts : {1, 3, 60, 512, 4096}) {
        const BlockShape shape{.ranks = ranks,
                               .cores = cores,
                               .slots = cores,
                               .experts = experts,
                               .ipc_data = Bytes{204 * kMiB},
                               .heap = Bytes{kMiB}};
        if (!Layout<kSafe>::of(shape).disjoint()) return false;
      }
    }
  }
  return true;
}
}  // namespace detail
static_assert(detail::disjoint_over_grid(), "two regions of the safe layout overlap");
static_assert(!Layout<kFaithful202607>::of({.ranks = 2}).disjoint(), "the published layout does overlap");

}  // namespace shmoe::shmem
