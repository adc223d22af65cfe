// Two buffers, many blocks: the consumer gives each buffer back. In the words of the tile language.
// usage: mpirun --oversubscribe -np 2 06_credit_return [--break] [--short]
//   --break   the consumer gives nothing back
//   --short   as many blocks as buffers

#include "apps/lesson.hpp"
#include "ops/tile/credits.hpp"
#include "ops/tile/tile.hpp"

namespace {

using namespace shmoe;
using ops::tile::consume_token;
using ops::tile::Signals;
using ops::tile::Symmetric;
using ops::tile::Tile;
using runtime::Communicator;
using runtime::CoreContext;
using runtime::World;

constexpr std::int64_t kBuffers = 2;
constexpr Offset kSlots{0};
constexpr Symmetric<std::int64_t> kBuffer{Offset{4096}};  // one element a buffer

struct Plan {
  std::int64_t blocks = 6;
  bool gives_back = true;
};

std::int64_t content(Rank from, std::int64_t block) { return 100 * (from.value() + 1) + block; }

// [kernel]
void produce(CoreContext& context, const Plan& plan) {
  Tile tile(context);
  const Signals<std::int64_t> credit(context.slots().family("credit"));
  const Rank peer{1 - tile.rank().value()};
  for (std::int64_t block = 0; block < plan.blocks; ++block) {
    const std::int64_t buffer = block % kBuffers;
    const auto slot = credit.at(buffer, tile.rank(), 0);  // lies at the peer; I am its source
    const auto free = consume_token(tile.symm_at(kBuffer + buffer, peer), tile.wait(tile.symm_at(slot, peer), 1, 0));
    const std::int64_t value = content(tile.rank(), block);
    tile.store(free, {&value, 1});
    tile.fence();
    tile.notify(slot, peer, 1);
  }
}

void consume(CoreContext& context, const Plan& plan, std::vector<std::int64_t>& seen) {
  Tile tile(context);
  const Signals<std::int64_t> credit(context.slots().family("credit"));
  const Rank peer{1 - tile.rank().value()};
  for (std::int64_t block = 0; block < plan.blocks; ++block) {
    const std::int64_t buffer = block % kBuffers;
    const auto slot = credit.at(buffer, peer, 0);  // lies here; I am its owner
    const auto full = consume_token(tile.symm_at(kBuffer + buffer, tile.rank()), tile.wait(slot, 1, 1));
    tile.load(full, {&seen.emplace_back(), 1});
    tile.fence();
    if (plan.gives_back) tile.notify(slot, tile.rank(), 0);
  }
}
// [/kernel]

Result<void> credit_return(World& world, const lesson::Options& options) {
  const Plan plan{.blocks = options.has("--short") ? kBuffers : 6, .gives_back = !options.has("--break")};
  Communicator& all = world.all();
  std::vector<std::int64_t> seen;
  Result<void> done = all.launch("credit return", [&](CoreContext& context) {
    if (context.core() == Core{0}) produce(context, plan);
    if (context.core() == Core{1}) consume(context, plan, seen);
  });
  if (!done) return done;
  const Rank peer{1 - all.rank().value()};
  for (std::int64_t block = 0; block < plan.blocks; ++block) {
    const std::int64_t value = seen[static_cast<std::size_t>(block)];
    if (value == content(peer, block)) continue;
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("block {} holds {}, not {}", block, value, content(peer, block))};
  }
  if (Result<void> met = all.barrier(); !met) return met;
  std::string text = fmt::format("rank {}: {} blocks through {} buffers, each as it was sent; the slots hold",
                                 all.rank(), plan.blocks, kBuffers);
  const Signals<std::int64_t> credit(all.slots().family("credit"));
  for (std::int64_t buffer = 0; buffer < kBuffers; ++buffer) {
    const Offset slot = all.slots().offset_of(credit.at(buffer, peer, 0).slot);
    text += fmt::format(" {}", all.local<std::int64_t>(slot, 1)[0]);
  }
  return lesson::print_in_order(all, text + "\n");
}

void declare(shmem::SlotPlan& plan, const shmem::BlockMap& /*map*/) {
  ops::tile::declare_credits(plan, "credit", kSlots, kBuffers);
}

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = 2, .cores = 2, .options = {"--break", "--short"}}, credit_return,
                     [](runtime::Config& config, const lesson::Options&) { config.declare_slots = declare; });
}
