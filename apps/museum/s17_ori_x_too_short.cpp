// bad address
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit ori_x_too_short() {
  return {
      .name = "S17",
      .what = "combine copies as many rows of ori_x as it has received, and ori_x has one for each token",
      .expected = "bad address",
      .story =
          "The host check asks for [tokens, H], and the kernel copies an answer for each row received. Rank 0 has one "
          "token and receives two rows, and reads beyond the end. Here combine refuses an ori_x of another size, and "
          "this kernel shows what it would do.",
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .checked = [](runtime::Communicator& comm) -> Result<void> {
        ll::Layer layer(comm, {.ids = {0}});
        if (Result<void> sent = ll::run(layer, {&ll::Layer::dispatch}); !sent) return sent;
        const Result<Offset> ori_x = comm.allocate(Bytes{ll::kRow});
        if (!ori_x) return ori_x.error();
        return comm.launch("combine", [&](runtime::CoreContext& context) {
          std::vector<std::byte> row(ll::kRow);
          for (std::int64_t i = 0; i < layer.received(); ++i) {
            const Offset at = *ori_x + Bytes{row.size()} * static_cast<std::uint64_t>(i);
            context.get(context.rank(), at, std::span{row}, shmem::Witness::own());
          }
        });
      }};
}

}  // namespace shmoe::apps
