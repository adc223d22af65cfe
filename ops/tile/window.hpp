#pragma once
// Addresses as plain numbers, as kernels pass them on that know no types: the own memory first, then that of the next
// ranks, one stride each. Translating twice goes twice the way: from rank me to rank 2p - me.
//
//   rank me - 1        rank me           rank me + 1
//   [-stride, 0)       [0, stride)       [stride, 2 stride)

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops::tile {

class Window {
 public:
  static constexpr std::uint64_t kStride = std::uint64_t{1} << 40;

  struct Place {
    Rank owner;
    Offset at;
  };

  Window(Rank me, std::int32_t ranks, bool strict) : me_(me), ranks_(ranks), strict_(strict) {}

  /// Errors:  in strict mode an address that is translated already is a broken contract.
  [[nodiscard]] Offset symm_at(Offset address, Rank r, SourceSite site = SourceSite::here()) const {
    SHMOE_EXPECTS(
        !strict_ || address.value() < kStride,
        "rank {} translates {:#x} at {}:{} to rank {}, an address that has been translated to rank {} already: "
        "it would be one of rank {}. notify, putmem and getmem take the own address",
        me_, address.value() % kStride, site.file, site.line, r, distance(address) + me_.value(),
        distance(address) + r.value());
    return Offset{address.value() + kStride * static_cast<std::uint64_t>(r.value() - me_.value())};
  }
  /// Errors:  an address of no rank is a broken contract.
  [[nodiscard]] Place resolve(Offset address, SourceSite site = SourceSite::here()) const {
    const std::int64_t owner = distance(address) + me_.value();
    SHMOE_EXPECTS(owner >= 0 && owner < ranks_, "rank {} uses an address of rank {} of {} at {}:{}", me_, owner, ranks_,
                  site.file, site.line);
    return {Rank{owner}, Offset{address.value() % kStride}};
  }

 private:
  /// In ranks, from the own memory.
  static std::int64_t distance(Offset address) { return static_cast<std::int64_t>(address.value()) >> 40; }

  Rank me_;
  std::int32_t ranks_;
  bool strict_;
};

}  // namespace shmoe::ops::tile
