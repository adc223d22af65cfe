#include "ops/ep/combine_normal.hpp"

#include <algorithm>
#include <memory_resource>
#include <vector>

#include "ops/ep/rows.hpp"
#include "ops/scratch.hpp"
#include "shmem/copy.hpp"

namespace shmoe::ops {

namespace {

Bytes combine_normal_share(const CombineArgs& args) {
  return row_sum_share(args.dtype, args.hidden, args.layout.topk, args.layout.topk);
}

/// One core's sums; its lists are made once and refilled for each token.
class TokenSum {
 public:
  TokenSum(runtime::CoreContext& context, const CombineArgs& args, const shmem::Witness& complete)
      : context_(&context),
        args_(&args),
        complete_(complete),
        rows_(rows_of(args, context.rank())),
        stride_(row_bytes(args.dtype, args.hidden)),
        scratch_(context, args.workspace, combine_normal_share(args)),
        room_(scratch_.take<std::byte>(static_cast<std::int64_t>(stride_ * topk()))),
        views_(&scratch_),
        spans_(&scratch_),
        weights_(&scratch_) {
    views_.reserve(topk());
    spans_.reserve(topk());
    weights_.reserve(topk());
  }

  void write(std::int64_t token) {
    const std::int64_t first = token * args_->layout.topk;
    for (std::int64_t pair = first; pair < first + args_->layout.topk; ++pair) open(pair);
    shmem::weighted_row_sum(args_->dtype, spans_, weights_,
                            args_->x.subspan(static_cast<std::uint64_t>(token) * stride_, stride_));
    spans_.clear();
    weights_.clear();
    views_.clear();
  }

 private:
  [[nodiscard]] std::size_t topk() const { return static_cast<std::size_t>(args_->layout.topk); }

  void open(std::int64_t pair) {
    const std::optional<RowPlace> place = rows_.of(pair);
    if (!place) return;
    const std::span<std::byte> room = room_.subspan(views_.size() * stride_, stride_);
    const Offset at = args_->expert_out + Bytes{stride_} * static_cast<std::uint64_t>(place->row);
    views_.push_back(context_->read(place->owner, at, room, complete_));
    spans_.push_back(views_.back().data());
    weights_.push_back(args_->weights.empty() ? 1.0F : args_->weights[static_cast<std::size_t>(pair)]);
  }

  runtime::CoreContext* context_;
  const CombineArgs* args_;
  shmem::Witness complete_;
  RowMap rows_;
  std::uint64_t stride_;
  Scratch scratch_;
  std::span<std::byte> room_;  // K rows, used where the fabric gives no views
  std::pmr::vector<shmem::ReadView<std::byte>> views_;
  std::pmr::vector<std::span<const std::byte>> spans_;
  std::pmr::vector<float> weights_;
};

void sum_tokens(runtime::CoreContext& context, const CombineArgs& args, const Slice& tokens,
                const shmem::Witness& complete) {
  if (tokens.size() == 0) return;
  TokenSum sum(context, args, complete);
  for (std::int64_t token = tokens.first; token < tokens.last; ++token) sum.write(token);
}

void fetch_gradients(runtime::CoreContext& context, const CombineArgs& args, const Slice& tokens,
                     const shmem::Witness& complete) {
  if (!args.prob_grad) return;
  const RowMap rows = rows_of(args, context.rank());
  const Bytes element = size_of(args.dtype);
  for (std::int64_t pair = tokens.first * args.layout.topk; pair < tokens.last * args.layout.topk; ++pair) {
    const auto to = args.grad_out.subspan(static_cast<std::size_t>(pair) * element.index(), element.index());
    if (const std::optional<RowPlace> place = rows.of(pair)) {
      context.get(place->owner, *args.prob_grad + element * static_cast<std::uint64_t>(place->row), to, complete);
    } else {
      std::fill(to.begin(), to.end(), std::byte{0});
    }
  }
}

std::optional<Error> weights_fault(const CombineArgs& args, Rank rank) {
  if (args.weights.empty() || args.weights.size() == args.topk_idx.size()) return std::nullopt;
  return fault_of(rank, Errc::invalid_argument,
                  fmt::format("{} weights for {} expert ids: give one for each, or none", args.weights.size(),
                              args.topk_idx.size()));
}

std::optional<Error> gradient_fault(const CombineArgs& args, const runtime::Communicator& comm) {
  const Rank rank = comm.rank();
  const std::uint64_t element = size_of(args.dtype).value();
  const std::uint64_t bytes = args.prob_grad ? args.topk_idx.size() * element : 0;
  if (args.grad_out.size() != bytes) {
    return fault_of(
        rank, Errc::invalid_argument,
        fmt::format("grad_out has {} bytes, {} expert ids {} prob_grad have {}: make it as long", args.grad_out.size(),
                    args.topk_idx.size(), args.prob_grad ? "with" : "without", bytes));
  }
  if (!args.prob_grad) return std::nullopt;
  const RowBuffer gradients{
      .name = "prob_grad", .at = *args.prob_grad, .rows = args.capacity, .row_bytes = element, .alignment = element};
  if (std::optional<Error> fault = place_fault(gradients, comm)) return fault;
  const OwnMemory own = own_part(gradients, comm);
  if (std::optional<Error> fault = overlap_fault({"x", args.x}, own, rank)) return fault;
  return overlap_fault({"grad_out", args.grad_out}, own, rank);
}

}  // namespace

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const CombineArgs& args) {
  return {.own = combine_normal_share(args) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake combine_handshake(const CombineArgs& args, const runtime::Communicator& comm) {
  const Rank rank = comm.rank();
  Handshake handshake =
      row_handshake(row_call("combine_normal", "expert_out", args.expert_out, args), rows_of(args, rank), comm);
  handshake.card.with("prob_grad", args.prob_grad ? static_cast<std::int64_t>(args.prob_grad->value()) : -1);
  if (!handshake.fault) handshake.fault = weights_fault(args, rank);
  if (!handshake.fault) handshake.fault = gradient_fault(args, comm);
  if (!handshake.fault) handshake.fault = cost_fault(args.wait_cost, args.experts.ranks(), rank);
  if (!handshake.fault) {
    handshake.fault = workspace_fault(args.workspace, combine_normal_share(args), comm);
  }
  return handshake;
}

void combine_normal_kernel(runtime::CoreContext& context, const CombineArgs& args, const Handshake& handshake) {
  runtime::ZeroBufferSync sync(context);
  const shmem::Witness complete = sync.enter(handshake.card, handshake.fault, args.wait_cost);
  const Slice tokens = context.slice(args.layout.tokens);
  sum_tokens(context, args, tokens, complete);
  fetch_gradients(context, args, tokens, complete);
  context.sync_all();
}

Result<void> combine_normal(runtime::Communicator& comm, const CombineArgs& args) {
  const Handshake handshake = combine_handshake(args, comm);
  return launch_collective(comm, "combine_normal", handshake,
                           [&](runtime::CoreContext& context) { combine_normal_kernel(context, args, handshake); });
}

}  // namespace shmoe::ops
