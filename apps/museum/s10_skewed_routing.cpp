// bad address
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit skewed_routing() {
  return {.name = "S10",
          .what = "all tokens go to one rank, whose buffer is made for an even load",
          .expected = "bad address",
          .story =
              "The buffer has as many rows as there are tokens, and each token sends two rows to this rank. Whoever "
              "computes the places knows the number of rows: it is max over ranks, and no guess. Here memory beyond a "
              "block is no memory; as published it is somebody else's.",
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            constexpr std::uint64_t kTokens = 4;  // of each rank
            constexpr std::uint64_t kTopk = 2;
            const std::vector<std::byte> row(256);
            const auto global_bs = kTokens * static_cast<std::uint64_t>(comm.ranks());
            const Result<Offset> recv_x = comm.allocate(Bytes{row.size() * global_bs});
            if (!recv_x) return recv_x.error();
            if (Result<void> met = comm.barrier(); !met) return met;
            return comm.launch("dispatch", [&](runtime::CoreContext& context) {
              const std::uint64_t first = context.rank().index() * kTokens * kTopk;
              for (std::uint64_t pair = 0; pair < kTokens * kTopk; ++pair) {
                context.put(Rank{0}, *recv_x + Bytes{row.size() * (first + pair)}, row);
              }
            });
          }};
}

}  // namespace shmoe::apps
