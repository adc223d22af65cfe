#pragma once
// Which signals lead from one core to another.

#include <cstddef>
#include <vector>

#include "runtime/check/story.hpp"
#include "runtime/check/world.hpp"

namespace shmoe::runtime::check {

/// One signal from its sending to the wait or test that saw it. All are indices of steps.
struct Link {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t signal = kNone;
  std::size_t landing = kNone;  // none where it was written at once
  std::size_t wait = kNone;     // none where the word was there already
  std::size_t seen = kNone;
  std::size_t before = kNone;  // the link that the sender had seen; none at the start of a chain
  std::size_t length = 1;      // of the chain that ends here; 0: no chain leads here
};

struct Span {
  std::size_t from;   // core that begins the chain
  std::size_t first;  // not before this step
  std::size_t to;     // core that ends it
  std::size_t last;   // before this step
};

/// The latest of the shortest chains of signals, its end first; empty where nothing leads there.
std::vector<Link> links_between(const Story& story, const Shape& shape, const Span& span);

}  // namespace shmoe::runtime::check
