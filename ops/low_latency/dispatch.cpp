#include "ops/low_latency/dispatch.hpp"

#include <algorithm>
#include <memory_resource>
#include <utility>
#include <vector>

#include "ops/low_latency/dispatch_faults.hpp"
#include "ops/low_latency/outgoing.hpp"
#include "ops/low_latency/sync.hpp"

namespace shmoe::ops {

namespace {

using shmem::Witness;

constexpr Bytes kRowScale{4};  // fp32

bool in_flight(const LowLatencyTables& tables) {
  return tables.stage == LowLatencyStage::sent || tables.stage == LowLatencyStage::summing;
}

Bytes share_of(const DispatchLowLatencyArgs& args) {
  return dispatch_low_latency_share(args.shared.ranks + args.experts.experts(), args.quant, args.hidden);
}

/// The columns of an owner, in the order of its rows.
template <class Visit>
void each_column_of(Rank owner, const SharedExperts& shared, const ExpertMap& experts, const Visit& visit) {
  if (owner.value() < shared.ranks) visit(owner.index());
  for (const Expert expert : experts.experts_of(owner)) {
    visit(static_cast<std::size_t>(shared.ranks) + expert.index());
  }
}

/// Which row of the smooth scales a column takes.
std::int64_t smooth_row_of(std::int32_t column, const SharedExperts& shared) {
  if (column >= shared.ranks) return shared.experts + column - shared.ranks;
  return column / (shared.ranks / shared.experts);
}

/// One core's part of the sending half.
class LowLatencySender {
 public:
  LowLatencySender(runtime::CoreContext& context, const LowLatencyRegion& region, LowLatencySync& sync,
                   const DispatchLowLatencyArgs& args, LowLatencyTables& tables)
      : context_(&context),
        region_(&region),
        sync_(&sync),
        args_(&args),
        tables_(&tables),
        scratch_(context, args.workspace, tables.columns == 0 ? Bytes{0} : share_of(args)) {}

  void run() {
    sync_->publish();
    const Witness counted = local_layout();
    sync_->set_layout_status();
    send_count_notify(counted);
    wait_notify();
    input_to_dst_output();
    set_sync_flag();
  }

 private:
  Witness local_layout() {
    std::pmr::vector<std::int32_t> next(columns(), 0, &scratch_);
    const Slice own = context_->slice(std::ssize(tables_->pair_column));
    for (std::int64_t pair = 0; pair < std::ssize(tables_->pair_column); ++pair) {
      const std::int32_t column = tables_->pair_column[static_cast<std::size_t>(pair)];
      const std::int32_t earlier = column < 0 ? -1 : next[static_cast<std::size_t>(column)]++;
      if (pair >= own.first && pair < own.last) tables_->expand_idx[static_cast<std::size_t>(pair)] = earlier;
    }
    if (sync_->published()) number_first_token(own);
    store_counts(next);
    return context_->sync_all();
  }

  /// The published kernel does not look for earlier pairs there.
  void number_first_token(const Slice& own) {
    for (std::int64_t pair = own.first; pair < std::min<std::int64_t>(own.last, tables_->topk); ++pair) {
      std::int32_t& place = tables_->expand_idx[static_cast<std::size_t>(pair)];
      place = std::min(place, 0);
    }
  }

  /// Each core those of its share of the columns; the published counts are added to what is there.
  void store_counts(std::span<const std::int32_t> counts) {
    const Slice own = context_->slice(tables_->columns);
    if (own.size() == 0) return;
    const auto part = counts.subspan(static_cast<std::size_t>(own.first), static_cast<std::size_t>(own.size()));
    const Offset at = own_counts() + Bytes{4} * static_cast<std::uint64_t>(own.first);
    if (!sync_->published()) return context_->put(context_->rank(), at, part);
    std::pmr::vector<std::int32_t> sum(part.size(), context_->workspace());
    context_->get(context_->rank(), at, sum, Witness::own());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    context_->put(context_->rank(), at, sum);
  }

  void send_count_notify(const Witness& counted) {
    const Witness told = sync_->wait_layout_status();
    const Slice sources = context_->slice(context_->ranks());
    for (std::int64_t source = sources.first; source < sources.last; ++source) {
      const bool own = Rank{source} == context_->rank();
      const Witness& ordered = own ? counted : told;
      if (!own && !sync_->published() && !sync_->agrees(Rank{source}, ordered)) continue;
      const auto row = std::span{tables_->recv_data}.subspan(static_cast<std::size_t>(source) * columns(), columns());
      context_->get(Rank{source}, own_counts(), row, ordered);
    }
    context_->sync_all();
    sync_->leave_on_fault();
  }

  void wait_notify() {
    const Slice owners = context_->slice(context_->ranks());
    for (std::int64_t owner = owners.first; owner < owners.last; ++owner) {
      const std::int64_t rows = prefix_of(Rank{owner});
      tables_->rows_of[static_cast<std::size_t>(owner)] = rows;
      if (Rank{owner} == context_->rank()) count_own_rows();
    }
    context_->sync_all();
    expect_room();
  }

  std::int64_t prefix_of(Rank owner) {
    const std::size_t ranks = tables_->rows_of.size();
    std::int64_t end = 0;
    each_column_of(owner, args_->shared, args_->experts, [&](std::size_t column) {
      for (std::size_t source = 0; source < ranks; ++source) {
        end += tables_->recv_data[source * columns() + column];
        tables_->ep_recv_count[column * ranks + source] = end;
      }
    });
    return end;
  }

  void count_own_rows() {
    const std::size_t ranks = tables_->rows_of.size();
    std::size_t local = 0;
    std::int64_t before = 0;
    each_column_of(context_->rank(), args_->shared, args_->experts, [&](std::size_t column) {
      const std::int64_t end = tables_->ep_recv_count[column * ranks + ranks - 1];
      tables_->expert_token_nums[local++] = args_->expert_token_nums == GroupList::cumulative ? end : end - before;
      before = end;
    });
    tables_->recv_rows = before;
  }

  /// The tables are the same on all ranks, so all leave here or none.
  void expect_room() const {
    const auto full = std::find_if(tables_->rows_of.begin(), tables_->rows_of.end(),
                                   [&](std::int64_t rows) { return rows > args_->capacity; });
    if (full == tables_->rows_of.end()) return;
    const Rank owner{full - tables_->rows_of.begin()};
    throw Interrupted(
        Error{.code = Errc::capacity_exceeded,
              .context = fmt::format("rank {} receives {} rows, expand_x holds {}: allocate for the most that "
                                     "the tokens of all ranks can ask of one rank",
                                     owner, *full, args_->capacity),
              .where = owner},
        Interrupted::Agreed::yes);
  }

  void input_to_dst_output() {
    const OutgoingLowLatencyRow::Tokens tokens{.x = args_->x,
                                               .dtype = args_->dtype,
                                               .hidden = args_->hidden,
                                               .quant = args_->quant,
                                               .scales = args_->scales,
                                               .static_scale = args_->static_scale,
                                               .exact_division = sync_->published()};
    OutgoingLowLatencyRow row(scratch_, tokens);
    const Bytes stride{row_bytes(args_->dtype, args_->hidden, args_->quant)};
    const Slice pairs = context_->slice(std::ssize(tables_->pair_column));
    for (std::int64_t pair = pairs.first; pair < pairs.last; ++pair) {
      const std::optional<RowPlace> place = tables_->place_of(pair, context_->rank());
      if (!place) continue;
      const auto index = static_cast<std::uint64_t>(place->row);
      const std::int32_t column = tables_->pair_column[static_cast<std::size_t>(pair)];
      row.choose(pair / tables_->pairs_of_token(), smooth_row_of(column, args_->shared));
      context_->put(place->owner, args_->expand_x + stride * index, row.bytes());
      if (args_->quant == Quant::int8) {
        context_->put(place->owner, args_->dynamic_scales + kRowScale * index, row.scale());
      }
    }
  }

  /// In the published kernel a core knows about its own rows only.
  void set_sync_flag() {
    if (sync_->published()) {
      context_->quiet();
    } else {
      context_->sync_all();
    }
    sync_->set_sync_flag();
  }

  [[nodiscard]] std::size_t columns() const { return static_cast<std::size_t>(tables_->columns); }
  [[nodiscard]] Offset own_counts() const {
    const std::uint64_t half = sync_->published() ? 0 : sync_->round().value() % LowLatencyRegion::kDispatchBuffers;
    return region_->counts(half, tables_->columns);
  }

  runtime::CoreContext* context_;
  const LowLatencyRegion* region_;
  LowLatencySync* sync_;
  const DispatchLowLatencyArgs* args_;
  LowLatencyTables* tables_;
  Scratch scratch_;
};

/// One core's part of the receiving half.
class LowLatencyReceiver {
 public:
  LowLatencyReceiver(runtime::CoreContext& context, const LowLatencyRegion& region, LowLatencySync& sync,
                     const LowLatencyTables& tables)
      : context_(&context), region_(&region), sync_(&sync), tables_(&tables) {}

  void run() {
    wait_sync_flag();
    clean_up();
  }

 private:
  /// The host reads the rows when all cores have ended, so only what comes next in the kernel needs a SyncAll.
  void wait_sync_flag() {
    (void)sync_->wait_sync_flag();
    if (sync_->published()) context_->sync_all();
  }

  /// Every rank has read them: it has set its flag.
  void clean_up() {
    if (!sync_->published() || context_->core() != Core{0}) return;
    const std::pmr::vector<std::int32_t> zeros(static_cast<std::size_t>(tables_->columns), 0, context_->workspace());
    context_->put(context_->rank(), region_->counts(0, tables_->columns), zeros);
  }

  runtime::CoreContext* context_;
  const LowLatencyRegion* region_;
  LowLatencySync* sync_;
  const LowLatencyTables* tables_;
};

void choose_columns(const DispatchLowLatencyArgs& args, Rank me, LowLatencyTables& tables) {
  std::size_t pair = 0;
  for (std::int64_t token = 0; token < tables.tokens; ++token) {
    bool active = false;
    for (std::int32_t k = 0; k < args.topk; ++k) {
      const std::int32_t id = args.expert_ids[static_cast<std::size_t>(token * args.topk + k)];
      const bool asked_for = is_active(args, token, k);
      active |= asked_for;
      tables.pair_column[pair++] = asked_for && id >= 0 ? args.shared.ranks + id : -1;
    }
    for (std::int32_t i = 0; i < args.shared.experts; ++i) {
      tables.pair_column[pair++] = active ? args.shared.rank_for(i, me).value() : -1;
    }
  }
}

/// Made anew only for another map than that of the last call.
void find_owners(const DispatchLowLatencyArgs& args, LowLatencyTables& tables) {
  if (tables.owner_of == args.experts.hash() && tables.shared == args.shared) return;
  tables.owner.resize(static_cast<std::size_t>(args.shared.ranks + args.experts.experts()));
  for (Rank owner{0}; owner.value() < args.experts.ranks(); ++owner) {
    each_column_of(owner, args.shared, args.experts, [&](std::size_t column) { tables.owner[column] = owner; });
  }
  tables.owner_of = args.experts.hash();
  tables.shared = args.shared;
}

std::size_t own_columns(const DispatchLowLatencyArgs& args, Rank me) {
  return args.experts.experts_of(me).size() + (me.value() < args.shared.ranks ? 1 : 0);
}

/// Gives the tables their sizes. Arguments that do not fit count nothing.
void prepare_tables(const DispatchLowLatencyArgs& args, const Handshake& handshake, const runtime::Communicator& comm,
                    LowLatencyTables& tables) {
  const bool good = !handshake.fault;
  const auto ranks = static_cast<std::size_t>(comm.ranks());
  tables.stage = LowLatencyStage::empty;
  tables.communicator = comm.id();
  tables.topk = args.topk;
  tables.tokens = good ? std::ssize(args.expert_ids) / args.topk : 0;
  tables.columns = good ? args.shared.ranks + args.experts.experts() : 0;
  tables.hidden = args.hidden;
  tables.dtype = args.dtype;
  tables.expand_x = args.expand_x;
  tables.combined_from.reset();
  tables.recv_rows = 0;
  if (good) find_owners(args, tables);
  const auto columns = static_cast<std::size_t>(tables.columns);
  const auto pairs = static_cast<std::size_t>(tables.tokens * tables.pairs_of_token());
  tables.recv_data.resize(ranks * columns);
  tables.ep_recv_count.resize(columns * ranks);
  tables.rows_of.resize(ranks);
  tables.pair_column.resize(pairs);
  tables.expand_idx.resize(pairs);
  tables.expert_token_nums.resize(good ? own_columns(args, comm.rank()) : 0);
  if (good) choose_columns(args, comm.rank(), tables);
}

enum class DispatchPart : std::uint8_t { whole, send };

Result<void> run_dispatch(runtime::Communicator& comm, const DispatchLowLatencyArgs& args, LowLatencyTables& tables,
                          DispatchPart part) {
  const Result<LowLatencyRegion> region = LowLatencyRegion::find(comm.slots(), comm.map());
  if (!region) return region.error();
  const Handshake handshake = dispatch_low_latency_handshake(args, comm, tables);
  LowLatencyTables spare;  // those in flight stay as they are
  LowLatencyTables& used = in_flight(tables) ? spare : tables;
  prepare_tables(args, handshake, comm, used);
  const char* op = part == DispatchPart::whole ? "dispatch_low_latency" : "dispatch_begin";
  Result<void> done = launch_collective(comm, op, handshake, [&](runtime::CoreContext& context) {
    LowLatencySync sync(context, *region, LowLatencySync::Call::dispatch, handshake);
    if (context.core() == Core{0}) used.round = sync.round().value();
    LowLatencySender(context, *region, sync, args, used).run();
    if (part == DispatchPart::send) return sync.open();
    LowLatencyReceiver(context, *region, sync, used).run();
  });
  if (done) used.stage = part == DispatchPart::whole ? LowLatencyStage::received : LowLatencyStage::sent;
  return done;
}

}  // namespace

Bytes dispatch_low_latency_share(std::int32_t columns, Quant quant, std::int64_t hidden) {
  return scratch_part<std::int32_t>(columns) + OutgoingLowLatencyRow::share(quant, hidden);
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const DispatchLowLatencyArgs& args) {
  return {.own = share_of(args) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake dispatch_low_latency_handshake(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                                         const LowLatencyTables& tables) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const Offset scales = args.quant == Quant::int8 ? args.dynamic_scales : Offset{0};
  const int quantisation =
      (args.quant == Quant::int8 ? 1 : 0) | (args.scales.empty() ? 0 : 2) | (args.static_scale ? 4 : 0);
  runtime::CallCard card("dispatch_low_latency");
  card.with("experts", args.experts.experts())
      .with("owner map", number(args.experts.hash()))
      .with("shared experts", args.shared.experts)
      .with("shared ranks", args.shared.ranks)
      .with("topk", args.topk)
      .with("hidden", args.hidden)
      .with("dtype", number(args.dtype))
      .with("quantisation", quantisation)
      .with("capacity", args.capacity)
      .with("rows offset", number(args.expand_x.value()))
      .with("scales offset", number(scales.value()))
      .with("heap history", number(comm.heap_history()));
  Handshake handshake{card, std::nullopt};
  if (in_flight(tables)) {
    handshake.fault =
        fault_of(comm.rank(), Errc::invalid_argument,
                 fmt::format("these tables belong to low-latency dispatch {}, which is in flight on communicator {}: "
                             "finish it or its combine, or take others",
                             tables.round, tables.communicator));
  } else if (const auto region = LowLatencyRegion::find(comm.slots(), comm.map())) {
    handshake.fault = dispatch_low_latency_fault(args, comm, *region);
    if (!handshake.fault) {
      handshake.fault = workspace_fault(args.workspace, share_of(args), comm);
    }
  }
  return handshake;
}

Result<void> dispatch_low_latency(runtime::Communicator& comm, const DispatchLowLatencyArgs& args,
                                  LowLatencyTables& tables) {
  return run_dispatch(comm, args, tables, DispatchPart::whole);
}

Result<void> dispatch_begin(runtime::Communicator& comm, const DispatchLowLatencyArgs& args, LowLatencyTables& tables) {
  return run_dispatch(comm, args, tables, DispatchPart::send);
}

Result<void> dispatch_finish(runtime::Communicator& comm, LowLatencyTables& tables) {
  const Result<LowLatencyRegion> region = LowLatencyRegion::find(comm.slots(), comm.map());
  if (!region) return region.error();
  if (tables.stage != LowLatencyStage::sent) {
    return fault_of(comm.rank(), Errc::invalid_argument,
                    "dispatch_finish: no rows are on their way for these tables: call dispatch_begin first");
  }
  if (auto fault = tables_fault(tables.communicator, comm)) return std::move(*fault).within("dispatch_finish");
  const Handshake handshake{runtime::CallCard("dispatch_low_latency"), std::nullopt};
  Result<void> done = comm.launch("dispatch_finish", [&](runtime::CoreContext& context) {
    LowLatencySync sync(context, *region, LowLatencySync::Call::dispatch, handshake, Round{tables.round});
    LowLatencyReceiver(context, *region, sync, tables).run();
    sync.close();
  });
  tables.stage = done ? LowLatencyStage::received : LowLatencyStage::empty;
  return done;
}

}  // namespace shmoe::ops
