#include "apps/check/kernels.hpp"
#include "apps/check/operators.hpp"

namespace shmoe::apps {
namespace {

using runtime::CoreContext;
using runtime::ZeroBufferSync;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

constexpr Offset kFirstWord{0};
constexpr Offset kSecond{4096};

std::uint32_t own_event(CoreContext& context) { return static_cast<std::uint32_t>(context.core().value()); }

template <class Visit>
void for_each_peer(CoreContext& context, const Visit& visit) {
  for (Rank peer{0}; peer.value() < context.ranks(); ++peer) {
    if (peer != context.rank()) visit(peer);
  }
}

/// A word to the right neighbour, and a flag behind it.
Body flags(const Setting& setting) {
  return every_round(setting, "flags", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    const Rank right{(context.rank().value() + 1) % context.ranks()};
    const Rank left{(context.rank().value() + context.ranks() - 1) % context.ranks()};
    const Offset place = kFirstWord + Bytes{8 * context.core().index()};
    const std::uint64_t value = sync.round().value() + 1;
    context.put(right, place, std::span<const std::uint64_t>{&value, 1});
    sync.set_flag(right, own_event(context), 1);
    const shmem::Witness arrived = consume_token(sync.wait_flag(left, own_event(context), 1));
    std::uint64_t word = 0;
    context.get(context.rank(), place, std::span{&word, 1}, arrived);
    if (word != value) wrong(context, "a word behind a flag");
    sync.barrier_all();
  });
}

/// Ranges in the first phase of a round, batches in the second, words behind both.
Body flag_batches(const Setting& setting) {
  return every_round(setting, "flag batches", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    const std::uint64_t value = sync.round().value() + 1;
    const auto cores = static_cast<std::uint32_t>(context.cores());
    WordTable first(context, kFirstWord);
    first.write(value);
    sync.set_all_rank_core_flag(1);
    for_each_peer(context, [&](Rank peer) { first.expect_all(peer, value, sync.wait_flag_range(peer, 0, cores, 1)); });
    WordTable second(context, kSecond);
    second.write(value);
    const Rank end{context.ranks()};
    sync.set_flag_batch(Rank{0}, end, own_event(context), 2);
    const shmem::Witness all = sync.wait_flag_batch(Rank{0}, end, own_event(context), 2);
    for_each_peer(context, [&](Rank peer) { second.expect(peer, context.core(), value, all); });
    sync.barrier_all();
  });
}

/// Every core asks for the flags of its own share of the ranks; SyncAll tells the others.
Body flag_shares(const Setting& setting) {
  return every_round(setting, "flag shares", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    const std::uint64_t value = sync.round().value() + 1;
    WordTable words(context, kFirstWord);
    words.write(value);
    sync.set_all_rank_core_flag(1);
    sync.wait_all_rank_all_event(1);
    const shmem::Witness everyone = context.sync_all();
    for_each_peer(context, [&](Rank peer) { words.expect_all(peer, value, everyone); });
    sync.barrier_all();
  });
}

/// Nobody waits: every core polls the flags of its peers. The second phase may have come when it asks for the first.
Body flag_polls(const Setting& setting) {
  return every_round(setting, "flag polls", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    const std::uint64_t value = sync.round().value() + 1;
    WordTable tables[] = {{context, kFirstWord}, {context, kSecond}};
    for (std::uint32_t phase : {1U, 2U}) {
      tables[phase - 1].write(value);
      sync.set_flag_batch(Rank{0}, Rank{context.ranks()}, own_event(context), phase);
    }
    for (std::uint32_t phase : {1U, 2U}) {
      for_each_peer(context, [&](Rank peer) {
        while (!sync.check_flag(peer, own_event(context), phase)) {
        }
        tables[phase - 1].expect(peer, context.core(), value, shmem::Witness::own());
      });
    }
    sync.barrier_all();
  });
}

}  // namespace

std::vector<Program> flag_programs() {
  return {
      {.name = "flags", .what = "a word and a flag to the right neighbour", .make = flags},
      {.name = "flag_batches",
       .what = "flags of every core to every rank, in ranges and batches",
       .make = flag_batches},
      {.name = "flag_shares", .what = "every core waits for its share of the ranks", .make = flag_shares},
      {.name = "flag_polls", .what = "flags that are polled instead of waited for", .make = flag_polls},
  };
}

}  // namespace shmoe::apps
