#pragma once
// The real loads and stores of a checked world, apart from its bookkeeping. Only they are compiled with the thread sanitiser
// where it is on, so that it sees what the cores do to each other and nothing else: an oracle of its own for programs in
// strong mode, where everything lands in the hands of the core that sends it.

#include <cstddef>
#include <cstdint>
#include <span>

namespace shmoe::runtime::check {

/// Within an Unseen.
void copy_landed(std::byte* to, std::span<const std::byte> from);

/// Order:   acquires
std::uint64_t load_landed(const std::byte* word);
/// Order:   releases
void store_landed(std::byte* word, std::uint64_t value);
/// Order:   releases
void add_landed(std::byte* word, std::uint64_t value);

/// While it lives, what this core does is bookkeeping, and the thread sanitiser looks away; what lands it still sees.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// A launch: the cores start after what the host did, and the host goes on after what they did.
class Handover {
 public:
  void give() { add_landed(reinterpret_cast<std::byte*>(&edge_), 1); }
  void take() const { (void)load_landed(reinterpret_cast<const std::byte*>(&edge_)); }

 private:
  std::uint64_t edge_ = 0;
};

}  // namespace shmoe::runtime::check
