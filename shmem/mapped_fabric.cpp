#include "shmem/mapped_fabric.hpp"

#include <chrono>
#include <utility>

#include "shmem/contracts.hpp"
#include "shmem/copy.hpp"
#include "shmem/fence.hpp"

namespace shmoe::shmem {
namespace {

constexpr EventKind event_of(SignalOp op) { return op == SignalOp::set ? EventKind::set : EventKind::add; }

}  // namespace

MappedFabric::MappedFabric(const Peers& peers, Core core, Sharing sharing)
    : peers_(&peers),
      record_(&peers.control_map.record(peers.control, core)),
      ring_(&peers.control_map.ring(peers.control, core)),
      sharing_(sharing),
      activity_{.op = {}, .round = Round{}, .core = core},
      waiter_(peers, *record_, peers.control_map.list(peers.control, core), *ring_, sharing) {
  record_->life.store(static_cast<std::uint8_t>(Life::parked), std::memory_order_relaxed);
}

MappedFabric::~MappedFabric() {
  record_->life.store(static_cast<std::uint8_t>(Life::ended), std::memory_order_relaxed);
}

std::byte* MappedFabric::place(Rank rank, Offset at, Bytes size, SourceSite site) const {
  expect_place(*peers_, rank, at, size, site);
  return peers_->place(rank, at, size);
}

void MappedFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  std::byte* place_there = place(dst, to, Bytes{from.size()}, site);
  copy_row({place_there, from.size()}, from, peers_->copy.choose(from.size(), put_bytes_));
  put_bytes_ += from.size();
  ++sends_;
}

void MappedFabric::get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) {
  const std::byte* place_there = place(src, from, Bytes{to.size()}, site);
  copy_row(to, {place_there, to.size()}, CopyKind::cached);  // the caller reads it next
}

std::span<const std::byte> MappedFabric::open_read(Rank src, Offset at, Bytes size, SourceSite site) {
  const std::byte* first = place(src, at, size, site);
  if (!peers_->views) return {};
  return {first, size.value()};
}

void MappedFabric::close_read(Rank /*src*/, Offset /*at*/, Bytes /*size*/, SourceSite /*site*/) {}

std::span<std::byte> MappedFabric::open_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  std::byte* first = place(dst, at, size, site);
  if (!peers_->views) return {};
  ++sends_;
  return {first, size.value()};
}

void MappedFabric::close_write(Rank /*dst*/, Offset /*at*/, Bytes /*size*/, SourceSite /*site*/) {}

void MappedFabric::signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) {
  expect_signal(*peers_, dst, slot, op, value, site);
  expect_turn(dst, slot, value, site);
  store_fence();
  store_and_ring(peers_->place(dst, slot), op, value, sharing_);
  write_ledger(dst, slot, value, site);
  ++sends_;
  write_event(event_of(op), {.value = value, .rank = dst, .slot = slot, .count = 1}, site);
}

// Many ranks mean many cache lines and pages that lie elsewhere: all are asked for before the first is written, and one
// fence stands between all words and all bells.
void MappedFabric::signal_each(std::span<const Rank> dsts, Slot slot, SignalOp op, std::uint64_t value,
                               SourceSite site) {
  for (const Rank dst : dsts) {
    expect_signal(*peers_, dst, slot, op, value, site);
    expect_turn(dst, slot, value, site);
    __builtin_prefetch(peers_->place(dst, slot), 1);
  }
  store_fence();
  for (const Rank dst : dsts) store_word(peers_->place(dst, slot), op, value);
  full_fence();
  for (const Rank dst : dsts) ring(peers_->place(dst, slot), sharing_);
  for (const Rank dst : dsts) write_ledger(dst, slot, value, site);
  if (dsts.empty()) return;
  ++sends_;
  write_event(event_of(op),
              {.value = value, .rank = dsts.front(), .slot = slot, .count = static_cast<std::uint16_t>(dsts.size())},
              site);
}

void MappedFabric::write_event(EventKind kind, Event event, SourceSite site) {
  if (!peers_->notes) return;
  event.time_ns = now().count();
  event.round = activity_.round;
  event.kind = kind;
  event.line = site.line;
  event.set_text(kind == EventKind::enter ? std::string_view(activity_.op) : site.file);
  ring_->write(event);
}

LedgerEntry& MappedFabric::entry_of(Rank dst, Slot slot, std::uint64_t value) const {
  const Side side = dst == peers_->rank ? side_of(value) : Side::source;
  return peers_->control_map.ledger(peers_->control, peers_->slots->ledger_index(dst, slot, activity_.core, side));
}

/// In strict mode: a credit is set and reset by turns. Two signals of one kind lose one of them.
void MappedFabric::expect_turn(Rank dst, Slot slot, std::uint64_t value, SourceSite site) const {
  if (!peers_->strict || !peers_->slots->family_of(slot).goes_back()) return;
  const std::uint64_t word = load_slot(*peers_, dst, slot);
  SHMOE_EXPECTS(
      value != 0 || word != 0,
      "rank {} core {} resets {} at {}:{}, which core {} has reset already: one core alone gives a credit back",
      peers_->rank, activity_.core, peers_->slots->describe(slot), site.file, site.line,
      entry_of(dst, slot, value).core.load(std::memory_order_relaxed));
  SHMOE_EXPECTS(value == 0 || word == 0,
                "rank {} core {} sets {} of rank {} at {}:{}, which is still {:#x}: wait until it is 0, or what lies "
                "behind it is overwritten unread",
                peers_->rank, activity_.core, peers_->slots->describe(slot), dst, site.file, site.line, word);
}

/// The ledger has no entry for the slot of another writer, which only strict mode refuses: its number is that of an own one.
void MappedFabric::write_ledger(Rank dst, Slot slot, std::uint64_t value, SourceSite site) {
  if (!peers_->notes || (!peers_->strict && !peers_->slots->may_write(slot, dst, peers_->rank))) return;
  LedgerEntry& entry = entry_of(dst, slot, value);
  entry.count.fetch_add(1, std::memory_order_relaxed);
  entry.value.store(value, std::memory_order_relaxed);
  entry.round.store(activity_.round.value(), std::memory_order_relaxed);
  entry.core.store(static_cast<std::uint32_t>(activity_.core.value()), std::memory_order_relaxed);
  entry.site.store(site.file, site.line);
}

void MappedFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op,
                              std::uint64_t value, SourceSite site) {
  put(dst, to, from, site);
  signal(dst, slot, op, value, site);
}

void MappedFabric::fence(Rank dst, SourceSite site) {
  expect_rank(*peers_, dst, site);
  store_fence();
  write_event(EventKind::fence, {.value = put_bytes_, .rank = dst}, site);
}

void MappedFabric::quiet(SourceSite site) {
  store_fence();
  if (std::exchange(sends_, 0) > 0) write_event(EventKind::quiet, {.value = put_bytes_}, site);
  put_bytes_ = 0;
}

Result<Arrival> MappedFabric::wait(const WaitSpec& spec, SourceSite site) {
  expect_wait(*peers_, spec, site);
  return waiter_.wait(spec, activity_, site);
}

std::optional<Arrival> MappedFabric::test(const WaitSpec& spec, SourceSite site) {
  expect_wait(*peers_, spec, site);
  return waiter_.test(spec);
}

void MappedFabric::touch(Access /*access*/, Rank owner, Offset at, Bytes size, SourceSite site) {
  (void)place(owner, at, size, site);
}

void MappedFabric::actor(const ActorEvent& event, SourceSite site) {
  const bool entering = event.kind == ActorEvent::Kind::enter;
  if (event.kind == ActorEvent::Kind::start) record_->launches.fetch_add(1, std::memory_order_relaxed);
  if (event.blocks > 0) {
    record_->block.store(static_cast<std::uint16_t>(event.block), std::memory_order_relaxed);
    record_->blocks.store(static_cast<std::uint16_t>(event.blocks), std::memory_order_relaxed);
  }
  const bool running = entering || event.kind == ActorEvent::Kind::start;
  activity_.op.assign(entering ? event.op : std::string_view());  // into the room it has
  if (entering) {
    activity_.round = event.round;
    record_->round.store(event.round.value(), std::memory_order_relaxed);
    put_bytes_ = 0;
  }
  record_->op.store(activity_.op);
  record_->life.store(static_cast<std::uint8_t>(running ? Life::running : Life::parked), std::memory_order_seq_cst);
  record_->progress.fetch_add(1, std::memory_order_release);
  if (entering) write_event(EventKind::enter, {}, site);
  if (event.kind == ActorEvent::Kind::leave) write_event(EventKind::leave, {}, site);
}

Time MappedFabric::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace shmoe::shmem
