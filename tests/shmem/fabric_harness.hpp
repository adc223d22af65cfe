#pragma once
// One set of promises, several bodies: a job of a few ranks over each of them, its memory, and what the tests say to it.

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "shmem/mapped_fabric.hpp"
#include "shmem/segment.hpp"
#include "shmem/thread_memory.hpp"
#include "shmem/weak_fabric.hpp"
#include "tests/seed.hpp"
#include "tests/shmem/shm_names.hpp"

namespace shmoe::shmem::test {

enum class Body : std::uint8_t { threads, segments, weak_threads, weak_segments };
inline constexpr std::array kBodies{Body::threads, Body::segments, Body::weak_threads, Body::weak_segments};

inline std::string name_of(Body body) {
  switch (body) {
    case Body::threads: return "threads over plain memory";
    case Body::segments: return "mapped segments";
    case Body::weak_threads: return "delayed, threads";
    case Body::weak_segments: return "delayed, segments";
  }
  return "";
}
constexpr bool is_weak(Body body) { return body == Body::weak_threads || body == Body::weak_segments; }
constexpr bool is_segments(Body body) { return body == Body::segments || body == Body::weak_segments; }

/// Printed once; SHMOE_TEST_SEED repeats a run.
inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const std::uint64_t value = shmoe::test::given_seed().value_or(std::random_device{}());
    fmt::print("seed {} (SHMOE_TEST_SEED repeats a run)\n", value);
    return value;
  }();
  return seed;
}

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// For code that runs in threads and in processes alike.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Failed(fmt::format(text, std::forward<Args>(args)...));
}

/// What a broken contract said; empty where none was broken.
template <class Act>
std::string violation(Act act) {
  try {
    act();
  } catch (const ContractViolation& e) {
    return e.what();
  }
  return "";
}

/// How long anything may take that never takes long: an error instead of a hang.
inline constexpr auto kPatience = std::chrono::seconds(25);

template <class Predicate>
bool comes_true(Predicate predicate) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Options {
  std::int32_t ranks = 2;
  std::int32_t cores = 1;
  bool views = true;
  bool strict = true;
  bool oversubscribed = false;
  CopyPlan copy = {};
  Overseer overseer = {};
  std::optional<Time> wait_limit = {};
  std::uint64_t seed = 1;
};

/// The same map and slots on every rank: the published ones, and families in the user data.
struct Plan {
  std::shared_ptr<const BlockMap> map;
  std::shared_ptr<const SlotPlan> slots;
  SlotFamily word;     // set by its source rank, 4 events
  SlotFamily counter;  // added to by any rank, 4 of them
  SlotFamily many;     // set by any rank, 200 of them
  SlotFamily credit;   // set by its source rank, reset by its owner, 2 buffers of 2 events
  SlotFamily narrow;   // words of 4 bytes
  SlotFamily beyond;   // of one source more than there are ranks
  ControlMap control;
  Options options;

  explicit Plan(Options given) : options(std::move(given)) {
    const BlockShape shape{.ranks = options.ranks, .cores = options.cores, .slots = options.cores, .heap = Bytes{kMiB}};
    map = std::make_shared<BlockMap>(block_map(kSafe, shape));
    auto plan = std::make_shared<SlotPlan>(SlotPlan::of_block(*map));
    const auto ranks = static_cast<std::uint32_t>(options.ranks);
    word = plan->declare({.name = "word", .base = Offset{0}, .sources = ranks, .events = 4});
    counter = plan->declare(
        {.name = "counter", .base = Offset{32 * kKiB}, .events = 4, .writers = Writers::any_rank, .op = SignalOp::add});
    many = plan->declare({.name = "many", .base = Offset{48 * kKiB}, .events = 200, .writers = Writers::any_rank});
    credit = plan->declare({.name = "credit",
                            .base = Offset{60 * kKiB},
                            .buffers = 2,
                            .sources = ranks,
                            .events = 2,
                            .writers = Writers::source_and_owner});
    narrow = plan->declare({.name = "narrow", .base = Offset{56 * kKiB}, .sources = ranks, .width = 4});
    beyond = plan->declare({.name = "beyond", .base = Offset{58 * kKiB}, .sources = ranks + 1});
    control = {.cores = options.cores, .ledger_entries = plan->ledger_size()};
    slots = std::move(plan);
  }
  /// Where the tests put their data.
  [[nodiscard]] Offset area() const { return map->heap.at; }
  [[nodiscard]] Offset area(std::uint64_t bytes) const { return map->heap.at + Bytes{bytes}; }
  [[nodiscard]] Peers peers_of(Rank rank) const {
    Peers peers;
    peers.rank = rank;
    peers.mem.resize(static_cast<std::size_t>(options.ranks));
    peers.map = map;
    peers.slots = slots;
    peers.control_map = control;
    peers.overseer = options.overseer;
    peers.wait_limit = options.wait_limit;
    const bool crowded = options.ranks * options.cores > static_cast<int>(std::thread::hardware_concurrency());
    peers.crowd = {.cores_a_cpu = crowded || options.oversubscribed ? 2 : 1};
    peers.strict = options.strict;
    peers.views = options.views;
    peers.copy = options.copy;
    return peers;
  }
};

inline std::unique_ptr<Fabric> make_fabric(Body body, const Peers& peers, Core core, std::uint64_t seed) {
  std::unique_ptr<Fabric> fabric;
  if (is_segments(body)) {
    fabric = std::make_unique<ShmFabric>(peers, core);
  } else {
    fabric = std::make_unique<ThreadFabric>(peers, core);
  }
  if (!is_weak(body)) return fabric;
  return std::make_unique<WeakFabric>(std::move(fabric), peers.rank, core, seed);
}

/// One rank: its mappings and the fabrics of its cores.
class Seat {
 public:
  Seat(const Plan& plan, Rank rank) : plan_(&plan), peers_(plan.peers_of(rank)) {}

  void over_memory(const ThreadMemory& memory, const ThreadMemory& control) {
    for (std::size_t i = 0; i < peers_.mem.size(); ++i) peers_.mem[i] = memory.at(i);
    peers_.control = control.at(peers_.rank.index());
  }
  /// First every rank creates what is its own, then each maps all others for itself.
  void create_segments(const ShmNames& names) {
    auto window = AddressWindow::reserve(peers_.mem.size(), plan_->map->size);
    require(window.has_value(), "no addresses");
    window_.emplace(std::move(window).value());
    mine_ = keep(
        Segment::create(name_of(names, peers_.rank, "mem"), plan_->map->size, window_->claim(peers_.rank.index())));
    control_ = keep(Segment::create(name_of(names, peers_.rank, "ctl"), plan_->control.size()));
    peers_.mem[peers_.rank.index()] = segments_[mine_].data();
    peers_.control = segments_[control_].data();
  }
  void attach_peers(const ShmNames& names) {
    for (Rank peer{0}; peer.value() < peers_.size(); ++peer) {
      if (peer == peers_.rank) continue;
      std::optional<Result<Segment>> found;
      std::byte* place = window_->claim(peer.index());
      const bool there = comes_true([&] {
        found.emplace(Segment::attach(name_of(names, peer, "mem"), plan_->map->size, Segment::Mode::read_write, place));
        return found->has_value();
      });
      require(there, "rank {} cannot attach {}: {}", peers_.rank, peer, there ? "" : to_string(found->error()));
      peers_.mem[peer.index()] = segments_[keep(*std::move(found))].data();
    }
  }
  void unlink() {
    segments_[mine_].unlink();
    segments_[control_].unlink();
  }
  void start(Body body) {
    for (std::int32_t core = 0; core < plan_->options.cores; ++core) {
      fabrics_.push_back(make_fabric(body, peers_, Core{core}, plan_->options.seed));
    }
  }

  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] Peers& peers() { return peers_; }
  [[nodiscard]] Fabric& fabric(std::int32_t core = 0) { return *fabrics_[static_cast<std::size_t>(core)]; }
  void drop_fabrics() { fabrics_.clear(); }
  [[nodiscard]] WaitRecord& record(std::int32_t core = 0) { return plan_->control.record(peers_.control, Core{core}); }
  [[nodiscard]] LedgerEntry& ledger(Rank dst, Slot slot, std::int32_t core = 0, Side side = Side::source) {
    return plan_->control.ledger(peers_.control, plan_->slots->ledger_index(dst, slot, Core{core}, side));
  }

 private:
  static std::string name_of(const ShmNames& names, Rank rank, const char* kind) {
    return names.of(fmt::format("{}.{}", rank, kind));
  }
  std::size_t keep(Result<Segment> segment) {
    require(segment.has_value(), "{}", segment.has_value() ? "" : to_string(segment.error()));
    segments_.push_back(std::move(segment).value());
    return segments_.size() - 1;
  }

  const Plan* plan_;
  Peers peers_;
  std::optional<AddressWindow> window_;
  std::vector<Segment> segments_;
  std::size_t mine_ = 0;
  std::size_t control_ = 0;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

/// Short forms of the operations of one core of one rank; waits give up after a while.
class Hand {
 public:
  Hand(Seat& seat, std::int32_t core = 0) : seat_(&seat), fabric_(&seat.fabric(core)), core_(core) {}

  [[nodiscard]] Seat& seat() const { return *seat_; }
  [[nodiscard]] const Plan& plan() const { return seat_->plan(); }
  [[nodiscard]] Rank rank() const { return seat_->peers().rank; }
  [[nodiscard]] std::int32_t core() const { return core_; }
  [[nodiscard]] std::int32_t ranks() const { return plan().options.ranks; }
  [[nodiscard]] Fabric& fabric() const { return *fabric_; }

  template <class T>
  void put(std::int32_t dst, Offset to, const T& value, SourceSite site = SourceSite::here()) const {
    fabric_->put(Rank{dst}, to, std::as_bytes(std::span{&value, 1}), site);
  }
  template <class T>
  [[nodiscard]] T get(std::int32_t src, Offset from, SourceSite site = SourceSite::here()) const {
    T value;
    fabric_->get(Rank{src}, from, std::as_writable_bytes(std::span{&value, 1}), site);
    return value;
  }
  template <class T>
  void put_signal(std::int32_t dst, Offset to, const T& value, Slot slot, SignalOp op, std::uint64_t number,
                  SourceSite site = SourceSite::here()) const {
    fabric_->put_signal(Rank{dst}, to, std::as_bytes(std::span{&value, 1}), slot, op, number, site);
  }
  void set(std::int32_t dst, Slot slot, std::uint64_t value, SourceSite site = SourceSite::here()) const {
    fabric_->signal(Rank{dst}, slot, SignalOp::set, value, site);
  }
  void add(std::int32_t dst, Slot slot, std::uint64_t value, SourceSite site = SourceSite::here()) const {
    fabric_->signal(Rank{dst}, slot, SignalOp::add, value, site);
  }
  void fence(std::int32_t dst, SourceSite site = SourceSite::here()) const { fabric_->fence(Rank{dst}, site); }
  void quiet(SourceSite site = SourceSite::here()) const { fabric_->quiet(site); }

  Arrival wait(WaitSpec spec, SourceSite site = SourceSite::here()) const {
    if (!spec.deadline) spec.deadline = fabric_->now() + kPatience;
    Result<Arrival> arrival = fabric_->wait(spec, site);
    require(arrival.has_value(), "{}", arrival.has_value() ? "" : to_string(arrival.error()));
    return *arrival;
  }
  Arrival wait(std::int32_t where, Slot slot, Compare compare, std::uint64_t value,
               SourceSite site = SourceSite::here()) const {
    return wait(WaitSpec{.where = Rank{where}, .slots = {&slot, 1}, .compare = compare, .value = value}, site);
  }
  /// The slot by which `source` tells this rank something.
  [[nodiscard]] Slot word(std::int32_t source, std::uint32_t event = 0) const {
    return plan().word.at(0, Rank{source}, event);
  }
  [[nodiscard]] Slot counter(std::uint32_t event = 0) const { return plan().counter.at(0, Rank{0}, event); }
  [[nodiscard]] Slot many(std::uint32_t event) const { return plan().many.at(0, Rank{0}, event); }

  /// How many sleep on a slot's bell: bytes 12-15 of the slot.
  [[nodiscard]] std::uint32_t sleepers(std::int32_t owner, Slot slot) const {
    std::byte* place = seat_->peers().mem[static_cast<std::size_t>(owner)] + plan().slots->offset_of(slot).value() + 12;
    return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(place)).load();
  }
  void until_asleep(std::int32_t owner, Slot slot, std::uint32_t count = 1) const {
    require(comes_true([&] { return sleepers(owner, slot) >= count; }), "nobody sleeps on {} of rank {}",
            plan().slots->describe(slot), owner);
  }

 private:
  Seat* seat_;
  Fabric* fabric_;
  std::int32_t core_;
};

/// All ranks inside this process; over segments each rank has mappings of its own.
class Job {
 public:
  Job(Body body, Options options) : plan_(std::move(options)) {
    const auto ranks = static_cast<std::size_t>(plan_.options.ranks);
    for (std::int32_t rank = 0; rank < plan_.options.ranks; ++rank) {
      seats_.push_back(std::make_unique<Seat>(plan_, Rank{rank}));
    }
    if (is_segments(body)) {
      names_ = std::make_unique<ShmNames>();
      for (auto& seat : seats_) seat->create_segments(*names_);
      for (auto& seat : seats_) seat->attach_peers(*names_);
      for (auto& seat : seats_) seat->unlink();
    } else {
      memory_.push_back(allocated(ranks, plan_.map->size));
      memory_.push_back(allocated(ranks, plan_.control.size()));
      for (auto& seat : seats_) seat->over_memory(memory_[0], memory_[1]);
    }
    for (auto& seat : seats_) seat->start(body);
  }

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] Seat& seat(std::int32_t rank) { return *seats_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Fabric& at(std::int32_t rank, std::int32_t core = 0) { return seat(rank).fabric(core); }
  [[nodiscard]] Hand hand(std::int32_t rank, std::int32_t core = 0) { return {seat(rank), core}; }

  /// Runs `body` on every core of every rank; what went wrong, one line each.
  std::string run(const std::function<void(const Hand&)>& body) {
    const std::int32_t cores = plan_.options.cores;
    std::vector<std::string> failures(static_cast<std::size_t>(plan_.options.ranks * cores));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < failures.size(); ++i) {
      threads.emplace_back([&, i] {
        const Hand mine = hand(static_cast<std::int32_t>(i) / cores, static_cast<std::int32_t>(i) % cores);
        try {
          body(mine);
          mine.quiet();
        } catch (const std::exception& e) {
          failures[i] = fmt::format("rank {}: {}\n", mine.rank(), e.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::string all;
    for (const std::string& failure : failures) all += failure;
    return all;
  }

 private:
  static ThreadMemory allocated(std::size_t count, Bytes size) {
    Result<ThreadMemory> memory = ThreadMemory::allocate(count, size);
    require(memory.has_value(), "no memory");
    return std::move(memory).value();
  }

  Plan plan_;
  std::unique_ptr<ShmNames> names_;
  std::vector<ThreadMemory> memory_;
  std::vector<std::unique_ptr<Seat>> seats_;
};

}  // namespace shmoe::shmem::test
