#pragma once
// What the detour collectives have in common: who communicates, what all ranks must agree on, and what is refused.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/detour/shards.hpp"
#include "ops/ep/place.hpp"
#include "ops/handshake.hpp"
#include "runtime/communicator.hpp"
#include "runtime/registry.hpp"
#include "shmem/layout.hpp"

namespace shmoe::ops {

/// Of x, so that no product of sizes can wrap.
inline constexpr std::int64_t kMostDetourElements = std::int64_t{1} << 40;

/// The arguments that both have.
struct DetourShape {
  std::span<const Rank> members = {};  // in the order of their chunks; none: all ranks
  Element type = Element::fp32;
  /// Of the whole x, the chunks for all members: C times those of a pair. The same on every rank, also on those that only
  /// lend memory.
  std::int64_t elements = 0;
  shmem::Region window = {};  // of allocate_window; may be empty where nothing has to wait in it
};

/// One call on one rank.
class DetourCall {
 public:
  DetourCall(const runtime::Communicator& comm, std::string_view op, const DetourShape& shape);

  [[nodiscard]] const DetourGroup& group() const { return group_; }
  [[nodiscard]] const DetourShape& shape() const { return shape_; }
  /// This rank's; nothing where it only lends memory.
  [[nodiscard]] const std::optional<std::int32_t>& position() const { return position_; }
  [[nodiscard]] const Handshake& handshake() const { return handshake_; }
  /// Where a shard of a pair of positions waits, in whoever's memory.
  [[nodiscard]] Offset place(std::int32_t source, std::int32_t target) const {
    return shape_.window.at + slots_.place(source, target);
  }
  [[nodiscard]] Slice chunk(std::int32_t position) const { return group_.chunk(shape_.elements, position); }
  [[nodiscard]] Shards shards(std::int32_t position) const { return group_.shards(shape_.elements, position); }
  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const { return elements * bytes_of_element(shape_.type); }
  [[nodiscard]] std::size_t size(std::int64_t elements) const { return static_cast<std::size_t>(bytes(elements)); }

  /// An argument that all ranks must have alike.
  void agree_on(std::string_view name, std::int64_t value) { handshake_.card.with(name, value); }
  /// The first fault stays.
  void refuse(std::string text);
  void refuse(const std::optional<Error>& fault);
  /// The shards wait in the window.
  void need_window();
  /// Bytes of it; 0 where nothing waits there.
  [[nodiscard]] Bytes window_needed() const { return window_needed_; }
  /// Memory for what each core takes for itself.
  void need_workspace(std::span<const std::byte> workspace, Bytes share);
  [[nodiscard]] runtime::WorkspaceSize workspace_size() const;
  /// Members alone have it; others may pass none.
  void need_tensor(const char* name, std::size_t size, std::int64_t elements);
  /// A symmetric tensor.
  void need_place(const char* name, Offset at, std::int64_t elements);
  /// This rank's part of it; nothing where the call is refused.
  [[nodiscard]] OwnMemory own_tensor(const char* name, Offset at, std::int64_t elements) const;
  /// Neither tensor may lie in the other or, where it is needed, in the window. Others than members have none.
  void keep_apart(const OwnMemory& x, const OwnMemory& y);

 private:
  [[nodiscard]] RowBuffer tensor(const char* name, Offset at, std::int64_t elements) const;
  [[nodiscard]] RowBuffer window() const;
  [[nodiscard]] OwnMemory own_part_of(const RowBuffer& buffer) const;

  const runtime::Communicator* comm_;
  DetourShape shape_;
  DetourGroup group_;
  DetourSlots slots_;
  std::optional<std::int32_t> position_;
  Handshake handshake_;
  Bytes window_needed_{0};
  Bytes share_{0};
};

/// Slices of a shard that one core moves and its counterpart on the other rank waits for.
struct ShardPart {
  Rank memory;     // whose
  Slice elements;  // of the chunk
  std::int64_t in_shard = 0;
};

/// Calls act(shard, part) for what core `core` of `cores` has of each shard for the rank at `target`.
template <class Act>
void each_part(const DetourCall& call, std::int32_t target, Core core, std::int32_t cores, Act act) {
  const Shards shards = call.shards(target);
  for (std::int32_t shard = 0; shard < shards.count; ++shard) {
    const Slice whole = shards.at(shard);
    const Slice mine = split(whole.size(), cores, core.value());
    if (mine.size() == 0) continue;
    act(shard, ShardPart{.memory = call.group().memory_of(shard, call.group().member(target)),
                         .elements = {whole.first + mine.first, whole.first + mine.last},
                         .in_shard = mine.first});
  }
}

}  // namespace shmoe::ops
