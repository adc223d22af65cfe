#include "runtime/check/landed.hpp"

#include <cstring>

#ifdef __SANITIZE_THREAD__
// Of the sanitiser's run-time library; no header declares them.
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();
#endif

namespace shmoe::runtime::check {
namespace {

std::uint64_t* as_word(std::byte* word) { return reinterpret_cast<std::uint64_t*>(word); }

#ifdef __SANITIZE_THREAD__
void look_away() { __tsan_ignore_thread_begin(); }
void look_again() { __tsan_ignore_thread_end(); }
#else
void look_away() {}
void look_again() {}
#endif

}  // namespace

Unseen::Unseen() { look_away(); }
Unseen::~Unseen() { look_again(); }

void copy_landed(std::byte* to, std::span<const std::byte> from) {
  look_again();
  std::memcpy(to, from.data(), from.size());
  look_away();
}

// The compiler's own operations: nothing here runs on two threads, and only the sanitiser looks at the order.
std::uint64_t load_landed(const std::byte* word) {
  const auto* at = reinterpret_cast<const std::uint64_t*>(word);
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);  // lint: allow(atomics) seen by the sanitiser only
}
void store_landed(std::byte* word, std::uint64_t value) {
  __atomic_store_n(as_word(word), value, __ATOMIC_RELEASE);  // lint: allow(atomics) likewise
}
void add_landed(std::byte* word, std::uint64_t value) {
  __atomic_fetch_add(as_word(word), value, __ATOMIC_RELEASE);  // lint: allow(atomics) likewise
}

}  // namespace shmoe::runtime::check
