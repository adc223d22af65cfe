// overwrite before read
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit nobody_clears() {
  return {.name = "D3A",
          .what = "the all-to-all without credits, launched twice, and nobody clears its slots in between",
          .expected = "overwrite before read",
          .story =
              "All slots still hold the 1 of the first launch. The consumers of the second one find it and load at "
              "once: the rows of the first launch, and the stores of the second one come over them. Nothing hangs, "
              "and the first launch was right. The host clears the "
              "slots, then all ranks meet, then the kernel is launched again; or the consumers give their credits "
              "back, and nothing has to be cleared.",
          .slots = all2all::slots(all2all::buffer_a_block(2)),
          .checked = all2all::without_credits(all2all::buffer_a_block(2),
                                              [](runtime::Communicator& comm) { return comm.barrier(); })};
}

}  // namespace shmoe::apps
