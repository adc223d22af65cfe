// deadlock cycle: notify range unlike wait range
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit too_few_cores() {
  return {
      .name = "H6",
      .what = "a core for each shard, and fewer cores than shards",
      .expected = "deadlock cycle: notify range unlike wait range",
      .story =
          "Each core sends the shard of its own number. There are three shards and two cores: nobody sends the last "
          "one, and the receiver waits for all three. Shards are shared among the cores, however many there are.",
      .cores = 3,
      .run = [](runtime::World& world) {
        return world.all().launch("all_to_all", 2, [](runtime::CoreContext& context) {
          constexpr std::uint32_t kShards = 3;
          runtime::ZeroBufferSync sync(context);
          const Rank peer{1 - context.rank().value()};
          sync.set_flag(peer, static_cast<std::uint32_t>(context.core().value()), 1);
          context.sync_all();
          if (context.core() == Core{0}) sync.wait_flag_range(peer, 0, kShards, 1);
        });
      }};
}

}  // namespace shmoe::apps
