#include "ops/ep/dispatch_normal.hpp"

#include "ops/ep/rows.hpp"
#include "ops/scratch.hpp"
#include "shmem/quantise.hpp"

namespace shmoe::ops {

namespace {

constexpr Bytes kScale{4};  // fp32

/// What goes out for a token. A quantised row is made once and serves all the experts of its token.
class OutgoingRow {
 public:
  OutgoingRow(runtime::CoreContext& context, const DispatchArgs& args)
      : args_(&args),
        scratch_(context, args.workspace, dispatch_normal_share(args.quant, args.hidden)),
        quantised_(scratch_.take<std::byte>(args.quant == Quant::int8 ? args.hidden : 0)) {}

  void choose(std::int64_t token) {
    if (token == token_) return;
    token_ = token;
    const std::uint64_t size = row_bytes(args_->dtype, args_->hidden);
    bytes_ = args_->x.subspan(static_cast<std::uint64_t>(token) * size, size);
    if (args_->quant == Quant::none) return;
    scale_ = shmem::quantise_row(args_->dtype, bytes_, quantised_);
    bytes_ = quantised_;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::span<const float> scale() const { return {&scale_, 1}; }

 private:
  const DispatchArgs* args_;
  Scratch scratch_;
  std::span<std::byte> quantised_;
  std::int64_t token_ = -1;
  std::span<const std::byte> bytes_;
  float scale_ = 0;
};

void send_rows(runtime::CoreContext& context, const DispatchArgs& args) {
  const RowMap rows = rows_of(args, context.rank());
  const Bytes stride{row_bytes(args.dtype, args.hidden, args.quant)};
  const Slice pairs = context.slice(args.layout.tokens * args.layout.topk);
  OutgoingRow row(context, args);
  for (std::int64_t pair = pairs.first; pair < pairs.last; ++pair) {
    const std::optional<RowPlace> place = rows.of(pair);
    if (!place) continue;
    const auto index = static_cast<std::uint64_t>(place->row);
    row.choose(pair / args.layout.topk);
    context.put(place->owner, args.recv_x + stride * index, row.bytes());
    if (args.quant == Quant::int8) context.put(place->owner, args.recv_scales + kScale * index, row.scale());
  }
}

RowCall row_call_of(const DispatchArgs& args) {
  return row_call("dispatch_normal", "recv_x", args.recv_x, args, args.quant);
}

std::optional<Error> scales_fault(const DispatchArgs& args, const runtime::Communicator& comm) {
  if (args.quant == Quant::none) return std::nullopt;
  const RowBuffer scales{.name = "recv_scales",
                         .at = args.recv_scales,
                         .rows = args.capacity,
                         .row_bytes = kScale.value(),
                         .alignment = kScale.value()};
  if (std::optional<Error> fault = place_fault(scales, comm)) return fault;
  const OwnMemory own = own_part(scales, comm);
  if (std::optional<Error> fault = overlap_fault({"x", args.x}, own, comm.rank())) return fault;
  return overlap_fault(own_part(rows_of(row_call_of(args)), comm), own, comm.rank());
}

}  // namespace

Bytes dispatch_normal_share(Quant quant, std::int64_t hidden) {
  return scratch_part<std::byte>(quant == Quant::int8 ? hidden : 0);  // a row on its way
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const DispatchArgs& args) {
  return {.own = dispatch_normal_share(args.quant, args.hidden) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake dispatch_handshake(const DispatchArgs& args, const runtime::Communicator& comm) {
  const Rank rank = comm.rank();
  const RowMap rows = rows_of(args, rank);
  Handshake handshake = row_handshake(row_call_of(args), rows, comm);
  const Offset scales = args.quant == Quant::int8 ? args.recv_scales : Offset{0};
  handshake.card.with("quantisation", static_cast<std::int64_t>(args.quant))
      .with("scales offset", static_cast<std::int64_t>(scales.value()));
  if (!handshake.fault) handshake.fault = scales_fault(args, comm);
  if (!handshake.fault) handshake.fault = cost_fault(args.wait_cost, args.experts.ranks(), rank);
  if (!handshake.fault) {
    const Bytes share = dispatch_normal_share(args.quant, args.hidden);
    handshake.fault = workspace_fault(args.workspace, share, comm);
  }
  return handshake;
}

void dispatch_normal_kernel(runtime::CoreContext& context, const DispatchArgs& args, const Handshake& handshake) {
  runtime::ZeroBufferSync sync(context);
  sync.enter(handshake.card, handshake.fault);
  send_rows(context, args);
  sync.barrier_all(args.wait_cost);
}

Result<void> dispatch_normal(runtime::Communicator& comm, const DispatchArgs& args) {
  const Handshake handshake = dispatch_handshake(args, comm);
  return launch_collective(comm, "dispatch_normal", handshake,
                           [&](runtime::CoreContext& context) { dispatch_normal_kernel(context, args, handshake); });
}

}  // namespace shmoe::ops
