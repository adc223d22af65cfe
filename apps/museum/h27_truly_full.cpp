// out of memory
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit truly_full() {
  return {.name = "H27",
          .what = "a heap is defragmented, filled, and asked for one block more",
          .expected = "out of memory",
          .story =
              "The published allocator miscounts what is free after it has moved blocks, takes a full heap for a "
              "fragmented one, and moves them again in vain until its list is lost. Here the first call says "
              "fragmented, and after the move the same size fits; then nothing is free, and the next call says so and "
              "changes nothing.",
          .run = [](runtime::World& world) -> Result<void> {
            runtime::Communicator& comm = world.all();
            const Bytes quarter{comm.map().heap.size.value() / 4};
            std::vector<Offset> blocks;
            for (int i = 0; i < 4; ++i) {
              const Result<Offset> at = comm.allocate(quarter, shmem::Mobility::movable);
              if (!at) return at.error();
              blocks.push_back(*at);
            }
            for (const int hole : {0, 2}) {
              if (Result<void> freed = comm.free(blocks[static_cast<std::size_t>(hole)]); !freed) return freed;
            }
            const Result<Offset> scattered = comm.allocate(quarter * 2);
            if (scattered || scattered.error().code != Errc::fragmented) return Result<void>{};
            if (const auto moves = comm.compact(); !moves) return moves.error();
            if (const Result<Offset> in_one = comm.allocate(quarter * 2); !in_one) return Result<void>{};
            const Result<Offset> one_more = comm.allocate(quarter);
            return one_more ? Result<void>{} : Result<void>{one_more.error()};
          }};
}

}  // namespace shmoe::apps
