#include "ops/low_latency/combine.hpp"

#include <algorithm>
#include <memory_resource>
#include <utility>
#include <vector>

#include "ops/ep/place.hpp"
#include "ops/low_latency/dispatch_faults.hpp"
#include "ops/low_latency/sync.hpp"
#include "ops/scratch.hpp"
#include "shmem/copy.hpp"

namespace shmoe::ops {

namespace {

using shmem::Witness;

std::uint64_t stride_of(const CombineLowLatencyArgs& args) { return row_bytes(args.tables.dtype, args.tables.hidden); }

Bytes share_of(const CombineLowLatencyArgs& args) {
  const std::int64_t pairs = args.tables.pairs_of_token();
  return row_sum_share(args.tables.dtype, args.tables.hidden, pairs, pairs + 1);  // and shared_expert_x
}

/// One core's sums; its lists are made once and refilled for each token.
class LowLatencySum {
 public:
  LowLatencySum(runtime::CoreContext& context, const CombineLowLatencyArgs& args, const Witness& complete)
      : context_(&context),
        args_(&args),
        complete_(complete),
        stride_(stride_of(args)),
        scratch_(context, args.workspace, share_of(args)),
        room_(scratch_.take<std::byte>(static_cast<std::int64_t>(stride_ * pairs()))),
        views_(&scratch_),
        rows_(&scratch_),
        weights_(&scratch_) {
    views_.reserve(pairs());
    rows_.reserve(pairs() + 1);
    weights_.reserve(pairs() + 1);
  }

  void write(std::int64_t token) {
    const auto first = token * static_cast<std::int64_t>(pairs());
    for (std::size_t i = 0; i < pairs(); ++i) open(first + static_cast<std::int64_t>(i), weight_of(token, i));
    const auto place = static_cast<std::uint64_t>(token) * stride_;
    if (!args_->shared_expert_x.empty()) add(args_->shared_expert_x.subspan(place, stride_), 1.0F);
    shmem::weighted_row_sum(args_->tables.dtype, rows_, weights_, args_->x.subspan(place, stride_));
    rows_.clear();
    weights_.clear();
    views_.clear();
  }

 private:
  [[nodiscard]] std::size_t pairs() const { return static_cast<std::size_t>(args_->tables.pairs_of_token()); }

  /// Of a shared expert 1.
  [[nodiscard]] float weight_of(std::int64_t token, std::size_t i) const {
    const auto topk = static_cast<std::size_t>(args_->tables.topk);
    if (args_->expert_scales.empty() || i >= topk) return 1.0F;
    return args_->expert_scales[static_cast<std::size_t>(token) * topk + i];
  }

  void open(std::int64_t pair, float weight) {
    const std::optional<RowPlace> place = args_->tables.place_of(pair, context_->rank());
    if (!place) return;
    const std::span<std::byte> room = room_.subspan(views_.size() * stride_, stride_);
    const Offset at = args_->expert_out + Bytes{stride_} * static_cast<std::uint64_t>(place->row);
    views_.push_back(context_->read(place->owner, at, room, complete_));
    add(views_.back().data(), weight);
  }

  void add(std::span<const std::byte> row, float weight) {
    rows_.push_back(row);
    weights_.push_back(weight);
  }

  runtime::CoreContext* context_;
  const CombineLowLatencyArgs* args_;
  Witness complete_;
  std::uint64_t stride_;
  Scratch scratch_;
  std::span<std::byte> room_;  // a row of each pair of a token, used where the fabric gives no views
  std::pmr::vector<shmem::ReadView<std::byte>> views_;
  std::pmr::vector<std::span<const std::byte>> rows_;
  std::pmr::vector<float> weights_;
};

/// One core's part of a call.
class LowLatencyCombiner {
 public:
  LowLatencyCombiner(runtime::CoreContext& context, LowLatencySync& sync, const CombineLowLatencyArgs& args)
      : context_(&context), sync_(&sync), args_(&args) {}

  void tell() {
    sync_->publish();
    copy_valid_expand_x_to_remote();
    sync_->set_sync_flag();
  }

  void sum() {
    const Witness complete = wait_sync_flag();
    sync_->leave_on_fault();
    input_to_dst_output(complete);
  }

 private:
  void copy_valid_expand_x_to_remote() {
    const bool copies = !args_->ori_x.empty() && !sync_->fault();
    const Slice rows = context_->slice(copies ? args_->tables.recv_rows : 0);
    if (rows.size() > 0) {
      const std::uint64_t first = stride_of(*args_) * static_cast<std::uint64_t>(rows.first);
      const std::uint64_t size = stride_of(*args_) * static_cast<std::uint64_t>(rows.size());
      context_->put(context_->rank(), args_->expert_out + Bytes{first}, args_->ori_x.subspan(first, size));
    }
    context_->sync_all();
  }

  Witness wait_sync_flag() {
    const Witness told = sync_->wait_sync_flag();
    const Slice sources = context_->slice(sync_->published() ? 0 : context_->ranks());
    for (std::int64_t source = sources.first; source < sources.last; ++source) {
      if (Rank{source} != context_->rank()) (void)sync_->agrees(Rank{source}, told);
    }
    return context_->sync_all();
  }

  void input_to_dst_output(const Witness& complete) {
    const Slice tokens = context_->slice(args_->tables.tokens);
    if (tokens.size() == 0) return;
    LowLatencySum sum(*context_, *args_, complete);
    for (std::int64_t token = tokens.first; token < tokens.last; ++token) sum.write(token);
  }

  runtime::CoreContext* context_;
  LowLatencySync* sync_;
  const CombineLowLatencyArgs* args_;
};

std::optional<Error> combine_tables_fault(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  const LowLatencyTables& tables = args.tables;
  const Rank rank = comm.rank();
  const auto refuse = [&](std::string text) { return fault_of(rank, Errc::invalid_argument, std::move(text)); };
  switch (tables.stage) {
    case LowLatencyStage::empty:
      return refuse("combine without a dispatch: these tables are of none that went well: dispatch with them first");
    case LowLatencyStage::sent:
      return refuse(fmt::format(
          "the rows of low-latency dispatch {} have not been received: call dispatch_finish first", tables.round));
    case LowLatencyStage::summing:
      return refuse(fmt::format("the combine of low-latency dispatch {} is in flight: finish it first", tables.round));
    case LowLatencyStage::received: break;
  }
  return tables_fault(tables.communicator, comm);
}

std::optional<Error> combine_shape_fault(const CombineLowLatencyArgs& args, Rank rank) {
  const LowLatencyTables& tables = args.tables;
  const auto refuse = [&](std::string text) { return fault_of(rank, Errc::invalid_argument, std::move(text)); };
  const std::uint64_t bytes = stride_of(args) * static_cast<std::uint64_t>(tables.tokens);
  if (args.x.size() != bytes) {
    return refuse(fmt::format("x has {} bytes, {} tokens of {} {} have {}: make it as long", args.x.size(),
                              tables.tokens, tables.hidden, shmoe::name_of(tables.dtype), bytes));
  }
  const auto ids = static_cast<std::size_t>(tables.tokens * tables.topk);
  if (!args.expert_scales.empty() && args.expert_scales.size() != ids) {
    return refuse(
        fmt::format("{} weights for {} expert ids: give one for each, or none", args.expert_scales.size(), ids));
  }
  if (!args.shared_expert_x.empty() && args.shared_expert_x.size() != bytes) {
    return refuse(
        fmt::format("shared_expert_x has {} bytes, x has {}: make it as long", args.shared_expert_x.size(), bytes));
  }
  return std::nullopt;
}

std::optional<Error> ori_x_fault(const CombineLowLatencyArgs& args, Rank rank) {
  if (args.ori_x.empty()) return std::nullopt;
  const std::uint64_t bytes = stride_of(args) * static_cast<std::uint64_t>(args.tables.recv_rows);
  if (args.ori_x.size() != bytes) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("ori_x has {} bytes, the {} rows received have {}: it holds the answer to each row",
                                args.ori_x.size(), args.tables.recv_rows, bytes));
  }
  if (args.tables.combined_from != args.expert_out) return std::nullopt;
  return fault_of(rank, Errc::invalid_argument,
                  "ori_x again for the expert_out of the last combine, which peers may still read: take another "
                  "expert_out, or dispatch first");
}

RowBuffer answers_of(const CombineLowLatencyArgs& args) {
  return {.name = "expert_out", .at = args.expert_out, .rows = args.capacity, .row_bytes = stride_of(args)};
}

std::optional<Error> answers_fault(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  const std::vector<std::int64_t>& rows = args.tables.rows_of;
  const std::int64_t most = rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end());
  if (args.capacity < most) {
    return Error{
        .code = Errc::capacity_exceeded,
        .context = fmt::format("expert_out holds {} rows, {} are needed: as many as expand_x", args.capacity, most),
        .where = comm.rank()};
  }
  if (std::optional<Error> fault = place_fault(answers_of(args), comm)) return fault;
  return overlap_fault({"ori_x", args.ori_x}, own_part(answers_of(args), comm), comm.rank());
}

std::optional<Error> combine_option_fault(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  if (std::optional<Error> fault = tp_fault(args.tp_world_size, comm.rank())) return fault;
  if (args.output > CombineOutput::reduce_scatter) {
    return fault_of(comm.rank(), Errc::invalid_argument,
                    fmt::format("{} is no output of combine: take own_tokens", static_cast<int>(args.output)));
  }
  if (args.output == CombineOutput::reduce_scatter) {
    return fault_of(
        comm.rank(), Errc::invalid_argument,
        "reduce-scatter output is not offered: each rank gets the sums of its own tokens; reduce and scatter "
        "them within the tp domain afterwards");
  }
  if (comm.profile().handshake || args.shared_expert_x.empty()) return std::nullopt;
  return fault_of(comm.rank(), Errc::invalid_argument,
                  fmt::format("shared_expert_x in profile {}: the published kernel ignores that; take profile safe",
                              name_of(comm.profile().id)));
}

/// What sum() takes: the same of both halves.
std::optional<Error> sum_fault(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  if (std::optional<Error> fault = combine_shape_fault(args, comm.rank())) return fault;
  if (std::optional<Error> fault = combine_option_fault(args, comm)) return fault;
  if (auto fault = overlap_fault({"x", args.x}, own_part(answers_of(args), comm), comm.rank())) return fault;
  return workspace_fault(args.workspace, share_of(args), comm);
}

std::optional<Error> combine_fault(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  if (std::optional<Error> fault = combine_tables_fault(args, comm)) return fault;
  if (std::optional<Error> fault = ori_x_fault(args, comm.rank())) return fault;
  if (std::optional<Error> fault = answers_fault(args, comm)) return fault;
  return sum_fault(args, comm);
}

/// Of a combine that is in flight, on this rank alone.
std::optional<Error> finish_fault(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  const LowLatencyTables& tables = args.tables;
  const auto refuse = [&](std::string text) { return fault_of(comm.rank(), Errc::invalid_argument, std::move(text)); };
  if (tables.stage != LowLatencyStage::summing) {
    return refuse("no combine is in flight for these tables: call combine_begin first");
  }
  if (std::optional<Error> fault = tables_fault(tables.communicator, comm)) return fault;
  if (tables.combined_from != args.expert_out || tables.combined_capacity != args.capacity) {
    return refuse(
        fmt::format("expert_out of {} rows at offset {}, and combine_begin was told {} rows at {}: hand both "
                    "the same",
                    args.capacity, args.expert_out, tables.combined_capacity, *tables.combined_from));
  }
  return sum_fault(args, comm);
}

enum class CombinePart : std::uint8_t { whole, tell };

Result<void> run_combine(runtime::Communicator& comm, const CombineLowLatencyArgs& args, CombinePart part) {
  const Result<LowLatencyRegion> region = LowLatencyRegion::find(comm.slots(), comm.map());
  if (!region) return region.error();
  const Handshake handshake = combine_low_latency_handshake(args, comm);
  std::uint64_t round = 0;
  const char* op = part == CombinePart::whole ? "combine_low_latency" : "combine_begin";
  Result<void> done = launch_collective(comm, op, handshake, [&](runtime::CoreContext& context) {
    LowLatencySync sync(context, *region, LowLatencySync::Call::combine, handshake);
    if (context.core() == Core{0}) round = sync.round().value();
    LowLatencyCombiner combiner(context, sync, args);
    combiner.tell();
    // Whoever is at fault learns it now; its peers do so when they finish.
    if (part == CombinePart::whole || sync.fault()) return combiner.sum();
    sync.open();
  });
  if (!done) return done;
  args.tables.combined_from = args.expert_out;
  args.tables.combined_capacity = args.capacity;
  if (part == CombinePart::whole) return done;
  args.tables.stage = LowLatencyStage::summing;
  args.tables.combine_round = round;
  return done;
}

}  // namespace

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const CombineLowLatencyArgs& args) {
  return {.own = share_of(args) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake combine_low_latency_handshake(const CombineLowLatencyArgs& args, const runtime::Communicator& comm) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  runtime::CallCard card("combine_low_latency");
  card.with("dispatch", number(args.tables.round))
      .with("topk", args.tables.topk)
      .with("hidden", args.tables.hidden)
      .with("dtype", number(args.tables.dtype))
      .with("capacity", args.capacity)
      .with("rows offset", number(args.expert_out.value()))
      .with("heap history", number(comm.heap_history()));
  return {card, combine_fault(args, comm)};
}

Result<void> combine_low_latency(runtime::Communicator& comm, const CombineLowLatencyArgs& args) {
  return run_combine(comm, args, CombinePart::whole);
}

Result<void> combine_begin(runtime::Communicator& comm, const CombineLowLatencyArgs& args) {
  return run_combine(comm, args, CombinePart::tell);
}

Result<void> combine_finish(runtime::Communicator& comm, const CombineLowLatencyArgs& args) {
  const Result<LowLatencyRegion> region = LowLatencyRegion::find(comm.slots(), comm.map());
  if (!region) return region.error();
  if (std::optional<Error> fault = finish_fault(args, comm)) {
    return std::move(*fault).within("combine_finish");
  }
  const Handshake handshake{runtime::CallCard("combine_low_latency"), std::nullopt};
  Result<void> done = comm.launch("combine_finish", [&](runtime::CoreContext& context) {
    LowLatencySync sync(context, *region, LowLatencySync::Call::combine, handshake, Round{args.tables.combine_round});
    sync.close();
    LowLatencyCombiner(context, sync, args).sum();
  });
  args.tables.stage = LowLatencyStage::received;
  return done;
}

}  // namespace shmoe::ops
