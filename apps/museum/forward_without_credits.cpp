// clean
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit forward_without_credits() {
  return {.name = "FWD",
          .what = "the forward all-to-all without credits, as published: a buffer a block, and a host that clears",
          .expected = "clean",
          .story =
              "No buffer is used twice in a launch, so nobody has to give one back. Between two launches each rank "
              "clears its slots once all are done, and all meet again. It takes memory for all blocks and two "
              "barriers a launch. D3A leaves out the clearing, D3B the second barrier.",
          .cores = 2,
          .slots = all2all::slots(all2all::buffer_a_block(2)),
          .checked = all2all::without_credits(all2all::buffer_a_block(2, ops::All2AllWay::forward),
                                              [](runtime::Communicator& comm) -> Result<void> {
                                                if (Result<void> met = comm.barrier(); !met) return met;
                                                if (Result<void> cleared = all2all::clear(comm); !cleared)
                                                  return cleared;
                                                return comm.barrier();
                                              })};
}

}  // namespace shmoe::apps
