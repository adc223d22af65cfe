// mismatch
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit uneven_ratio() {
  return {
      .name = "H15",
      .what = "five attention ranks on two expert ranks: the way back counts rows otherwise than the way there",
      .expected = "mismatch",
      .story =
          "Expert rank 1 serves two attention ranks, expert rank 0 three. a2e divides a batch by the larger number "
          "on both, e2a by the own one: of 12 rows a2e puts the second batch at row 4, and e2a takes it from row 6. "
          "Rank 5 gets the last two of its rows as its first two. Both ways have to go by one table.",
      .ranks = 7,
      .cores = 4,
      .profile = kFaithful202607,
      .slots = afd::declare,
      .checked = [](runtime::Communicator& comm) { return afd::there_and_back(comm, {.experts = 2, .expected = 12}); }};
}

}  // namespace shmoe::apps
