#include "ops/detour/all_to_all_detour.hpp"

#include <algorithm>

#include "ops/detour/core.hpp"
#include "ops/detour/published.hpp"
#include "ops/scratch.hpp"
#include "shmem/copy.hpp"

namespace shmoe::ops {
namespace {

constexpr std::uint32_t kShardsSent = 1;  // the only phase

/// What fits into a core's cache beside the source.
constexpr std::int64_t kCarriedBytes = 64 * 1024;

/// What a core carries from the window to a symmetric y.
Bytes carried_share(const AllToAllArgs& args, const DetourCall& call, std::int32_t cores) {
  if (!args.y_at || !call.position() || call.group().detours() == 0 || call.group().size() == 1) return Bytes{0};
  const std::int64_t part = split(call.shards(*call.position()).length(), cores, 0).size();
  return scratch_part<std::byte>(std::min(call.bytes(part), kCarriedBytes));
}

/// One core's part of a call.
class AllToAllCore : DetourCore {
 public:
  AllToAllCore(runtime::CoreContext& context, runtime::ZeroBufferSync& sync, const AllToAllArgs& args,
               const DetourCall& call)
      : DetourCore(context, sync, call),
        args_(args),
        scratch_(context, args.workspace, carried_share(args, call, context.cores())),
        carried_(
            scratch_.take<std::byte>(static_cast<std::int64_t>(carried_share(args, call, context.cores()).value()))) {}

  void run() {
    for (std::int32_t step = 1; step < positions_; ++step) send(position(step));
    keep();
    for (std::int32_t step = 1; step < positions_; ++step) receive(position(positions_ - step));
  }

 private:
  [[nodiscard]] bool is_direct(std::int32_t shard) const { return shard == 0 && args_.y_at.has_value(); }
  /// Of the chunk of `source` in the y of `target`, in bytes.
  [[nodiscard]] std::int64_t in_y(std::int32_t source, std::int32_t target, std::int64_t element) const {
    return call_.bytes(source * call_.chunk(target).size() + element);
  }
  [[nodiscard]] std::span<const std::byte> in_x(std::int32_t target, Slice elements) const {
    return args_.x.subspan(call_.size(call_.chunk(target).first + elements.first), call_.size(elements.size()));
  }

  void send(std::int32_t target) {
    const Rank receiver = call_.group().member(target);
    each_part(call_, target, context_.core(), context_.cores(), [&](std::int32_t shard, const ShardPart& part) {
      const Offset to = is_direct(shard)
                            ? *args_.y_at + Bytes{static_cast<std::uint64_t>(in_y(me_, target, part.elements.first))}
                            : call_.place(me_, target) + offset(part.in_shard);
      context_.put(part.memory, to, in_x(target, part.elements));
    });
    sync_.set_flag(receiver, event_, kShardsSent);
  }

  void keep() {
    const Slice part = context_.slice(call_.chunk(me_).size());
    if (part.size() > 0) write(me_, part.first, in_x(me_, part));
  }

  void receive(std::int32_t source) {
    const Rank sender = call_.group().member(source);
    const shmem::Witness arrived = consume_token(sync_.wait_flag(sender, event_, kShardsSent));
    each_part(call_, me_, context_.core(), context_.cores(), [&](std::int32_t shard, const ShardPart& part) {
      if (!is_direct(shard)) fetch(source, part, arrived);
    });
  }

  void fetch(std::int32_t source, const ShardPart& part, const shmem::Witness& arrived) {
    const Offset from = call_.place(source, me_) + offset(part.in_shard);
    if (!args_.y_at) {
      const std::span<std::byte> to = args_.y.subspan(static_cast<std::size_t>(in_y(source, me_, part.elements.first)),
                                                      call_.size(part.elements.size()));
      return context_.get(part.memory, from, to, arrived);
    }
    const std::int64_t whole = call_.bytes(part.elements.size());
    for (std::int64_t done = 0; done < whole; done += kCarriedBytes) {
      const auto size = static_cast<std::size_t>(std::min(kCarriedBytes, whole - done));
      const auto view = context_.read<std::byte>(part.memory, from + Bytes{static_cast<std::uint64_t>(done)},
                                                 carried_.first(size), arrived);
      const auto at = static_cast<std::uint64_t>(in_y(source, me_, part.elements.first) + done);
      context_.put(context_.rank(), *args_.y_at + Bytes{at}, view.data());
    }
  }

  void write(std::int32_t source, std::int64_t element, std::span<const std::byte> bytes) {
    const auto at = static_cast<std::uint64_t>(in_y(source, me_, element));
    if (args_.y_at) return context_.put(context_.rank(), *args_.y_at + Bytes{at}, bytes);
    shmem::copy_row(args_.y.subspan(at, bytes.size()), bytes, shmem::CopyKind::cached);
  }

  const AllToAllArgs& args_;
  Scratch scratch_;
  std::span<std::byte> carried_;
};

/// In a faithful profile y is as long as x, and what L mod C leaves over stays as it is.
void check_published(const runtime::Communicator& comm, const AllToAllArgs& args, DetourCall& call) {
  call.need_tensor("x", args.x.size(), call.shape().elements);
  call.need_tensor("y", args.y.size(), call.shape().elements);
  call.keep_apart({"x", args.x}, {"y", args.y});
  if (args.y_at) call.refuse("a symmetric y is none of the published operator: give y");
  if (std::string text = published_fault(comm, call, Bytes{0}); !text.empty()) call.refuse(std::move(text));
}

}  // namespace

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const AllToAllArgs& args) {
  return all_to_all_call(comm, args).workspace_size();
}

DetourCall all_to_all_call(const runtime::Communicator& comm, const AllToAllArgs& args) {
  DetourCall call(comm, "all_to_all_detour", args.shape);
  if (!comm.profile().handshake) {
    check_published(comm, args, call);
    return call;
  }
  const std::int32_t positions = call.group().size();
  call.agree_on("y offset", args.y_at ? static_cast<std::int64_t>(args.y_at->value()) : -1);
  call.need_tensor("x", args.x.size(), call.shape().elements);
  if (args.y_at) {
    if (!args.y.empty()) call.refuse("y and y_at: give one of them");
    call.need_place("y_at", *args.y_at, positions * call.chunk(0).size());
  } else if (call.position()) {
    call.need_tensor("y", args.y.size(), positions * call.chunk(*call.position()).size());
  }
  const bool waits = call.group().detours() > 0 || !args.y_at;
  if (waits && positions > 1) call.need_window();
  call.keep_apart({"x", args.x}, args.y_at ? call.own_tensor("y_at", *args.y_at, positions * call.chunk(0).size())
                                           : OwnMemory{"y", args.y});
  call.need_workspace(args.workspace, carried_share(args, call, comm.cores()));
  return call;
}

void all_to_all_kernel(runtime::CoreContext& context, const AllToAllArgs& args, const DetourCall& call) {
  if (!context.profile().handshake) return published_all_to_all(context, args, call);
  runtime::ZeroBufferSync sync(context);
  sync.enter(call.handshake().card, call.handshake().fault);
  if (call.position()) AllToAllCore(context, sync, args, call).run();
}

Result<void> all_to_all_detour(runtime::Communicator& comm, const AllToAllArgs& args) {
  const DetourCall call = all_to_all_call(comm, args);
  return launch_collective(comm, "all_to_all_detour", call.handshake(),
                           [&](runtime::CoreContext& context) { all_to_all_kernel(context, args, call); });
}

}  // namespace shmoe::ops
