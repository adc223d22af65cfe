// unordered read
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit batches_differ() {
  return {
      .name = "H14",
      .what = "an attention rank sends 3 rows where its expert rank counts on 4",
      .expected = "unordered read",
      .story =
          "Where scales end and rows begin follows from the batch size, which each end takes from its own arguments. "
          "The expert fetches what it takes for the last scales while rows are still written there, and looks for the "
          "rows 8 K bytes too late. On a machine that goes on without an error, with rows that are shifted and rows of "
          "nothing. A batch size has to travel with its batch, as it does in the profile safe.",
      .cores = 4,
      .profile = kFaithful202607,
      .slots = afd::declare,
      .checked = [](runtime::Communicator& comm) { return afd::there_and_back(comm, {.sent = 3}); }};
}

}  // namespace shmoe::apps
