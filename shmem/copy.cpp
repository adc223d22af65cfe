#include "shmem/copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "shmem/result.hpp"

namespace shmoe::shmem {
namespace {

constexpr std::array<std::string_view, kCopyKinds.size()> kCopyKindNames{"cached", "streaming", "movsb"};

#if defined(__x86_64__)

constexpr std::size_t kCacheLine = 64;

/// Whole cache lines past the cache, what is left at both ends through it. The 16-byte stores that every x86-64 has are
/// as fast as wider ones: they fill the same line.
void stream(std::byte* to, const std::byte* from, std::size_t size) {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  const std::size_t head = std::min(size, misaligned == 0 ? 0 : kCacheLine - misaligned);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kCacheLine <= size; at += kCacheLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* line = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
  }
  std::memcpy(to + at, from + at, size - at);
}

void move_bytes(std::byte* to, const std::byte* from, std::size_t size) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

#else

void stream(std::byte* to, const std::byte* from, std::size_t size) { std::memcpy(to, from, size); }
void move_bytes(std::byte* to, const std::byte* from, std::size_t size) { std::memcpy(to, from, size); }

#endif

}  // namespace

std::string_view name_of(CopyKind kind) { return kCopyKindNames[static_cast<std::size_t>(kind)]; }

std::optional<CopyKind> find_copy_kind(std::string_view name) {
  const auto* found = std::ranges::find(kCopyKindNames, name);
  if (found == kCopyKindNames.end()) return std::nullopt;
  return static_cast<CopyKind>(found - kCopyKindNames.begin());
}

void copy_row(std::span<std::byte> to, std::span<const std::byte> from, CopyKind kind) {
  SHMOE_EXPECTS(to.size() == from.size(), "copy of {} bytes into {}", from.size(), to.size());
  if (from.empty()) return;
  switch (kind) {
    case CopyKind::cached: std::memcpy(to.data(), from.data(), from.size()); return;
    case CopyKind::streaming: stream(to.data(), from.data(), from.size()); return;
    case CopyKind::movsb: move_bytes(to.data(), from.data(), from.size()); return;
  }
}

}  // namespace shmoe::shmem
