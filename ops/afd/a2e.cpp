#include "ops/afd/a2e.hpp"

#include <algorithm>
#include <utility>

#include "ops/afd/active_runs.hpp"
#include "ops/afd/published.hpp"
#include "ops/scratch.hpp"
#include "shmem/quantise.hpp"

namespace shmoe::ops {

namespace {

/// Elements of `size` bytes, of `count` places from `first` on.
template <class T>
std::span<T> part_of(std::span<T> all, std::int64_t first, std::int64_t count, std::uint64_t size = 1) {
  return all.subspan(static_cast<std::size_t>(first) * size, static_cast<std::size_t>(count) * size);
}

/// Of an attention rank.
Bytes share_of(const A2eArgs& args) {
  const AfdShape& shape = args.place.shape;
  const auto rows = static_cast<std::int64_t>(args.x.size() / shape.row_bytes());
  return a2e_share(args.active_mask.empty() ? rows : 0, shape);
}

Bytes share_of(const A2eArgs& args, const runtime::Communicator& comm) {
  const bool sends = comm.profile().handshake && !args.place.shape.ranks.is_expert(comm.rank());
  return sends ? share_of(args) : Bytes{0};
}

/// One core of an attention rank.
class A2eSender {
 public:
  A2eSender(runtime::CoreContext& context, const A2eArgs& args, const AfdRound& round)
      : context_(&context),
        args_(&args),
        shape_(&args.place.shape),
        round_(&round),
        window_(AfdWindow::of(args.place.shape)),
        scratch_(context, args.workspace, share_of(args)) {}

  void run() {
    if (has_role(0)) send_batch_size();
    if (shape_->compute_gate && has_role(1)) send(AfdFlag::expert_ids, window_.expert_ids, args_->expert_ids);
    if (shape_->compute_gate && has_role(2)) send(AfdFlag::scales, window_.scales, args_->scales);
    stage_rows(context_->slice(batch()));
    context_->sync_all();
    if (has_role(0)) raise(AfdFlag::x);
  }

 private:
  [[nodiscard]] std::int64_t batch() const { return std::ssize(args_->x) / std::int64_t(shape_->row_bytes()); }
  [[nodiscard]] bool has_role(std::int32_t role) const { return context_->core().value() == role % context_->cores(); }

  template <class Range>
  void stage(Bytes part, const Range& from) {
    context_->put(context_->rank(), args_->place.window + part, from);
  }
  void raise(AfdFlag flag) {
    const Slot slot = args_->place.signals.a2e.at(round_->half(), context_->rank(), static_cast<std::uint32_t>(flag));
    round_->raise(*context_, shape_->ranks.expert_of(context_->rank()), slot);
  }
  template <class Range>
  void send(AfdFlag flag, Bytes part, const Range& from) {
    stage(part, from);
    raise(flag);
  }

  void send_batch_size() {
    const auto rows = static_cast<std::int32_t>(batch());
    stage(window_.batch_size, std::span<const std::int32_t>{&rows, 1});
    if (!args_->active_mask.empty()) {
      stage(window_.active_mask, args_->active_mask);
    } else {
      const std::pmr::vector<std::uint8_t> all(static_cast<std::size_t>(rows), 1, &scratch_);
      stage(window_.active_mask, all);
    }
    raise(AfdFlag::batch_size);
  }

  void stage_rows(const Slice& rows) {
    const auto q = scratch_.take<std::byte>(shape_->quant == Quant::int8 ? shape_->hidden : 0);
    each_run(args_->active_mask, rows, [&](const Slice& run, bool active) {
      if (!active) return;
      if (shape_->quant == Quant::int8) return quantise(run, q);
      const Bytes at = window_.rows + Bytes{shape_->row_bytes()} * static_cast<std::uint64_t>(run.first);
      stage(at, part_of(args_->x, run.first, run.size(), shape_->row_bytes()));
    });
  }
  void quantise(const Slice& rows, std::span<std::byte> q) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const auto index = static_cast<std::uint64_t>(row);
      const float scale = shmem::quantise_row(shape_->dtype, part_of(args_->x, row, 1, shape_->row_bytes()), q);
      stage(window_.rows + Bytes{shape_->sent_row_bytes()} * index, q);
      stage(window_.row_scales + Bytes{sizeof(float)} * index, std::span<const float>{&scale, 1});
    }
  }

  runtime::CoreContext* context_;
  const A2eArgs* args_;
  const AfdShape* shape_;
  const AfdRound* round_;
  AfdWindow window_;
  Scratch scratch_;
};

/// One core of an expert rank.
class A2eReceiver {
 public:
  A2eReceiver(runtime::CoreContext& context, const A2eArgs& args, const AfdRound& round, A2eTables& tables)
      : context_(&context),
        args_(&args),
        shape_(&args.place.shape),
        round_(&round),
        tables_(&tables),
        window_(AfdWindow::of(args.place.shape)) {}

  void run() {
    std::int64_t first = 0;
    for (std::int32_t index = 0; index < shape_->ranks.served(context_->rank()); ++index) {
      source_ = shape_->ranks.attention_rank(context_->rank(), index);
      const shmem::Witness told = await(AfdFlag::batch_size);
      std::int32_t batch = 0;
      fetch(window_.batch_size, std::span{&batch, 1}, told);
      if (context_->core() == Core{0}) tables_->atten_batch_size[static_cast<std::size_t>(index)] = batch;
      if (const Slice rows = context_->slice(batch); rows.size() > 0) receive(rows, first, told);
      first += batch;
    }
    if (context_->core() == Core{0}) tables_->rows = first;
  }

 private:
  shmem::Witness await(AfdFlag flag) {
    const Slot slot = args_->place.signals.a2e.at(round_->half(), source_, static_cast<std::uint32_t>(flag));
    return round_->await(*context_, slot);
  }
  template <class Range>
  void fetch(Bytes part, const Range& to, const shmem::Witness& ordered) {
    context_->get(source_, args_->place.window + part, to, ordered);
  }
  /// `width` elements a row: rows of the source -> rows from `first` on of a table.
  template <class T>
  void fetch_rows(Bytes part, std::span<T> table, std::uint64_t width, const Slice& rows, std::int64_t first,
                  const shmem::Witness& ordered) {
    fetch(part + Bytes{width * sizeof(T)} * static_cast<std::uint64_t>(rows.first),
          part_of(table, first + rows.first, rows.size(), width), ordered);
  }

  /// The batch lies in the tables from row `first` on.
  void receive(const Slice& rows, std::int64_t first, const shmem::Witness& told) {
    const std::span<std::uint8_t> masks{tables_->x_active_mask};
    fetch_rows(window_.active_mask, masks, 1, rows, first, told);
    const auto mask = part_of(masks, first, rows.last);
    if (shape_->compute_gate) receive_gate(rows, first, mask);
    const shmem::Witness staged = await(AfdFlag::x);
    each_run(mask, rows, [&](const Slice& run, bool active) {
      const auto place = part_of(args_->expand_x, first + run.first, run.size(), shape_->sent_row_bytes());
      const std::span<float> scales{tables_->row_scales};
      if (active) {
        fetch_rows(window_.rows, args_->expand_x, shape_->sent_row_bytes(), run, first, staged);
        if (!scales.empty()) fetch_rows(window_.row_scales, scales, 1, run, first, staged);
      } else {
        std::ranges::fill(place, std::byte{0});
        if (!scales.empty()) std::ranges::fill(part_of(scales, first + run.first, run.size()), 0.0F);
      }
    });
  }
  void receive_gate(const Slice& rows, std::int64_t first, std::span<const std::uint8_t> mask) {
    const auto topk = static_cast<std::uint64_t>(shape_->topk);
    const std::span<std::int32_t> ids{tables_->expert_ids};
    const std::span<float> scales{tables_->expert_scales};
    fetch_rows(window_.expert_ids, ids, topk, rows, first, await(AfdFlag::expert_ids));
    fetch_rows(window_.scales, scales, topk, rows, first, await(AfdFlag::scales));
    each_run(mask, rows, [&](const Slice& run, bool active) {
      if (active) return;
      std::ranges::fill(part_of(ids, first + run.first, run.size(), topk), -1);
      std::ranges::fill(part_of(scales, first + run.first, run.size(), topk), 0.0F);
    });
  }

  runtime::CoreContext* context_;
  const A2eArgs* args_;
  const AfdShape* shape_;
  const AfdRound* round_;
  A2eTables* tables_;
  AfdWindow window_;
  Rank source_;
};

/// What is wrong with the batch of an attention rank.
std::string batch_text(const A2eArgs& args) {
  const AfdShape& shape = args.place.shape;
  if (args.x.size() % shape.row_bytes() != 0) {
    return fmt::format("x has {} bytes, which are no rows of {} {}: pass whole rows", args.x.size(), shape.hidden,
                       name_of(shape.dtype));
  }
  const std::size_t rows = args.x.size() / shape.row_bytes();
  const std::size_t pairs = shape.compute_gate ? rows * static_cast<std::size_t>(shape.topk) : 0;
  if (args.expert_ids.size() != pairs || args.scales.size() != pairs) {
    return fmt::format("{} expert ids and {} scales for {} rows {} a gate: {} of each are needed",
                       args.expert_ids.size(), args.scales.size(), rows, shape.compute_gate ? "with" : "without",
                       pairs);
  }
  if (!args.active_mask.empty() && args.active_mask.size() != rows) {
    return fmt::format("active_mask has {} entries for {} rows: give one for each, or none", args.active_mask.size(),
                       rows);
  }
  const auto bad_id = std::ranges::find_if(args.expert_ids, [](std::int32_t id) { return id < -1; });
  if (bad_id != args.expert_ids.end()) {
    const std::int64_t pair = bad_id - args.expert_ids.begin();
    return fmt::format("row {}, k {}: expert id {} is below 0; -1 alone drops a pair", pair / shape.topk,
                       pair % shape.topk, *bad_id);
  }
  const auto bad_entry = std::ranges::find_if(args.active_mask, [](std::uint8_t entry) { return entry > 1; });
  if (bad_entry != args.active_mask.end()) {
    return fmt::format("entry {} of active_mask is {}, neither 0 nor 1", bad_entry - args.active_mask.begin(),
                       *bad_entry);
  }
  if (!args.expand_x.empty()) return "an attention rank receives no rows: leave expand_x out";
  return {};
}

std::string received_text(const A2eArgs& args, Rank rank) {
  const AfdShape& shape = args.place.shape;
  if (!args.x.empty() || !args.expert_ids.empty() || !args.scales.empty() || !args.active_mask.empty()) {
    return "an expert rank sends nothing: leave x, expert_ids, scales and active_mask out";
  }
  const std::uint64_t needed = static_cast<std::uint64_t>(shape.capacity(rank)) * shape.sent_row_bytes();
  if (args.expand_x.size() >= needed) return {};
  return fmt::format("expand_x has {} bytes; {} attention ranks of up to {} rows need {}: make it as long",
                     args.expand_x.size(), shape.ranks.served(rank), shape.max_batch, needed);
}

/// What is wrong with this rank's own batch and buffers.
std::optional<Error> a2e_fault(const A2eArgs& args, const runtime::Communicator& comm) {
  const AfdShape& shape = args.place.shape;
  const bool expert = shape.ranks.is_expert(comm.rank());
  std::string text;
  if (!comm.profile().handshake) {
    const std::size_t bytes = expert ? args.expand_x.size() : args.x.size();
    text = published_refusal(static_cast<std::int64_t>(bytes / shape.row_bytes()), args.active_mask);
  } else if (expert) {
    text = received_text(args, comm.rank());
  }
  if (text.empty() && !expert) text = batch_text(args);
  if (!text.empty()) return fault_of(comm.rank(), Errc::invalid_argument, std::move(text));
  const auto rows = static_cast<std::int64_t>(args.x.size() / shape.row_bytes());
  if (rows <= shape.max_batch) {
    const OwnMemory window = own_part(afd_window(args.place, comm), comm);
    if (expert) return overlap_fault({"expand_x", args.expand_x}, window, comm.rank());
    return overlap_fault({"x", args.x}, window, comm.rank());
  }
  return fault_of(
      comm.rank(), Errc::capacity_exceeded,
      fmt::format("a batch of {} rows, max_batch is {}: raise it on every rank, or send less", rows, shape.max_batch));
}

}  // namespace

Bytes a2e_share(std::int64_t made_up, const AfdShape& shape) {
  return scratch_part<std::uint8_t>(made_up) + scratch_part<std::byte>(shape.quant == Quant::int8 ? shape.hidden : 0);
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const A2eArgs& args) {
  return {.symmetric = afd_window_bytes(args.place.shape, comm.profile()),
          .own = share_of(args, comm) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake a2e_handshake(const A2eArgs& args, const runtime::Communicator& comm) {
  Handshake handshake = afd_handshake("a2e", args.place, comm);
  if (!handshake.fault) handshake.fault = a2e_fault(args, comm);
  if (!handshake.fault) handshake.fault = workspace_fault(args.workspace, share_of(args, comm), comm);
  return handshake;
}

void prepare_a2e(const A2eArgs& args, const runtime::Communicator& comm, A2eTables& tables) {
  const AfdShape& shape = args.place.shape;
  tables.round = 0;
  tables.shape = shape;
  tables.communicator = comm.id();
  const bool expert = shape.ranks.is_expert(comm.rank());
  std::int64_t rows = static_cast<std::int64_t>(args.x.size() / shape.row_bytes());
  if (expert) {
    rows = comm.profile().handshake ? shape.capacity(comm.rank())
                                    : static_cast<std::int64_t>(args.expand_x.size() / shape.row_bytes());
  }
  tables.rows = rows;
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t pairs = expert && shape.compute_gate ? count * static_cast<std::size_t>(shape.topk) : 0;
  tables.atten_batch_size.resize(expert ? static_cast<std::size_t>(shape.ranks.served(comm.rank())) : 1);
  tables.x_active_mask.resize(count);
  tables.expert_ids.resize(pairs);
  tables.expert_scales.resize(pairs);
  tables.row_scales.resize(expert && shape.quant == Quant::int8 ? count : 0);
  if (expert || !comm.profile().handshake) return;
  tables.atten_batch_size[0] = static_cast<std::int32_t>(rows);
  std::ranges::fill(tables.x_active_mask, std::uint8_t{1});
  std::ranges::copy(args.active_mask, tables.x_active_mask.begin());
}

void a2e_kernel(runtime::CoreContext& context, const A2eArgs& args, const Handshake& handshake, A2eTables& tables) {
  if (!context.profile().handshake) return published_a2e_kernel(context, args, tables);
  runtime::ZeroBufferSync sync(context);
  sync.enter(handshake.card, handshake.fault);
  const AfdRound round(sync, context);
  if (context.core() == Core{0}) tables.round = round.number();
  if (args.place.shape.ranks.is_expert(context.rank())) {
    A2eReceiver(context, args, round, tables).run();
  } else {
    A2eSender(context, args, round).run();
  }
}

Result<void> a2e(runtime::Communicator& comm, const A2eArgs& args, A2eTables& tables) {
  const Handshake handshake = a2e_handshake(args, comm);
  if (!handshake.fault) prepare_a2e(args, comm, tables);
  Result<void> done = launch_collective(
      comm, "a2e", handshake, [&](runtime::CoreContext& context) { a2e_kernel(context, args, handshake, tables); });
  if (!done) {
    tables.round = 0;
    return done;
  }
  const auto rows = static_cast<std::size_t>(tables.rows);
  const std::size_t pairs = tables.expert_ids.empty() ? 0 : rows * static_cast<std::size_t>(args.place.shape.topk);
  tables.x_active_mask.resize(rows);
  tables.expert_ids.resize(pairs);
  tables.expert_scales.resize(pairs);
  if (!tables.row_scales.empty()) tables.row_scales.resize(rows);
  return done;
}

}  // namespace shmoe::ops
