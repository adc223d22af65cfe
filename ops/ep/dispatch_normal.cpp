#include "ops/ep/dispatch_normal.hpp"

#include "ops/ep/row_map.hpp"

namespace shmoe::ops {

namespace {

RowMap rows_of(const DispatchArgs& args, Rank rank) {
  return {rank, args.topk_idx, args.experts, args.layout, args.notify};
}

std::optional<Error> dispatch_fault(const DispatchArgs& args, const shmem::BlockMap& map, Rank rank) {
  const RowBuffer recv_x{"recv_x", args.recv_x, args.capacity, args.dtype, args.hidden};
  if (std::optional<Error> fault = row_buffer_fault(recv_x, map, args.notify, rank)) return fault;
  const std::uint64_t bytes = static_cast<std::uint64_t>(args.layout.tokens) * row_bytes(args.dtype, args.hidden);
  if (args.x.size() != bytes) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("dispatch: x has {} bytes, {} tokens of {} {} have {}", args.x.size(),
                                args.layout.tokens, args.hidden, name_of(args.dtype), bytes));
  }
  return rows_of(args, rank).fault();
}

void send_rows(runtime::CoreContext& context, const DispatchArgs& args) {
  const RowMap rows = rows_of(args, context.rank());
  const std::uint64_t stride = row_bytes(args.dtype, args.hidden);
  const std::int64_t topk = args.layout.topk;
  const Slice pairs = context.slice(args.layout.tokens * topk);
  for (std::int64_t pair = pairs.first; pair < pairs.last; ++pair) {
    const std::optional<RowPlace> place = rows.of(pair);
    if (!place) continue;
    const auto token = static_cast<std::uint64_t>(pair / topk);
    context.put(place->owner, args.recv_x + Bytes{stride} * static_cast<std::uint64_t>(place->row),
                args.x.subspan(token * stride, stride));
  }
}

}  // namespace

Handshake dispatch_handshake(const DispatchArgs& args, const shmem::BlockMap& map, Rank rank,
                             std::uint64_t heap_history) {
  runtime::CallCard card("dispatch_normal");
  card.with("experts", args.experts.experts())
      .with("topk", args.layout.topk)
      .with("hidden", args.hidden)
      .with("dtype", static_cast<std::int64_t>(args.dtype))
      .with("capacity", args.capacity)
      .with("rows offset", static_cast<std::int64_t>(args.recv_x.value()))
      .with("notify total", args.notify.total_recv_tokens)
      .with("heap history", static_cast<std::int64_t>(heap_history));
  return {card, dispatch_fault(args, map, rank)};
}

void dispatch_normal_kernel(runtime::CoreContext& context, const DispatchArgs& args, const Handshake& handshake) {
  runtime::ZeroBufferSync sync(context);
  sync.enter(handshake.card, handshake.fault);
  send_rows(context, args);
  sync.barrier_all();
}

Result<void> dispatch_normal(runtime::Communicator& comm, const DispatchArgs& args) {
  const Handshake handshake = dispatch_handshake(args, comm.map(), comm.rank(), comm.heap_history());
  return launch_collective(comm, "dispatch_normal", handshake,
                           [&](runtime::CoreContext& context) { dispatch_normal_kernel(context, args, handshake); });
}

}  // namespace shmoe::ops
