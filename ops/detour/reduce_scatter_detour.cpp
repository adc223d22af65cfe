#include "ops/detour/reduce_scatter_detour.hpp"

#include <algorithm>
#include <memory_resource>
#include <vector>

#include "ops/detour/core.hpp"
#include "ops/detour/published.hpp"
#include "ops/scratch.hpp"

namespace shmoe::ops {
namespace {

constexpr std::uint32_t kTermsSent = 1;  // the only phase

/// Of each source at a time, where its memory cannot be read in place: all of them stay in the cache.
constexpr std::int64_t kTermBytes = 16 * 1024;

/// Nothing waits in the window.
bool reads_in_place(const ReduceScatterArgs& args, const DetourCall& call) {
  return args.x_at.has_value() && call.group().detours() == 0;
}

TermRoom room_of(const ReduceScatterArgs& args, const DetourCall& call, std::int32_t cores) {
  if (!call.position()) return {};
  const auto part_of = [&](std::int64_t elements) { return term_bytes(elements, call.shape().type, cores); };
  const bool in_place = reads_in_place(args, call);
  const bool carries = args.x_at.has_value() && !in_place && call.group().size() > 1;
  const std::int64_t mine = in_place ? call.chunk(*call.position()).size() : call.shards(*call.position()).length();
  return {
      .carried = carries ? part_of(call.shards(0).length()) : 0, .term = part_of(mine), .terms = call.group().size()};
}

/// One core's part of a call.
class ReduceScatterCore : DetourCore {
 public:
  ReduceScatterCore(runtime::CoreContext& context, runtime::ZeroBufferSync& sync, const ReduceScatterArgs& args,
                    const DetourCall& call)
      : DetourCore(context, sync, call),
        args_(args),
        room_(room_of(args, call, context.cores())),
        scratch_(context, args.workspace, room_.share()),
        carried_(scratch_.take<std::byte>(room_.carried)),
        terms_(scratch_.take<std::byte>(room_.term * room_.terms)),
        views_(&scratch_),
        rows_(&scratch_) {
    views_.reserve(static_cast<std::size_t>(room_.terms));
    rows_.reserve(static_cast<std::size_t>(room_.terms));
  }

  void send_and_reduce() {
    for (std::int32_t step = 1; step < positions_; ++step) send(position(step));
    const shmem::Witness arrived = wait_for_all();
    each_part(call_, me_, context_.core(), context_.cores(), [&](std::int32_t /*shard*/, const ShardPart& part) {
      reduce(part.elements, arrived, [&](std::int32_t step) {
        const Offset at = call_.place(position(step), me_) + offset(part.in_shard);
        return Term{.memory = part.memory, .at = at};
      });
    });
  }

  /// Order:   `entered`: all ranks have their x ready
  void reduce_in_place(const shmem::Witness& entered) {
    const Slice mine = context_.slice(call_.chunk(me_).size());
    reduce(mine, entered, [&](std::int32_t step) {
      return Term{.memory = call_.group().member(position(step)), .at = *args_.x_at + in_x(me_, mine.first)};
    });
  }

 private:
  /// What another position contributes.
  struct Term {
    Rank memory;
    Offset at;
  };
  using TermView = shmem::ReadView<std::byte>;

  [[nodiscard]] Bytes in_x(std::int32_t target, std::int64_t element) const {
    return offset(call_.chunk(target).first + element);
  }

  void send(std::int32_t target) {
    each_part(call_, target, context_.core(), context_.cores(), [&](std::int32_t /*shard*/, const ShardPart& part) {
      carry(part.memory, call_.place(me_, target) + offset(part.in_shard), target, part.elements);
    });
    const Rank receiver = call_.group().member(target);
    sync_.set_flag(receiver, event_, kTermsSent);
  }

  void carry(Rank memory, Offset to, std::int32_t target, Slice elements) {
    each_own_piece(target, elements, [&](std::int64_t done, std::span<const std::byte> piece) {
      context_.put(memory, to + Bytes{static_cast<std::uint64_t>(done)}, piece);
    });
  }

  /// Own memory as it is, symmetric memory through the fabric.
  template <class Act>
  void each_own_piece(std::int32_t target, Slice elements, Act act) {
    const std::uint64_t first = in_x(target, elements.first).value();
    const std::int64_t whole = call_.bytes(elements.size());
    if (!args_.x_at) return act(0, args_.x.subspan(first, static_cast<std::size_t>(whole)));
    for (std::int64_t done = 0; done < whole; done += kTermBytes) {
      const auto size = static_cast<std::size_t>(std::min(kTermBytes, whole - done));
      const Offset from = *args_.x_at + Bytes{first + static_cast<std::uint64_t>(done)};
      const auto view = context_.read<std::byte>(context_.rank(), from, carried_.first(size), shmem::Witness::own());
      act(done, view.data());
    }
  }

  shmem::Witness wait_for_all() {
    shmem::Witness arrived = shmem::Witness::own();
    for (std::int32_t step = 1; step < positions_; ++step) {
      const Rank source = call_.group().member(position(step));
      arrived = consume_token(sync_.wait_flag(source, event_, kTermsSent));
    }
    return arrived;
  }

  /// `term_of(step)`: of the position that many steps on.
  template <class TermOf>
  void reduce(Slice elements, const shmem::Witness& arrived, TermOf term_of) {
    const std::int64_t whole = call_.bytes(elements.size());
    const auto first = static_cast<std::size_t>(call_.bytes(elements.first));
    const auto block = static_cast<std::size_t>(room_.term);
    for (std::int64_t done = 0; done < whole; done += kTermBytes) {
      const auto size = static_cast<std::size_t>(std::min(kTermBytes, whole - done));
      const Bytes skipped{static_cast<std::uint64_t>(done)};
      const auto read = [&](Rank memory, Offset at, std::size_t place) {
        views_.push_back(context_.read<std::byte>(memory, at + skipped, terms_.subspan(place * block, size), arrived));
        rows_.push_back(views_.back().data());
      };
      const Bytes own = in_x(me_, elements.first);
      if (args_.x_at) {
        read(context_.rank(), *args_.x_at + own, 0);
      } else {
        rows_.push_back(args_.x.subspan((own + skipped).value(), size));
      }
      for (std::int32_t step = 1; step < positions_; ++step) {
        const Term term = term_of(step);
        read(term.memory, term.at, static_cast<std::size_t>(step));
      }
      reduce_rows(call_.shape().type, args_.reduction, rows_,
                  args_.y.subspan(first + static_cast<std::size_t>(done), size));
      rows_.clear();
      views_.clear();
    }
  }

  const ReduceScatterArgs& args_;
  TermRoom room_;
  Scratch scratch_;
  std::span<std::byte> carried_;
  std::span<std::byte> terms_;
  std::pmr::vector<TermView> views_;
  std::pmr::vector<std::span<const std::byte>> rows_;
};

constexpr std::int32_t kPublishedRanks = 16;

/// In a faithful profile, what L mod C leaves over is left out.
void check_published(const runtime::Communicator& comm, const ReduceScatterArgs& args, DetourCall& call) {
  const std::int64_t elements = call.shape().elements;
  const std::int64_t chunk = elements / call.group().size();
  call.need_tensor("x", args.x.size(), elements);
  call.need_tensor("y", args.y.size(), chunk);
  call.keep_apart({"x", args.x}, {"y", args.y});
  if (args.x_at) call.refuse("a symmetric x is none of the published operator: give x");
  if (call.shape().type != Element::fp16) {
    call.refuse(fmt::format("the published operator takes fp16 alone, not {}: use the profile safe",
                            name_of(call.shape().type)));
  }
  if (comm.ranks() > kPublishedRanks || elements % comm.ranks() != 0 || elements == 0) {
    call.refuse(
        fmt::format("{} elements on {} ranks: the published host takes at most {} ranks and whole shares of at "
                    "least one element for each; use the profile safe",
                    elements, comm.ranks(), kPublishedRanks));
  }
  const Bytes accumulator{4 * static_cast<std::uint64_t>(chunk)};
  if (std::string text = published_fault(comm, call, accumulator); !text.empty()) call.refuse(std::move(text));
}

}  // namespace

Bytes TermRoom::share() const {
  return scratch_part<std::byte>(carried) + scratch_part<std::byte>(term * terms) +
         scratch_part<shmem::ReadView<std::byte>>(terms) + scratch_part<std::span<const std::byte>>(terms);
}

std::int64_t term_bytes(std::int64_t elements, Element type, std::int32_t cores) {
  return std::min(split(elements, cores, 0).size() * bytes_of_element(type), kTermBytes);
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const ReduceScatterArgs& args) {
  return reduce_scatter_call(comm, args).workspace_size();
}

DetourCall reduce_scatter_call(const runtime::Communicator& comm, const ReduceScatterArgs& args) {
  DetourCall call(comm, "reduce_scatter_detour", args.shape);
  if (args.reduction > Reduction::min) {
    call.refuse(fmt::format("{} is no reduction: take sum, max or min", static_cast<int>(args.reduction)));
  }
  if (!comm.profile().handshake) {
    check_published(comm, args, call);
    return call;
  }
  call.agree_on("reduction", static_cast<std::int64_t>(args.reduction));
  call.agree_on("x offset", args.x_at ? static_cast<std::int64_t>(args.x_at->value()) : -1);
  if (args.x_at) {
    if (!args.x.empty()) call.refuse("x and x_at: give one of them");
    call.need_place("x_at", *args.x_at, call.shape().elements);
  } else {
    call.need_tensor("x", args.x.size(), call.shape().elements);
  }
  if (call.position()) call.need_tensor("y", args.y.size(), call.chunk(*call.position()).size());
  if (!reads_in_place(args, call) && call.group().size() > 1) call.need_window();
  call.keep_apart(args.x_at ? call.own_tensor("x_at", *args.x_at, call.shape().elements) : OwnMemory{"x", args.x},
                  {"y", args.y});
  call.need_workspace(args.workspace, room_of(args, call, comm.cores()).share());
  return call;
}

void reduce_scatter_kernel(runtime::CoreContext& context, const ReduceScatterArgs& args, const DetourCall& call) {
  if (!context.profile().handshake) return published_reduce_scatter(context, args, call);
  runtime::ZeroBufferSync sync(context);
  const shmem::Witness entered = sync.enter(call.handshake().card, call.handshake().fault);
  if (!call.position()) return;
  ReduceScatterCore core(context, sync, args, call);
  if (!reads_in_place(args, call)) return core.send_and_reduce();
  core.reduce_in_place(entered);
  sync.barrier_all();  // whoever leaves may change x
}

Result<void> reduce_scatter_detour(runtime::Communicator& comm, const ReduceScatterArgs& args) {
  const DetourCall call = reduce_scatter_call(comm, args);
  return launch_collective(comm, "reduce_scatter_detour", call.handshake(),
                           [&](runtime::CoreContext& context) { reduce_scatter_kernel(context, args, call); });
}

}  // namespace shmoe::ops
