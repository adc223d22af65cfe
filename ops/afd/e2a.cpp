#include "ops/afd/e2a.hpp"

#include <algorithm>
#include <memory_resource>
#include <vector>

#include "ops/afd/active_runs.hpp"
#include "ops/afd/published.hpp"
#include "ops/scratch.hpp"
#include "shmem/copy.hpp"

namespace shmoe::ops {

namespace {

std::int64_t answers_a_row(const E2aArgs& args) {
  return args.kind == Answers::one ? 1 : std::int64_t{args.place.shape.topk};
}

Bytes share_of(const E2aArgs& args, const runtime::Communicator& comm) {
  const bool sends = comm.profile().handshake && args.place.shape.ranks.is_expert(comm.rank());
  return sends ? e2a_share(args.kind, args.place.shape) : Bytes{0};
}

/// One core of an expert rank.
class E2aSender {
 public:
  E2aSender(runtime::CoreContext& context, const E2aArgs& args, const AfdRound& round)
      : context_(&context),
        args_(&args),
        shape_(&args.place.shape),
        round_(&round),
        rows_(args.place.window + AfdWindow::of(args.place.shape).rows),
        stride_(args.place.shape.row_bytes()),
        scratch_(context, args.workspace, e2a_share(args.kind, args.place.shape)),
        spans_(&scratch_),
        weights_(&scratch_) {
    if (args.kind == Answers::one) return;
    room_ = scratch_.take<std::byte>(static_cast<std::int64_t>(stride_));
    spans_.reserve(static_cast<std::size_t>(answers_a_row(args)));
    weights_.reserve(static_cast<std::size_t>(answers_a_row(args)));
  }

  void run() {
    const std::int32_t served = shape_->ranks.served(context_->rank());
    std::int64_t first = 0;
    for (std::int32_t index = 0; index < served; ++index) {
      const std::int64_t batch = args_->a2e.atten_batch_size[static_cast<std::size_t>(index)];
      send_batch(shape_->ranks.attention_rank(context_->rank(), index), first, batch);
      first += batch;
    }
    context_->sync_all();
    if (context_->core() != Core{0}) return;
    const Slot slot = args_->place.signals.e2a.at(round_->half(), context_->rank());
    for (std::int32_t index = 0; index < served; ++index) {
      round_->raise(*context_, shape_->ranks.attention_rank(context_->rank(), index), slot);
    }
  }

 private:
  /// Its answers lie from row `first` on.
  void send_batch(Rank to, std::int64_t first, std::int64_t batch) {
    const auto mask = std::span{args_->a2e.x_active_mask}.subspan(static_cast<std::size_t>(first));
    each_run(mask, context_->slice(batch), [&](const Slice& run, bool active) {
      if (!active) return;
      if (args_->kind == Answers::one) {
        context_->put(to, place_of(run.first), answers(first + run.first, run.size()));
        return;
      }
      for (std::int64_t row = run.first; row < run.last; ++row) send_sum(to, row, first + row);
    });
  }
  void send_sum(Rank to, std::int64_t row, std::int64_t own_row) {
    spans_.clear();
    weights_.clear();
    const std::int64_t pairs = own_row * shape_->topk;
    for (std::int64_t pair = pairs; pair < pairs + shape_->topk; ++pair) {
      const auto at = static_cast<std::size_t>(pair);
      if (shape_->compute_gate && args_->a2e.expert_ids[at] < 0) continue;
      spans_.push_back(answers(pair, 1));
      weights_.push_back(shape_->compute_gate ? args_->a2e.expert_scales[at] : 1.0F);
    }
    const auto view = context_->write(to, place_of(row), room_);
    shmem::weighted_row_sum(shape_->dtype, spans_, weights_, view.data());
  }
  [[nodiscard]] Offset place_of(std::int64_t row) const {
    return rows_ + Bytes{stride_} * static_cast<std::uint64_t>(row);
  }
  [[nodiscard]] std::span<const std::byte> answers(std::int64_t first, std::int64_t count) const {
    return args_->answers.subspan(static_cast<std::size_t>(first) * stride_, static_cast<std::size_t>(count) * stride_);
  }

  runtime::CoreContext* context_;
  const E2aArgs* args_;
  const AfdShape* shape_;
  const AfdRound* round_;
  Offset rows_;
  std::uint64_t stride_;
  Scratch scratch_;
  std::span<std::byte> room_;  // a row, used where the fabric gives no views
  std::pmr::vector<std::span<const std::byte>> spans_;
  std::pmr::vector<float> weights_;
};

void receive_answers(runtime::CoreContext& context, const E2aArgs& args, const AfdRound& round) {
  const AfdShape& shape = args.place.shape;
  const Rank expert = shape.ranks.expert_of(context.rank());
  const shmem::Witness sent = round.await(context, args.place.signals.e2a.at(round.half(), expert));
  const Offset rows = args.place.window + AfdWindow::of(shape).rows;
  const std::uint64_t stride = shape.row_bytes();
  each_run(args.a2e.x_active_mask, context.slice(args.a2e.rows), [&](const Slice& run, bool active) {
    const std::uint64_t first = static_cast<std::uint64_t>(run.first) * stride;
    const auto to = args.x.subspan(first, static_cast<std::size_t>(run.size()) * stride);
    if (active) {
      context.get(context.rank(), rows + Bytes{first}, to, sent);
    } else {
      std::ranges::fill(to, std::byte{0});
    }
  });
}

std::string e2a_text(const E2aArgs& args, const runtime::Communicator& comm) {
  const AfdShape& shape = args.place.shape;
  if (args.kind > Answers::one_each_k) {
    return fmt::format("{} is no kind of answers: take one or one_each_k", static_cast<int>(args.kind));
  }
  const bool expert = shape.ranks.is_expert(comm.rank());
  if (!comm.profile().handshake) {
    if (args.kind != Answers::one) return "the published kernel adds nothing up: hand it one answer a row";
    const std::size_t bytes = expert ? args.answers.size() : args.x.size();
    return published_refusal(static_cast<std::int64_t>(bytes / shape.row_bytes()), {});
  }
  if (args.a2e.round == 0) return "these tables come from no a2e that succeeded: call a2e first";
  if (args.a2e.shape != shape) {
    return fmt::format("these tables come from an a2e of {}; this e2a is of {}: hand both the same shape",
                       describe(*args.a2e.shape), describe(shape));
  }
  if (expert ? !args.x.empty() : !args.answers.empty()) {
    return expert ? "an expert rank receives no rows: leave x out"
                  : "an attention rank has no answers: leave answers out";
  }
  const std::int64_t rows = args.a2e.rows * (expert ? answers_a_row(args) : 1);
  const std::uint64_t needed = static_cast<std::uint64_t>(rows) * shape.row_bytes();
  const std::size_t bytes = expert ? args.answers.size() : args.x.size();
  if (bytes == needed) return {};
  return fmt::format("{} has {} bytes; {} rows of {} {} have {}: make it as long", expert ? "answers" : "x", bytes,
                     rows, shape.hidden, name_of(shape.dtype), needed);
}

}  // namespace

Bytes e2a_share(Answers kind, const AfdShape& shape) {
  if (kind == Answers::one) return Bytes{0};
  return scratch_part<std::byte>(static_cast<std::int64_t>(shape.row_bytes())) +
         scratch_part<std::span<const std::byte>>(shape.topk) + scratch_part<float>(shape.topk);
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const E2aArgs& args) {
  return {.symmetric = afd_window_bytes(args.place.shape, comm.profile()),
          .own = share_of(args, comm) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake e2a_handshake(const E2aArgs& args, const runtime::Communicator& comm) {
  Handshake handshake = afd_handshake(args.kind == Answers::one ? "e2a" : "e2a with sums", args.place, comm);
  handshake.card.with("a2e round", static_cast<std::int64_t>(args.a2e.round));
  if (handshake.fault) return handshake;
  if (comm.profile().handshake && args.a2e.round != 0) handshake.fault = tables_fault(args.a2e.communicator, comm);
  if (handshake.fault) return handshake;
  if (std::string text = e2a_text(args, comm); !text.empty()) {
    handshake.fault = fault_of(comm.rank(), Errc::invalid_argument, std::move(text));
    return handshake;
  }
  const OwnMemory window = own_part(afd_window(args.place, comm), comm);
  handshake.fault = overlap_fault({"answers", args.answers}, window, comm.rank());
  if (!handshake.fault) handshake.fault = overlap_fault({"x", args.x}, window, comm.rank());
  if (!handshake.fault) handshake.fault = workspace_fault(args.workspace, share_of(args, comm), comm);
  return handshake;
}

void e2a_kernel(runtime::CoreContext& context, const E2aArgs& args, const Handshake& handshake) {
  if (!context.profile().handshake) return published_e2a_kernel(context, args);
  runtime::ZeroBufferSync sync(context);
  sync.enter(handshake.card, handshake.fault);
  const AfdRound round(sync, context);
  if (args.place.shape.ranks.is_expert(context.rank())) {
    E2aSender(context, args, round).run();
  } else {
    receive_answers(context, args, round);
  }
}

Result<void> e2a(runtime::Communicator& comm, const E2aArgs& args) {
  const Handshake handshake = e2a_handshake(args, comm);
  return launch_collective(comm, "e2a", handshake,
                           [&](runtime::CoreContext& context) { e2a_kernel(context, args, handshake); });
}

}  // namespace shmoe::ops
