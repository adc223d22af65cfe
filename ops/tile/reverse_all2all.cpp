#include "ops/tile/reverse_all2all.hpp"

#include "ops/ep/place.hpp"
#include "ops/tile/credits.hpp"
#include "ops/tile/residency.hpp"
#include "ops/tile/tile.hpp"

namespace shmoe::ops {
namespace {

using tile::Signals;
using tile::Symmetric;
using tile::Tile;

constexpr std::int64_t kFree = 0;
constexpr std::int64_t kFull = 1;

constexpr const char* name_of(All2AllWay way) {
  return way == All2AllWay::reverse ? "reverse_all2all" : "forward_all2all";
}

std::int32_t programs_of(const All2AllArgs& args, std::int32_t cores) {
  return args.programs == 0 ? cores : args.programs;
}

/// One program's part of a call.
class All2AllProgram {
 public:
  All2AllProgram(runtime::CoreContext& context, All2AllWay way, const All2AllArgs& args)
      : context_(context),
        tile_(context),
        signals_(args.signals),
        args_(args),
        way_(way),
        tasks_(args.shape, args.tiling, context.ranks()),
        crew_(context.cores()) {}

  void run() {
    const Core self = context_.core();
    for (std::int64_t block = 0; block < tasks_.blocks(); ++block) {
      if (crew_.produces(self)) produce(block);
      if (crew_.consumes(self)) consume(block);
    }
  }

 private:
  /// Stores and notifies go over the same tasks.
  template <class Act>
  void each_task(std::int64_t block, Act act) const {
    const std::int64_t workers = crew_.workers();
    const std::int64_t first = tasks_.first_task(block, crew_.worker(context_.core()), workers, args_.merge);
    for (std::int64_t t = first; t < tasks_.per_block(); t += workers) act(tasks_.task(t));
  }

  void produce(std::int64_t block) {
    const std::int64_t buffer = tasks_.buffer_of(block);
    const Rank me = tile_.rank();
    const auto target_of = [&](const All2AllTask& task) { return Rank{(me.value() + task.peer) % tasks_.ranks()}; };
    each_task(block, [&](const All2AllTask& task) {
      const Rank target = target_of(task);
      const auto free = tile_.symm_at(signals_.at(buffer, me, task.u), target);
      send(block, task, tile::consume_token(tile_.symm_at(buffers(), target), tile_.wait(free, 1, kFree)));
    });
    tile_.fence();
    each_task(block,
              [&](const All2AllTask& task) { tile_.notify(signals_.at(buffer, me, task.u), target_of(task), kFull); });
  }

  void send(std::int64_t block, const All2AllTask& task, const tile::Ready<std::byte>& free) {
    for (std::int64_t row = 0; row < tasks_.rows_of(block); ++row) {
      const std::int64_t from = in_x(free.place.owner.value(), row_of(block, row), task.head);
      const std::int64_t to = tasks_.in_buffer(tasks_.buffer_of(block), tile_.rank().value(), row, task.head);
      tile_.store(free + bytes(to + task.columns.first),
                  args_.x.subspan(size(from + task.columns.first), size(task.columns.size())));
    }
  }

  void consume(std::int64_t block) {
    const std::int64_t buffer = tasks_.buffer_of(block);
    const Rank me = tile_.rank();
    each_task(block, [&](const All2AllTask& task) {
      const auto full = signals_.at(buffer, Rank{task.peer}, task.u);
      receive(block, task, tile::consume_token(tile_.symm_at(buffers(), me), tile_.wait(full, 1, kFull)));
    });
    tile_.fence();
    each_task(block,
              [&](const All2AllTask& task) { tile_.notify(signals_.at(buffer, Rank{task.peer}, task.u), me, kFree); });
  }

  void receive(std::int64_t block, const All2AllTask& task, const tile::Ready<std::byte>& full) {
    for (std::int64_t row = 0; row < tasks_.rows_of(block); ++row) {
      const std::int64_t from = tasks_.in_buffer(tasks_.buffer_of(block), task.peer, row, task.head);
      const std::int64_t to = in_y(task.peer, row_of(block, row), task.head);
      tile_.load(full + bytes(from + task.columns.first),
                 args_.y.subspan(size(to + task.columns.first), size(task.columns.size())));
    }
  }

  [[nodiscard]] Symmetric<std::byte> buffers() const { return {args_.buffers}; }
  [[nodiscard]] std::int64_t row_of(std::int64_t block, std::int64_t row) const {
    return block * args_.tiling.block_rows + row;
  }
  [[nodiscard]] std::int64_t in_x(std::int64_t target, std::int64_t row, std::int64_t head) const {
    return way_ == All2AllWay::reverse ? tasks_.in_long(target, row, head) : tasks_.in_wide(target, row, head);
  }
  [[nodiscard]] std::int64_t in_y(std::int64_t source, std::int64_t row, std::int64_t head) const {
    return way_ == All2AllWay::reverse ? tasks_.in_wide(source, row, head) : tasks_.in_long(source, row, head);
  }
  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const {
    return elements * static_cast<std::int64_t>(size_of(args_.shape.dtype).value());
  }
  [[nodiscard]] std::size_t size(std::int64_t elements) const { return static_cast<std::size_t>(bytes(elements)); }

  runtime::CoreContext& context_;
  Tile tile_;
  Signals<std::int64_t> signals_;
  const All2AllArgs& args_;
  All2AllWay way_;
  All2AllTasks tasks_;
  All2AllCrew crew_;
};

/// What is wrong with this rank's arguments, or nothing.
std::string fault_text(const runtime::Communicator& comm, const All2AllArgs& args) {
  const All2AllShape& shape = args.shape;
  const All2AllTiling& tiling = args.tiling;
  if (shape.rows < 0 || shape.heads < 1 || shape.dim < 1) {
    return fmt::format("S {}, H {}, D {}: S must be at least 0, H and D 1", shape.rows, shape.heads, shape.dim);
  }
  if (tiling.block_rows < 1 || tiling.block_dim < 1 || tiling.buffers < 1) {
    return fmt::format("blocks of {} x {} in {} buffers: each must be at least 1", tiling.block_rows, tiling.block_dim,
                       tiling.buffers);
  }
  const std::int32_t programs = programs_of(args, comm.cores());
  if (programs < 1 || programs > shmem::kMaxCores) {
    return fmt::format("{} programs: 1 to {} are possible", programs, shmem::kMaxCores);
  }
  const All2AllTasks tasks(shape, tiling, comm.ranks());
  const std::uint64_t tensor = tasks.tensor_bytes().value();
  if (args.x.size() != tensor || args.y.size() != tensor) {
    return fmt::format("x has {} bytes and y {}; S*R*H*D elements are {}", args.x.size(), args.y.size(), tensor);
  }
  const shmem::SlotFamily& signals = args.signals;
  if (signals.name.empty()) {
    return "the slots of the credits are not declared: call ops::declare_all2all in Config::declare_slots";
  }
  const bool enough = signals.buffers >= static_cast<std::uint32_t>(tiling.buffers) &&
                      signals.sources >= static_cast<std::uint32_t>(comm.ranks()) &&
                      std::int64_t{signals.events} >= tasks.per_peer();
  if (!enough || signals.writers != shmem::Writers::source_and_owner) {
    return fmt::format(
        "the slots of {} are {} x {} x {}; {} buffers x {} ranks x {} tasks are needed, set by their source and reset "
        "by their owner: call ops::declare_all2all for as many in Config::declare_slots",
        signals.name, signals.buffers, signals.sources, signals.events, tiling.buffers, comm.ranks(), tasks.per_peer());
  }
  const auto missing = missing_program(tasks, All2AllCrew(programs), args.merge, comm.cores());
  if (!missing) return {};
  return fmt::format("{} programs on {} cores would never end: {}. Launch at most {}", programs, comm.cores(), *missing,
                     comm.cores());
}

/// Of tensors and buffers of the right sizes.
std::optional<Error> memory_fault(const runtime::Communicator& comm, const All2AllArgs& args) {
  const std::uint64_t bytes = All2AllTasks(args.shape, args.tiling, comm.ranks()).buffer_bytes().value();
  const RowBuffer buffers{.name = "the buffers", .at = args.buffers, .rows = bytes == 0 ? 0 : 1, .row_bytes = bytes};
  if (std::optional<Error> fault = place_fault(buffers, comm)) return fault;
  const OwnMemory own = own_part(buffers, comm);
  const OwnMemory x{"x", args.x};
  const OwnMemory y{"y", args.y};
  if (std::optional<Error> fault = overlap_fault(x, y, comm.rank())) return fault;
  if (std::optional<Error> fault = overlap_fault(x, own, comm.rank())) return fault;
  return overlap_fault(y, own, comm.rank());
}

Result<void> all2all(runtime::Communicator& comm, All2AllWay way, const All2AllArgs& args) {
  const Handshake handshake = all2all_handshake(comm, way, args);
  const std::int32_t programs = programs_of(args, comm.cores());
  if (handshake.fault && !comm.profile().handshake) return Error(*handshake.fault).within(name_of(way));
  if (handshake.fault || programs <= comm.cores()) {
    const std::int32_t cores = handshake.fault ? comm.cores() : programs;
    return comm.launch(name_of(way), cores, [&](runtime::CoreContext& context) {
      runtime::ZeroBufferSync sync(context);
      sync.enter(handshake.card, handshake.fault);
      all2all_program(context, way, args);
    });
  }
  // Programs that begin later cannot come to a barrier.
  Round round;
  const auto entered = comm.launch(name_of(way), [&](runtime::CoreContext& context) {
    runtime::ZeroBufferSync sync(context);
    sync.enter(handshake.card, handshake.fault);
    if (context.core() == Core{0}) round = sync.round();
  });
  if (!entered) return entered;
  return comm.launch(name_of(way), programs, [&](runtime::CoreContext& context) {
    context.fabric().actor({.kind = shmem::ActorEvent::Kind::enter, .op = name_of(way), .round = round},
                           SourceSite::here());
    all2all_program(context, way, args);
  });
}

}  // namespace

shmem::SlotFamily declare_all2all(shmem::SlotPlan& plan, const shmem::BlockMap& map, std::int32_t buffers,
                                  std::int64_t per_peer, Offset base, std::string_view name) {
  const std::int64_t slots = buffers * map.shape.ranks * per_peer;
  const std::uint64_t end = map.user_data.end().value();
  SHMOE_EXPECTS(
      base.value() <= end && static_cast<std::uint64_t>(slots) <= (end - base.value()) / shmem::kSlotStride,
      "{}: {} buffers x {} ranks x {} tasks are {} slots of {} bytes; from offset {} on the user data have {} "
      "bytes: fewer buffers or larger blocks of D",
      name, buffers, map.shape.ranks, per_peer, slots, shmem::kSlotStride, base, end - std::min(base.value(), end));
  return tile::declare_credits(plan, name, base, buffers, per_peer);
}

shmem::SlotFamily all2all_signals(const shmem::SlotPlan& plan, std::string_view name) {
  const auto& families = plan.families();
  const auto found = std::ranges::find(families, name, &shmem::SlotFamily::name);
  return found == families.end() ? shmem::SlotFamily{} : *found;
}

Handshake all2all_handshake(const runtime::Communicator& comm, All2AllWay way, const All2AllArgs& args) {
  runtime::CallCard card(name_of(way));
  card.with("S", args.shape.rows)
      .with("H", args.shape.heads)
      .with("D", args.shape.dim)
      .with("dtype", static_cast<std::int64_t>(args.shape.dtype))
      .with("block rows", args.tiling.block_rows)
      .with("block dim", args.tiling.block_dim)
      .with("buffers", args.tiling.buffers)
      .with("buffers offset", static_cast<std::int64_t>(args.buffers.value()))
      .with("first slot", args.signals.first)
      .with("programs", programs_of(args, comm.cores()))
      .with("merge", static_cast<std::int64_t>(args.merge))
      .with("heap history", static_cast<std::int64_t>(comm.heap_history()));
  Handshake handshake{card, std::nullopt};
  if (std::string text = fault_text(comm, args); !text.empty()) {
    handshake.fault = fault_of(comm.rank(), Errc::invalid_argument, std::move(text));
  } else {
    handshake.fault = memory_fault(comm, args);
  }
  return handshake;
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const All2AllArgs& args) {
  return {.symmetric = All2AllTasks(args.shape, args.tiling, comm.ranks()).buffer_bytes()};
}

void all2all_program(runtime::CoreContext& context, All2AllWay way, const All2AllArgs& args) {
  All2AllProgram(context, way, args).run();
}

Result<void> reverse_all2all(runtime::Communicator& comm, const All2AllArgs& args) {
  return all2all(comm, All2AllWay::reverse, args);
}

Result<void> forward_all2all(runtime::Communicator& comm, const All2AllArgs& args) {
  return all2all(comm, All2AllWay::forward, args);
}

}  // namespace shmoe::ops
