// The symmetric memory of a communicator: the heap says where, and this does what it means for the pages and the bytes.

#include <algorithm>
#include <memory_resource>
#include <utility>

#include "runtime/communicator.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::runtime {
namespace {

constexpr Bytes kPiece{256 * 1024};  // stays in the cache of one core

/// Pieces by ascending offset, each read whole before it is written: a place that overlaps the old one is fine.
void carry(CoreContext& context, const shmem::Move& move, const shmem::Witness& settled) {
  const std::uint64_t size = move.size.value();
  std::pmr::vector<std::byte> buffer(std::min(size, kPiece.value()), context.workspace());
  for (std::uint64_t done = 0; done < size; done += buffer.size()) {
    const std::span<std::byte> piece = std::span(buffer).first(std::min(size - done, buffer.size()));
    context.get(context.rank(), move.from + Bytes{done}, piece, settled);
    context.put(context.rank(), move.to + Bytes{done}, piece);
  }
}

/// The part of the old place that is not in the new one.
std::pair<Offset, Bytes> left_behind(const shmem::Move& move) {
  const Offset first = std::max(move.from, move.to + move.size);
  return {first, move.from + move.size - first};
}

}  // namespace

void Communicator::tell_inspectors() const {
  if (peers_.control == nullptr) return;
  shmem::Membership& membership = peers_.control_map.membership(peers_.control);
  membership.rank.store(rank().value(), std::memory_order_relaxed);
  for (Rank member{0}; member.value() < ranks(); ++member)
    peers_.control_map.member(peers_.control, member).store(world_rank(member).value(), std::memory_order_relaxed);
  membership.heap_used.store(heap_.used().value(), std::memory_order_relaxed);
  membership.heap_blocks.store(heap_.live_blocks(), std::memory_order_relaxed);
  membership.heap_largest_free.store(heap_.largest_free().value(), std::memory_order_relaxed);
  membership.size.store(static_cast<std::uint32_t>(ranks()), std::memory_order_release);
}

Result<Offset> Communicator::allocate(Bytes size, shmem::Mobility mobility) {
  Result<Offset> at = heap_.allocate(size, shmem::Heap::kGranule, mobility);
  if (!at)
    return std::move(at).error().within(
        fmt::format("rank {}: symmetric allocation (SHMOE_HEAP sets the size)", rank()));
  if (peers_.commit) {
    if (Result<void> pages = peers_.commit(*at, size); !pages) {
      (void)heap_.free(*at);
      return std::move(pages).error().within(fmt::format("rank {}: symmetric allocation of {} bytes", rank(), size));
    }
  }
  if (peers_.occupy) peers_.occupy(*at, heap_.size_of(*at));
  tell_inspectors();
  return at;
}

Result<void> Communicator::free(Offset at) {
  const Bytes size = heap_.size_of(at);
  Result<void> freed = heap_.free(at);
  if (freed && peers_.release) peers_.release(at, size);
  tell_inspectors();
  return freed;
}

Result<void> Communicator::commit_places(const std::vector<shmem::Move>& moves) const {
  if (!peers_.commit) return {};
  for (const shmem::Move& move : moves) {
    if (Result<void> pages = peers_.commit(move.to, move.size); !pages) {
      return std::move(pages).error().within(
          fmt::format("rank {}: moving a block of {} bytes to {}", rank(), move.size, move.to));
    }
  }
  return {};
}

void Communicator::carry_out(CoreContext& context, const std::vector<shmem::Move>& moves,
                             const shmem::Witness& settled) const {
  for (const shmem::Move& move : moves) {
    if (peers_.occupy) peers_.occupy(move.to, move.size);
    carry(context, move, settled);
    const auto [first, size] = left_behind(move);
    if (peers_.release) peers_.release(first, size);
  }
}

Result<std::vector<shmem::Move>> Communicator::compact() {
  const std::vector<shmem::Move> moves = heap_.planned_moves();
  std::optional<Error> fault;
  if (Result<void> pages = commit_places(moves); !pages) fault = std::move(pages).error();
  CallCard card("compact");
  card.with("heap history", static_cast<std::int64_t>(heap_history()));
  const Result<void> done = launch("compact", [&](CoreContext& context) {
    ZeroBufferSync sync(context);
    const shmem::Witness settled = sync.enter(card, fault);
    if (context.core() == Core{0}) carry_out(context, moves, settled);
    sync.barrier_all();
  });
  if (!done) return done.error();
  std::vector<shmem::Move> moved = heap_.compact();
  tell_inspectors();
  return moved;
}

}  // namespace shmoe::runtime
