// bad address
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit freed_too_early() {
  return {.name = "H19",
          .what = "a rank frees a buffer that a peer still reads",
          .expected = "bad address",
          .story =
              "Freeing waits for nobody. Rank 0 gives its buffer back while rank 1 may be reading it; a barrier before "
              "the free is what the published destructors lack.",
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            const Result<Offset> buffer = comm.allocate(Bytes{64});
            if (!buffer) return buffer.error();
            if (Result<void> met = comm.barrier(); !met) return met;
            if (comm.rank() == Rank{0}) return comm.free(*buffer);
            return comm.launch("poll", [&](runtime::CoreContext& context) {
              std::uint64_t word = 0;
              context.get(Rank{0}, *buffer, std::span{&word, 1}, shmem::Witness::own());
            });
          }};
}

}  // namespace shmoe::apps
