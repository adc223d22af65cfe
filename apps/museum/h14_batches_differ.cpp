// failed
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit batches_differ() {
  return {.name = "H14",
          .what = "an attention rank sends 3 rows where its expert rank counts on 4",
          .expected = "failed",
          .story =
              "Where ids end and rows begin follows from the batch size, which each end takes from its own arguments. "
              "The expert looks for the rows 8 K bytes too late: the first K elements of four bytes are missing, and "
              "what lies behind the block comes in their place. Nobody says so. A batch size has to travel with the "
              "batch, as it does in the profile safe.",
          .cores = 4,
          .profile = kFaithful202607,
          .slots = afd::declare,
          .checked = [](runtime::Communicator& comm) { return afd::there_and_back(comm, {.sent = 3}); }};
}

}  // namespace shmoe::apps
