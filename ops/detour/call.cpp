#include "ops/detour/call.hpp"

#include "ops/scratch.hpp"

namespace shmoe::ops {
namespace {

/// Of a group that cannot be one: all ranks, so that the call can say so on every rank.
std::span<const Rank> usable(std::span<const Rank> members, std::int32_t ranks) {
  return DetourGroup::fault(members, ranks).empty() ? members : std::span<const Rank>{};
}

Element usable(Element type) { return is_known(type) ? type : Element::fp32; }
std::int64_t usable(std::int64_t elements) { return elements >= 0 && elements <= kMostDetourElements ? elements : 0; }

}  // namespace

DetourCall::DetourCall(const runtime::Communicator& comm, std::string_view op, const DetourShape& shape)
    : comm_(&comm),
      shape_(shape),
      group_(usable(shape.members, comm.ranks()), comm.ranks()),
      slots_(group_, usable(shape.elements), usable(shape.type)),
      position_(group_.position_of(comm.rank())),
      handshake_{runtime::CallCard(op), std::nullopt} {
  handshake_.card.with_ranks("group", group_.members())
      .with("elements", shape.elements)
      .with("element type", static_cast<std::int64_t>(shape.type))
      .with("group size", group_.size())
      .with("window offset", static_cast<std::int64_t>(shape.window.at.value()))
      .with("window bytes", static_cast<std::int64_t>(shape.window.size.value()))
      .with("heap history", static_cast<std::int64_t>(comm.heap_history()));
  if (std::string text = DetourGroup::fault(shape.members, comm.ranks()); !text.empty()) refuse(std::move(text));
  if (usable(shape.elements) != shape.elements) {
    refuse(fmt::format("{} elements of x: 0 to {} are possible", shape.elements, kMostDetourElements));
  }
  if (!is_known(shape.type)) {
    refuse(fmt::format("{} is no element type: take fp16, bf16, fp32 or int32", static_cast<int>(shape.type)));
  }
  shape_.elements = usable(shape.elements);
  shape_.type = usable(shape.type);
}

void DetourCall::refuse(std::string text) {
  if (handshake_.fault) return;
  handshake_.fault = fault_of(comm_->rank(), Errc::invalid_argument, std::move(text));
}

void DetourCall::refuse(const std::optional<Error>& fault) {
  if (!handshake_.fault) handshake_.fault = fault;
}

void DetourCall::need_window() {
  const shmem::Region& window = shape_.window;
  window_needed_ = slots_.size();
  const std::uint64_t needed = window_needed_.value();
  if (needed > window.size.value()) {
    if (window.size == Bytes{0}) {
      return refuse(
          fmt::format("shards wait in a window of {} bytes, and the call has none: pass .window = "
                      "*ops::allocate_window(comm), or a region of workspace_size().symmetric bytes",
                      needed));
    }
    return refuse(
        fmt::format("{} slots of {} bytes are {} bytes, the ipc window has {}: set SHMOE_BUFFSIZE to {} or more (MiB) "
                    "on every rank for allocate_window, or send less at a time",
                    group_.size() * group_.size(), slots_.slot(), needed, window.size,
                    round_up(needed, shmem::kMiB) / shmem::kMiB));
  }
  if (needed == 0) return;
  refuse(place_fault(this->window(), *comm_));
}

RowBuffer DetourCall::window() const {
  return {.name = "the ipc window",
          .at = shape_.window.at,
          .rows = window_needed_ == Bytes{0} ? 0 : 1,
          .row_bytes = shape_.window.size.value(),
          .alignment = 64};
}

OwnMemory DetourCall::own_part_of(const RowBuffer& buffer) const {
  return handshake_.fault ? OwnMemory{buffer.name, {}} : own_part(buffer, *comm_);
}

void DetourCall::need_workspace(std::span<const std::byte> workspace, Bytes share) {
  share_ = share;
  if (!handshake_.fault) handshake_.fault = workspace_fault(workspace, share, *comm_);
}

runtime::WorkspaceSize DetourCall::workspace_size() const {
  return {.symmetric = window_needed_, .own = share_ * static_cast<std::uint64_t>(comm_->cores())};
}

void DetourCall::need_tensor(const char* name, std::size_t size, std::int64_t elements) {
  if (!position_ || size == this->size(elements)) return;
  refuse(
      fmt::format("{} has {} bytes; {} elements of {} are {}; .elements counts the whole x, the chunks "
                  "for all members",
                  name, size, elements, name_of(shape_.type), this->size(elements)));
}

void DetourCall::need_place(const char* name, Offset at, std::int64_t elements) {
  refuse(place_fault(tensor(name, at, elements), *comm_));
}

RowBuffer DetourCall::tensor(const char* name, Offset at, std::int64_t elements) const {
  return {.name = name, .at = at, .rows = elements, .row_bytes = size(1), .alignment = size(1)};
}

OwnMemory DetourCall::own_tensor(const char* name, Offset at, std::int64_t elements) const {
  return own_part_of(tensor(name, at, elements));
}

void DetourCall::keep_apart(const OwnMemory& x, const OwnMemory& y) {
  if (!position_) return;
  const OwnMemory waiting = own_part_of(window());
  refuse(overlap_fault(x, y, comm_->rank()));
  refuse(overlap_fault(x, waiting, comm_->rank()));
  refuse(overlap_fault(y, waiting, comm_->rank()));
}

}  // namespace shmoe::ops
