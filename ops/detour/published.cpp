#include "ops/detour/published.hpp"

#include <algorithm>
#include <array>
#include <memory_resource>

#include "runtime/legacy_sync.hpp"
#include "runtime/zero_buffer_sync.hpp"
#include "shmem/number.hpp"

namespace shmoe::ops {
namespace {

constexpr std::uint64_t kHalves[] = {0, 1};
constexpr std::uint64_t kGranule = 64;
constexpr std::int64_t kRanksACore = 46;  // of detours, before a core takes two

std::string pair_name(Rank source, Rank target, std::uint64_t half) {
  return fmt::format("detour {} to {} half {}", source, target, half);
}
std::string progress_name(Rank rank, std::uint64_t half) {
  return fmt::format("detour progress {} half {}", rank, half);
}

/// What both kernels have.
class PublishedDetourCore {
 public:
  PublishedDetourCore(runtime::CoreContext& context, const DetourCall& call, std::uint64_t magic)
      : context_(context),
        call_(call),
        slots_(context.map().shape.ipc_data, context.ranks()),
        magic_(magic),
        sync_(context, {}, Round{magic}),
        me_(*call.position()),
        core_(context.core().value()) {}

 protected:
  [[nodiscard]] Rank member(std::int32_t position) const { return call_.group().member(position); }
  [[nodiscard]] std::int32_t positions() const { return call_.group().size(); }
  [[nodiscard]] std::int32_t detours() const { return call_.group().detours(); }
  [[nodiscard]] Offset window() const { return context_.map().ipc_data.at; }
  [[nodiscard]] Offset data(std::int32_t source, std::int32_t target) const {
    return window() + slots_.data(member(source), member(target), magic_);
  }
  [[nodiscard]] Slot flag(std::int32_t source, std::int32_t target) const {
    return context_.slots().family(pair_name(member(source), member(target), magic_ % 2)).at(0, member(source));
  }
  [[nodiscard]] Slice shard_of(std::int64_t chunk, std::int32_t shard) const {
    return Shards{.elements = chunk, .count = detours() + 1}.at(shard);
  }
  void send(std::int32_t target, std::int32_t shard, std::span<const std::byte> bytes) {
    const Rank memory = call_.group().memory_of(shard, member(target));
    context_.put(memory, data(me_, target), bytes);
    sync_.set(memory, flag(me_, target), 1);
  }
  shmem::Witness wait_for(std::int32_t source, std::int32_t shard) {
    const Rank memory = call_.group().memory_of(shard, member(me_));
    return consume_token(sync_.wait(memory, flag(source, me_), 1));
  }

  runtime::CoreContext& context_;
  const DetourCall& call_;
  PublishedSlots slots_;
  std::uint64_t magic_;
  runtime::LegacySync sync_;
  std::int32_t me_;
  std::int32_t core_;
};

class PublishedAllToAll : PublishedDetourCore {
 public:
  PublishedAllToAll(runtime::CoreContext& context, const AllToAllArgs& args, const DetourCall& call,
                    std::uint64_t magic)
      : PublishedDetourCore(context, call, magic), args_(args), chunk_(call.shape().elements / call.group().size()) {}

  void run() {
    if (core_ == 0) {
      std::ranges::copy(in_x(me_, {0, chunk_}), in_y(me_, {0, chunk_}).begin());
      return;
    }
    each([&](std::int32_t target, std::int32_t shard, Slice part) { send(target, shard, in_x(target, part)); });
    each([&](std::int32_t source, std::int32_t shard, Slice part) {
      const Rank memory = call_.group().memory_of(shard, member(me_));
      context_.get(memory, data(source, me_), in_y(source, part), wait_for(source, shard));
    });
  }

 private:
  /// The shards of this core, of every other position.
  template <class Act>
  void each(Act act) const {
    const std::int32_t a_core = static_cast<std::int32_t>((context_.ranks() + kRanksACore - 1) / kRanksACore);
    const std::int32_t first = core_ == 1 ? 0 : 1 + (core_ - 2) * a_core;
    const std::int32_t last = core_ == 1 ? 1 : std::min(first + a_core, detours() + 1);
    for (std::int32_t other = 0; other < positions(); ++other) {
      if (other == me_) continue;
      for (std::int32_t shard = first; shard < last; ++shard) {
        const Slice part = shard_of(chunk_, shard);
        if (part.size() > 0) act(other, shard, part);
      }
    }
  }
  [[nodiscard]] std::span<const std::byte> in_x(std::int32_t target, Slice part) const {
    return args_.x.subspan(call_.size(target * chunk_ + part.first), call_.size(part.size()));
  }
  [[nodiscard]] std::span<std::byte> in_y(std::int32_t source, Slice part) const {
    return args_.y.subspan(call_.size(source * chunk_ + part.first), call_.size(part.size()));
  }

  const AllToAllArgs& args_;
  std::int64_t chunk_;
};

class PublishedReduceScatter : PublishedDetourCore {
 public:
  PublishedReduceScatter(runtime::CoreContext& context, const ReduceScatterArgs& args, const DetourCall& call,
                         std::uint64_t magic)
      : PublishedDetourCore(context, call, magic), args_(args), chunk_(call.shape().elements / call.group().size()) {}

  void run() {
    const std::int32_t shards = detours() + 1;
    if (core_ < shards * (positions() - 1) + 1) send_part(shards);
    if (core_ >= 1 && core_ <= shards) reduce(core_ - 1);
  }

 private:
  using Halves = std::pmr::vector<std::uint16_t>;
  using Floats = std::pmr::vector<float>;

  void send_part(std::int32_t shards) {
    if (core_ == 0) return start();
    const std::int32_t other = (core_ - 1) / shards;
    const std::int32_t target = other < me_ ? other : other + 1;
    const std::int32_t shard = (core_ - 1) % shards;
    const Slice part = shard_of(chunk_, shard);
    if (part.size() > 0) send(target, shard, in_x(target, part));
  }

  /// The accumulator begins with the own chunk.
  void start() {
    const std::span<const std::byte> own = in_x(me_, {0, chunk_});
    Floats sums(static_cast<std::size_t>(chunk_), context_.workspace());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      std::uint16_t bits = 0;
      std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(2 * i), 2, reinterpret_cast<std::byte*>(&bits));
      sums[i] = shmem::fp16_to_float(bits);
    }
    context_.put(context_.rank(), data(me_, me_), sums);
    sync_.set(context_.rank(), flag(me_, me_), 1);
  }

  void reduce(std::int32_t shard) {
    const Slice part = shard_of(chunk_, shard);
    if (part.size() == 0) return;
    const Offset sums_at = data(me_, me_) + Bytes{4 * static_cast<std::uint64_t>(part.first)};
    Floats sums(static_cast<std::size_t>(part.size()), context_.workspace());
    for (std::int32_t step = 0; step < positions() - 1; ++step) {
      const std::int32_t source = (me_ + 1 + step) % positions();
      const shmem::Witness ready = step == 0 ? consume_token(sync_.wait(context_.rank(), flag(me_, me_), 1))
                                             : consume_token(wait_progress(step));
      context_.get(context_.rank(), sums_at, sums, ready);
      add(source, shard, sums);
      context_.put(context_.rank(), sums_at, sums);
      sync_.set(context_.rank(), progress(), static_cast<std::uint32_t>(step + 1));
    }
    context_.get(context_.rank(), sums_at, sums, consume_token(wait_progress(positions() - 1)));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::uint16_t bits = shmem::float_to_fp16(sums[i]);
      const auto* from = reinterpret_cast<const std::byte*>(&bits);
      std::copy_n(from, 2, args_.y.begin() + static_cast<std::ptrdiff_t>(call_.size(part.first) + 2 * i));
    }
  }

  void add(std::int32_t source, std::int32_t shard, Floats& sums) {
    const Rank memory = call_.group().memory_of(shard, member(me_));
    Halves terms(sums.size(), context_.workspace());
    context_.get(memory, data(source, me_), terms, wait_for(source, shard));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const float term = shmem::fp16_to_float(terms[i]);
      if (args_.reduction == Reduction::sum) sums[i] += term;
      if (args_.reduction == Reduction::max) sums[i] = std::max(sums[i], term);
      if (args_.reduction == Reduction::min) sums[i] = std::min(sums[i], term);
    }
  }

  [[nodiscard]] Slot progress() const {
    return context_.slots().family(progress_name(context_.rank(), magic_ % 2)).at(0, Rank{0});
  }
  shmem::Token wait_progress(std::int32_t step) {
    return sync_.wait(context_.rank(), progress(), static_cast<std::uint32_t>(step));
  }
  [[nodiscard]] std::span<const std::byte> in_x(std::int32_t target, Slice part) const {
    return args_.x.subspan(call_.size(target * chunk_ + part.first), call_.size(part.size()));
  }

  const ReduceScatterArgs& args_;
  std::int64_t chunk_;
};

/// Every rank counts every call, also one that it has no part in.
std::uint64_t next_magic(runtime::CoreContext& context) {
  return published_magic(runtime::ZeroBufferSync(context).round());
}

}  // namespace

std::string PublishedSlots::fault(Bytes payload) const {
  const std::string slots = fmt::format("{} x {} slots of {} bytes, in halves of {}", ranks_, ranks_, slot_, half());
  if (half().value() % kGranule != 0) {
    return fmt::format(
        "the ipc window has {}, no multiple of {}: flags and data would lie across cache lines; set "
        "SHMOE_BUFFSIZE so that window / (2 * {}^2) is one, or use the profile safe",
        slots, kGranule, ranks_);
  }
  if (half() >= kFlagBytes + payload) return {};
  return fmt::format(
      "the ipc window has {}; {} of flags and {} bytes of data need {}: they would reach into the next "
      "slot, and the last one out of the window; raise SHMOE_BUFFSIZE, or use the profile safe",
      slots, kFlagBytes, payload, kFlagBytes + payload);
}

void declare_published_detours(shmem::SlotPlan& plan, const shmem::BlockMap& map) {
  const std::int32_t ranks = map.shape.ranks;
  const PublishedSlots slots(map.shape.ipc_data, ranks);
  if (slots.half().value() % kGranule != 0 || !slots.fault(Bytes{0}).empty()) return;
  for (Rank source{0}; source.value() < ranks; ++source) {
    for (Rank target{0}; target.value() < ranks; ++target) {
      for (const std::uint64_t half : kHalves) {
        plan.declare({.name = pair_name(source, target, half),
                      .base = map.ipc_data.at + slots.slot(source, target, half),
                      .sources = static_cast<std::uint32_t>(ranks)});
      }
    }
    for (const std::uint64_t half : kHalves) {
      plan.declare({.name = progress_name(source, half),
                    .base = map.ipc_data.at + slots.progress(source, half),
                    .writers = shmem::Writers::own_cores});
    }
  }
}

void published_all_to_all(runtime::CoreContext& context, const AllToAllArgs& args, const DetourCall& call) {
  const std::uint64_t magic = next_magic(context);
  if (call.position()) PublishedAllToAll(context, args, call, magic).run();
}

void published_reduce_scatter(runtime::CoreContext& context, const ReduceScatterArgs& args, const DetourCall& call) {
  const std::uint64_t magic = next_magic(context);
  if (call.position()) PublishedReduceScatter(context, args, call, magic).run();
}

std::string published_fault(const runtime::Communicator& comm, const DetourCall& call, Bytes accumulator) {
  const PublishedSlots slots(comm.map().shape.ipc_data, comm.ranks());
  const std::int64_t chunk = call.shape().elements / call.group().size();
  const Bytes shard{call.size(Shards{.elements = chunk, .count = call.group().detours() + 1}.length())};
  if (std::string text = slots.fault(std::max(shard, accumulator)); !text.empty()) return text;
  const auto& families = comm.slots().families();
  const std::string name = pair_name(Rank{0}, Rank{0}, 0);
  if (std::ranges::find(families, name, &shmem::SlotFamily::name) != families.end()) return {};
  return "the flags of the published detours are not declared: Config::declare_slots = declare_published_detours";
}

}  // namespace shmoe::ops
