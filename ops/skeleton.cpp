#include "ops/skeleton.hpp"

#include "ops/ep/place.hpp"
#include "ops/registry.hpp"

namespace shmoe::ops {

namespace {

constexpr std::uint32_t kRotateSent = 1;  // the only phase

/// What only this rank can see.
std::optional<Error> rotate_fault(const runtime::Communicator& comm, const RotateArgs& args) {
  const auto bytes = static_cast<std::int64_t>(args.row.size());
  const RowBuffer inbox{.name = "inbox", .at = args.inbox, .rows = bytes, .row_bytes = 1};
  if (std::optional<Error> fault = place_fault(inbox, comm)) return fault;
  return overlap_fault({"row", args.row}, own_part(inbox, comm), comm.rank());
}

}  // namespace

std::vector<std::vector<std::byte>> rotate_reference(const std::vector<std::vector<std::byte>>& rows) {
  std::vector<std::vector<std::byte>> inboxes(rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) inboxes[(rank + 1) % rows.size()] = rows[rank];
  return inboxes;
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& /*comm*/, const RotateArgs& /*args*/) { return {}; }

Handshake rotate_handshake(const runtime::Communicator& comm, const RotateArgs& args) {
  runtime::CallCard card("rotate");
  card.with("row bytes", static_cast<std::int64_t>(args.row.size()))
      .with("inbox offset", static_cast<std::int64_t>(args.inbox.value()))
      .with("heap history", static_cast<std::int64_t>(comm.heap_history()));
  return {card, rotate_fault(comm, args)};
}

void rotate_kernel(runtime::CoreContext& context, const RotateArgs& args, const Handshake& handshake) {
  const std::int32_t ranks = context.ranks();
  const Rank right{(context.rank().value() + 1) % ranks};
  const Rank left{(context.rank().value() + ranks - 1) % ranks};
  const auto event = static_cast<std::uint32_t>(context.core().value());
  const Slice part = context.slice(static_cast<std::int64_t>(args.row.size()));
  const auto first = static_cast<std::size_t>(part.first);

  runtime::ZeroBufferSync sync(context);
  sync.enter(handshake.card, handshake.fault);
  if (part.size() > 0) {
    context.put(right, args.inbox + Bytes{first}, args.row.subspan(first, static_cast<std::size_t>(part.size())));
  }
  sync.set_flag(right, event, kRotateSent);
  sync.wait_flag(left, event, kRotateSent).ordering_only();  // the host reads the inbox, after SyncAll
  context.sync_all();
}

Result<void> rotate(runtime::Communicator& comm, const RotateArgs& args) {
  const Handshake handshake = rotate_handshake(comm, args);
  return launch_collective(comm, "rotate", handshake,
                           [&](runtime::CoreContext& context) { rotate_kernel(context, args, handshake); });
}

void register_skeleton(runtime::Registry& registry) {
  registry.add({
      .name = "rotate",
      .family = "skeleton",
      .header = "ops/skeleton.hpp",
      .does = "hands a row to the right neighbour: the operator to copy",
      .calls = {"rotate"},
      .variants = {profiles()},
      .needs = {.slots = "barrier and flag [source][core] of the communicator",
                .symmetric = {"inbox, as long as the row"}},
      .stages = {"enter: BarrierAll", "send a part, flag", "wait for the left neighbour's", "SyncAll"},
      .limits = {{.of = "bytes of the row", .safe = {}}},
      .workspace = [](const runtime::CallShape& /*shape*/) { return runtime::WorkspaceSize{}; },
  });
}

}  // namespace shmoe::ops
