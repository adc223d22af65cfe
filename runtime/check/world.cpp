#include "runtime/check/world.hpp"

#include <utility>

#include "runtime/check/checked_fabric.hpp"
#include "runtime/check/landed.hpp"
#include "runtime/check/memory.hpp"
#include "runtime/check/race.hpp"
#include "runtime/check/scheduler.hpp"
#include "runtime/check/stuck.hpp"
#include "runtime/grid.hpp"
#include "shmem/thread_memory.hpp"

namespace shmoe::runtime::check {
namespace {

// What lies in memory that was used before, so that nobody relies on zeros. Two of them are a NaN in every float type.
constexpr std::byte kPoison{0xFF};

/// The cores of a rank as fibers.
class FiberGrid final : public Grid {
 public:
  FiberGrid(Scheduler& scheduler, RaceDetector& races, std::size_t host, std::int32_t cores)
      : scheduler_(scheduler), races_(races), host_(host), cores_(cores) {}
  [[nodiscard]] std::int32_t cores() const override { return cores_; }

 private:
  [[nodiscard]] bool is_here() const override { return true; }
  void run_claimed(CoreBody body) override {
    Handover to_cores;
    Handover to_host;
    to_cores.give();
    start(body, to_cores, to_host);
    body(Core{0});
    join();
    to_host.take();
  }

  void start(CoreBody body, const Handover& to_cores, Handover& to_host) {
    const Unseen unseen;
    std::size_t& running = scheduler_.core(host_).running;
    for (Core core{1}; core.value() < cores_; ++core) {
      races_.on_fork(host_, host_ + core.index());
      ++running;
      scheduler_.start(host_ + core.index(), [&, body, core] {
        to_cores.take();
        body(core);
        to_host.give();
        --running;
      });
    }
  }

  void join() {
    const Unseen unseen;
    scheduler_.join(host_);
    for (Core core{1}; core.value() < cores_; ++core) races_.on_join(host_, host_ + core.index());
  }

  Scheduler& scheduler_;
  RaceDetector& races_;
  std::size_t host_;
  std::int32_t cores_;
};

shmem::ThreadMemory allocate(const Shape& shape, const shmem::BlockMap& map) {
  auto memory = shmem::ThreadMemory::allocate(static_cast<std::size_t>(shape.ranks), map.size);
  SHMOE_EXPECTS(memory.has_value(), "memory of {} ranks: {}", shape.ranks, to_string(memory.error()));
  return *std::move(memory);
}

std::shared_ptr<const shmem::SlotPlan> plan(const Shape& shape, const shmem::BlockMap& map) {
  auto slots = std::make_shared<shmem::SlotPlan>(shmem::SlotPlan::of_block(map));
  if (shape.declare_slots) shape.declare_slots(*slots, map);
  return slots;
}

}  // namespace

struct World::State {
  Shape shape;
  std::shared_ptr<const shmem::BlockMap> map;
  std::shared_ptr<const shmem::SlotPlan> slots;
  Memory memory;
  RaceDetector races;
  HeapRanges heaps;
  Scheduler scheduler;
  Machine machine;
  std::vector<Rank> everyone;
  std::vector<std::unique_ptr<FiberGrid>> grids;
  std::vector<Result<void>> results;

  explicit State(Shape wanted)
      : shape(std::move(wanted)),
        map(std::make_shared<shmem::BlockMap>(shmem::block_map(shape.profile, {.ranks = shape.ranks,
                                                                               .cores = shape.cores,
                                                                               .slots = shape.cores,
                                                                               .experts = 16,
                                                                               .ipc_data = Bytes{0},
                                                                               .heap = shape.heap}))),
        slots(plan(shape, *map)),
        memory(allocate(shape, *map), shape.ranks, shape.cores, shape.unit),
        races(shape.ranks, shape.cores),
        heaps(shape.ranks),
        scheduler(shape.ranks, shape.cores, *slots, memory,
                  [this](std::size_t channel, const Unit& unit) { landed(channel, unit); }),
        machine{.memory = memory,
                .races = races,
                .scheduler = scheduler,
                .heaps = heaps,
                .weak = shape.weak,
                .data_steps = shape.data_steps,
                .report_races = shape.races} {
    for (Rank rank{0}; rank.value() < shape.ranks; ++rank) {
      everyone.push_back(rank);
      grids.push_back(std::make_unique<FiberGrid>(scheduler, races, host_of(rank), shape.cores));
    }
  }

  [[nodiscard]] std::size_t host_of(Rank rank) const { return rank.index() * static_cast<std::size_t>(shape.cores); }

  void landed(std::size_t channel, const Unit& unit) {
    const Rank owner = memory.destination(channel);
    machine.tell({.kind = unit.is_signal ? Step::Kind::signal_landed : Step::Kind::put_landed,
                  .core = memory.source_core(channel),
                  .rank = owner,
                  .at = unit.at,
                  .size = Bytes{unit.size},
                  .slot = unit.slot,
                  .value = unit.is_signal ? memory.word(owner, unit.at) : 0,
                  .site = unit.site});
    if (unit.is_signal) {
      races.on_landing(owner, unit.slot, unit.op, unit.stamp);
    } else if (unit.at >= map->heap.at && !heaps.covers(owner, unit.at, Bytes{unit.size})) {
      machine.found(
          VerdictKind::bad_address,
          fmt::format("the put at {}:{} lands in memory of rank {} that has been freed meanwhile: quiet and a "
                      "signal before the free would order them",
                      unit.site.file, unit.site.line, owner));
    }
  }

  void occupy(Rank rank, Offset at, Bytes size) {
    const Unseen unseen;
    heaps.add(rank, at, size);
    memory.used(rank, at, size);
  }

  void release(Rank rank, Offset at, Bytes size) {
    const Unseen unseen;
    heaps.remove(rank, at, size);
    const std::vector<std::byte> poison(size.value(), kPoison);
    memory.write(rank, at, poison);
  }

  shmem::Peers peers_of(Rank rank) {
    shmem::Peers peers;
    peers.rank = rank;
    for (const Rank member : everyone) peers.mem.push_back(memory.of(member));
    // Without a count of owners: counting would order the ranks for the thread sanitiser.
    peers.map = {std::shared_ptr<void>(), map.get()};
    peers.slots = {std::shared_ptr<void>(), slots.get()};
    peers.occupy = [this, rank](Offset at, Bytes size) { occupy(rank, at, size); };
    peers.release = [this, rank](Offset at, Bytes size) { release(rank, at, size); };
    peers.flag_word = shape.profile.flag_word;
    peers.views = shape.views;
    return peers;
  }

  Result<void> run_rank(Rank rank, const Body& body) {
    Communicator comm(
        {.peers = peers_of(rank),
         .members = everyone,
         .profile = shape.profile,
         .grid = grids[rank.index()].get(),
         .make_fabric = [this, rank](const shmem::Peers& peers, std::span<const Rank> /*members*/, Core core) {
           return std::make_unique<CheckedFabric>(peers, host_of(rank) + core.index(), machine);
         }});
    try {
      Result<void> result = body(comm);
      if (!result) comm.abort(result.error());
      return result;
    } catch (const ContractViolation& e) {
      const Error error{.code = Errc::broken_contract, .context = e.what(), .where = rank};
      comm.abort(error);
      return error;
    } catch (const std::exception& e) {
      const Error error{.code = Errc::aborted, .context = e.what(), .where = rank};
      comm.abort(error);
      return error;
    } catch (...) {
      const Error error{.code = Errc::aborted, .context = "exception of an unknown type", .where = rank};
      comm.abort(error);
      return error;
    }
  }

  void reset() {
    memory.reset();
    races.reset();
    heaps.reset();
    scheduler.reset();
    machine.story.clear();
    machine.verdict = {};
    results.assign(static_cast<std::size_t>(shape.ranks), Result<void>{});
    if (shape.first_round == 0) return;
    const std::uint64_t rounds[] = {shape.first_round, shape.first_round};
    for (const Rank rank : everyone) {
      for (Core core{0}; core.value() < shape.cores; ++core) {
        memory.write(rank, map->magic_of(core), std::as_bytes(std::span{rounds}));
      }
    }
  }

  /// What the ranks returned, the cause before its consequences.
  void judge_results() {
    const Error* worst = nullptr;
    for (const Result<void>& result : results) {
      if (result) continue;
      if (worst == nullptr || worst->code == Errc::aborted) worst = &result.error();
    }
    if (worst == nullptr) return;
    machine.found(worst->code == Errc::broken_contract ? VerdictKind::broken_contract : VerdictKind::failed,
                  to_string(*worst));
  }
};

World::World(Shape shape) : state_(std::make_unique<State>(std::move(shape))) {}
World::~World() = default;

const Shape& World::shape() const { return state_->shape; }
const shmem::SlotPlan& World::slots() const { return *state_->slots; }

Run World::run(const Body& body, Strategy& strategy, bool with_story) {
  const Unseen unseen;
  State& state = *state_;
  state.reset();
  state.machine.recording = with_story;
  Handover to_ranks;
  Handover to_caller;
  to_ranks.give();
  for (const Rank rank : state.everyone) {
    state.scheduler.start(state.host_of(rank), [&, rank] {
      to_ranks.take();
      state.results[rank.index()] = state.run_rank(rank, body);
      to_caller.give();
    });
  }
  Scheduler& scheduler = state.scheduler;
  scheduler.run(strategy, state.shape.most_steps);
  Machine& machine = state.machine;
  if (machine.verdict.clean() && scheduler.too_long()) {
    machine.found(VerdictKind::no_verdict, fmt::format("not over after {} steps", state.shape.most_steps));
  } else if (machine.verdict.clean() && scheduler.stuck()) {
    machine.verdict = judge_stuck(scheduler, *state.slots, state.shape.ranks, state.shape.cores);
  }
  const bool over = machine.verdict.clean();
  scheduler.end();
  to_caller.take();
  if (over) state.judge_results();
  return {.verdict = std::move(machine.verdict),
          .deviations = scheduler.deviations(),
          .decisions = scheduler.decisions(),
          .fingerprint = scheduler.fingerprint(),
          .outdated = scheduler.outdated(),
          .story = std::move(machine.story)};
}

}  // namespace shmoe::runtime::check
