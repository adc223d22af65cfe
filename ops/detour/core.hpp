#pragma once
// What a core of a member has in either collective.

#include <cstdint>

#include "ops/detour/call.hpp"
#include "runtime/core_context.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::ops {

/// Its event is its own: core i of one member waits for core i of another.
class DetourCore {
 protected:
  /// The rank is a member.
  DetourCore(runtime::CoreContext& context, runtime::ZeroBufferSync& sync, const DetourCall& call)
      : context_(context),
        sync_(sync),
        call_(call),
        me_(*call.position()),
        positions_(call.group().size()),
        event_(static_cast<std::uint32_t>(context.core().value())) {}

  /// Around from the own one.
  [[nodiscard]] std::int32_t position(std::int32_t step) const { return (me_ + step) % positions_; }
  [[nodiscard]] Bytes offset(std::int64_t elements) const {
    return Bytes{static_cast<std::uint64_t>(call_.bytes(elements))};
  }

  runtime::CoreContext& context_;
  runtime::ZeroBufferSync& sync_;
  const DetourCall& call_;
  std::int32_t me_;
  std::int32_t positions_;
  std::uint32_t event_;
};

}  // namespace shmoe::ops
