#include "ops/scratch.hpp"

#include <cstdint>
#include <utility>

namespace shmoe::ops {

namespace {

constexpr std::size_t kWorkspaceAlignment = alignof(std::max_align_t);  // what new and vectors give

}  // namespace

Scratch::Scratch(runtime::CoreContext& context, std::span<std::byte> workspace, Bytes share)
    : owner_(workspace.empty() ? context.workspace() : nullptr) {
  const std::size_t size = share.index();
  if (owner_ != nullptr) {
    share_ = {static_cast<std::byte*>(owner_->allocate(size, kScratchGranule)), size};
    return;
  }
  SHMOE_EXPECTS(workspace.size() / static_cast<std::size_t>(context.cores()) >= size,
                "a workspace of {} bytes for {} cores that take {} each: the host of an operator refuses it",
                workspace.size(), context.cores(), size);
  share_ = workspace.subspan(context.core().index() * size, size);
}

Scratch::~Scratch() {
  if (owner_ != nullptr) owner_->deallocate(share_.data(), share_.size(), kScratchGranule);
}

void* Scratch::do_allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t size = round_up(bytes, kScratchGranule);
  SHMOE_EXPECTS(alignment <= kWorkspaceAlignment && size <= share_.size() - taken_,
                "a part of {} bytes at multiples of {} where {} of {} are left: workspace_size counts too little",
                bytes, alignment, share_.size() - taken_, share_.size());
  return share_.data() + std::exchange(taken_, taken_ + size);
}

std::optional<Error> workspace_fault(std::span<const std::byte> workspace, Bytes share,
                                     const runtime::Communicator& comm) {
  if (workspace.empty()) return std::nullopt;
  const Bytes needed = share * static_cast<std::uint64_t>(comm.cores());
  if (workspace.size() < needed.value()) {
    return fault_of(comm.rank(), Errc::invalid_argument,
                    fmt::format("the workspace has {} bytes, {} are needed, {} for each of {} cores: allocate what "
                                "workspace_size says",
                                workspace.size(), needed, share, comm.cores()));
  }
  const auto at = reinterpret_cast<std::uintptr_t>(workspace.data());
  if (at % kWorkspaceAlignment == 0) return std::nullopt;
  return fault_of(comm.rank(), Errc::invalid_argument,
                  fmt::format("the workspace begins {} bytes behind a multiple of {}: take it from new or a vector",
                              at % kWorkspaceAlignment, kWorkspaceAlignment));
}

}  // namespace shmoe::ops
