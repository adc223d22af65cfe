#include "ops/ep/dispatch_normal.hpp"

#include "ops/ep/rows.hpp"

namespace shmoe::ops {

namespace {

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
  return row_handshake(row_call("dispatch_normal", "recv_x", args.recv_x, args), rows_of(args, rank), map,
                       heap_history);
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
