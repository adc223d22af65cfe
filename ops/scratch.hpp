#pragma once
// What the cores of an operator take for themselves: rows, lists and tables whose sizes follow from the arguments.
//
//   host      n = workspace_size(comm, args).own       args.workspace: at least n bytes, or none
//   kernel    Scratch scratch(context, args.workspace, share)        n = cores * share
//
//   workspace   | share of core 0            | share of core 1            | ..
//               | part    | part | part      |                                 parts at multiples of 64 bytes
//   none        each core takes its share from what it keeps between launches

#include <cstddef>
#include <memory_resource>
#include <optional>
#include <span>
#include <string_view>

#include "ops/handshake.hpp"
#include "runtime/core_context.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

inline constexpr std::size_t kScratchGranule = 64;  // a cache line: vectors lie within one

/// Bytes that `count` elements take of a share.
template <class T>
constexpr Bytes scratch_part(std::int64_t count) {
  return Bytes{round_up(sizeof(T) * static_cast<std::uint64_t>(count), kScratchGranule)};
}

/// The share of one core, handed out part after part. Whoever takes more than the share has asked for too little.
class Scratch final : public std::pmr::memory_resource {
 public:
  Scratch(runtime::CoreContext& context, std::span<std::byte> workspace, Bytes share);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() override;

  template <class T>
  [[nodiscard]] std::span<T> take(std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    return {static_cast<T*>(allocate(size * sizeof(T), alignof(T))), size};
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* /*bytes*/, std::size_t /*size*/, std::size_t /*alignment*/) override {}
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::pmr::memory_resource* owner_;  // null: the share is the caller's memory
  std::span<std::byte> share_;
  std::size_t taken_ = 0;
};

/// What is wrong with the workspace of a call that needs `share` bytes for each core; none is no fault.
///
/// Errors:  invalid_argument with the bytes needed and given
std::optional<Error> workspace_fault(std::span<const std::byte> workspace, Bytes share,
                                     const runtime::Communicator& comm);

}  // namespace shmoe::ops
