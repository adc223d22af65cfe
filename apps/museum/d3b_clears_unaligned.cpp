// orphan wait
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit clears_unaligned() {
  return {
      .name = "D3B",
      .what = "the all-to-all without credits, launched twice: each rank clears its slots, and they do not meet then",
      .expected = "orphan wait",
      .story =
          "Rank 0 has cleared its slots and stores and notifies for the second launch. Rank 1 clears its own "
          "behind that: the notify is gone, and its consumer waits for ever. To clear without a barrier behind it "
          "is worse than not to clear.",
      .cores = 2,
      .slots = all2all::slots(all2all::buffer_a_block(1)),
      .checked = all2all::without_credits(all2all::buffer_a_block(1), [](runtime::Communicator& comm) -> Result<void> {
        if (Result<void> met = comm.barrier(); !met) return met;
        return all2all::clear(comm);
      })};
}

}  // namespace shmoe::apps
