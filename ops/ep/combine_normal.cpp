#include "ops/ep/combine_normal.hpp"

#include <memory>
#include <vector>

#include "ops/ep/rows.hpp"
#include "shmem/copy.hpp"

namespace shmoe::ops {

namespace {

/// One core's sums; its lists are made once and refilled for each token.
class TokenSum {
 public:
  TokenSum(runtime::CoreContext& context, const CombineArgs& args, const shmem::Witness& complete)
      : context_(&context),
        args_(&args),
        complete_(complete),
        rows_(rows_of(args, context.rank())),
        stride_(row_bytes(args.dtype, args.hidden)),
        scratch_(std::make_unique_for_overwrite<std::byte[]>(stride_ * topk())) {
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
    const std::span<std::byte> room{scratch_.get() + views_.size() * stride_, stride_};
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
  std::unique_ptr<std::byte[]> scratch_;  // K rows, used where the fabric gives no views
  std::vector<shmem::ReadView<std::byte>> views_;
  std::vector<std::span<const std::byte>> spans_;
  std::vector<float> weights_;
};

}  // namespace

Handshake combine_handshake(const CombineArgs& args, const shmem::BlockMap& map, Rank rank,
                            std::uint64_t heap_history) {
  Handshake handshake = row_handshake(row_call("combine_normal", "expert_out", args.expert_out, args),
                                      rows_of(args, rank), map, heap_history);
  if (!handshake.fault && !args.weights.empty() && args.weights.size() != args.topk_idx.size()) {
    handshake.fault = fault_of(rank, Errc::invalid_argument,
                               fmt::format("{} weights for {} expert ids", args.weights.size(), args.topk_idx.size()));
  }
  return handshake;
}

void combine_normal_kernel(runtime::CoreContext& context, const CombineArgs& args, const Handshake& handshake) {
  runtime::ZeroBufferSync sync(context);
  const shmem::Witness complete = sync.enter(handshake.card, handshake.fault);
  const Slice tokens = context.slice(args.layout.tokens);
  if (tokens.size() > 0) {
    TokenSum sum(context, args, complete);
    for (std::int64_t token = tokens.first; token < tokens.last; ++token) sum.write(token);
  }
  context.sync_all();
}

Result<void> combine_normal(runtime::Communicator& comm, const CombineArgs& args) {
  const Handshake handshake = combine_handshake(args, comm.map(), comm.rank(), comm.heap_history());
  return launch_collective(comm, "combine_normal", handshake,
                           [&](runtime::CoreContext& context) { combine_normal_kernel(context, args, handshake); });
}

}  // namespace shmoe::ops
