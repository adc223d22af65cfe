// bad address
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit counts_not_zeroed() {
  return {.name = "S12",
          .what = "layout adds to a table that its caller has not cleared",
          .expected = "bad address",
          .story =
              "The second layout numbers its rows from where the first one ended, and they land beyond the segment of "
              "this rank. Our layout writes sums and needs no zeros.",
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            constexpr std::uint64_t kTokens = 4;
            const std::vector<std::byte> row(256);
            const Result<Offset> segment = comm.allocate(Bytes{row.size() * kTokens});
            if (!segment) return segment.error();
            if (Result<void> met = comm.barrier(); !met) return met;
            std::uint64_t count = 0;  // the caller's table
            for (int step = 0; step < 2; ++step) {
              const Result<void> sent = comm.launch("dispatch", [&](runtime::CoreContext& context) {
                const Rank peer{1 - context.rank().value()};
                for (std::uint64_t token = 0; token < kTokens; ++token) {
                  context.put(peer, *segment + Bytes{row.size() * count++}, row);
                }
              });
              if (!sent) return sent;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
