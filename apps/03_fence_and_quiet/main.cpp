// What a notify promises about the puts before it: nothing, until a fence (one destination) or a quiet (all of them).
// Puts land late here, as on a network: SHMOE_WEAK is the seed that says which.
// usage: mpirun --oversubscribe -np 3 03_fence_and_quiet [--break] [--strong]
//   --break    no fence before the notify, and a fence where a quiet is needed
//   --strong   puts land as this machine lands them: in order

#include "apps/lesson.hpp"

namespace {

using namespace shmoe;
using runtime::CoreContext;
using runtime::World;
using shmem::SignalOp;
using shmem::Witness;

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kRounds = 8;
constexpr Rank kSender{0};
constexpr Rank kFirst{1};
constexpr Rank kSecond{2};

/// Round r writes r to a place of its own that holds 0: a reader that sees 0 has read too early.
constexpr Offset single(std::uint64_t round) { return Offset{8 * round}; }
constexpr Offset pair(std::uint64_t round) { return Offset{1024 + 8 * round}; }

Slot flag_from(CoreContext& context, Rank source) { return context.slots().flag().at(0, source); }

void put_word(CoreContext& context, Rank dst, Offset to, std::uint64_t word) {
  context.put(dst, to, std::span<const std::uint64_t>{&word, 1});
}

std::uint64_t get_word(CoreContext& context, Rank src, Offset from, const Witness& ordered) {
  std::uint64_t word = 0;
  context.get(src, from, std::span{&word, 1}, ordered);
  return word;
}

/// Until `reader` has read round r.
void wait_for_reader(CoreContext& context, Rank reader, std::uint64_t r) {
  context.wait(flag_from(context, reader), Compare::at_least, r).ordering_only();
}

// [fence]
void send_to_first(CoreContext& context, bool broken) {
  for (std::uint64_t r = 1; r <= kRounds; ++r) {
    put_word(context, kFirst, single(r), r);
    if (!broken) context.fence(kFirst);
    context.signal(kFirst, flag_from(context, kSender), SignalOp::set, r);
    wait_for_reader(context, kFirst, r);
  }
}

std::uint64_t read_at_first(CoreContext& context, std::uint64_t r) {
  const Witness notified = consume_token(context.wait(flag_from(context, kSender), Compare::at_least, r));
  return get_word(context, kFirst, single(r), notified);
}
// [/fence]

// [quiet]
void send_to_both(CoreContext& context, bool broken) {
  for (std::uint64_t r = 1; r <= kRounds; ++r) {
    put_word(context, kFirst, pair(r), r);
    put_word(context, kSecond, pair(r), r);
    if (broken)
      context.fence(kSecond);
    else
      context.quiet();
    context.signal(kSecond, flag_from(context, kSender), SignalOp::set, r);  // the second alone is told
    wait_for_reader(context, kSecond, r);
  }
}

std::uint64_t read_both_at_second(CoreContext& context, std::uint64_t r) {
  const Witness notified = consume_token(context.wait(flag_from(context, kSender), Compare::at_least, r));
  const std::uint64_t here = get_word(context, kSecond, pair(r), notified);
  const std::uint64_t there = get_word(context, kFirst, pair(r), notified);
  return std::min(here, there);
}
// [/quiet]

/// What one reader saw in each round.
struct Seen {
  std::string line;
  std::uint64_t stale = 0;
};

template <class Read>
Seen read_rounds(CoreContext& context, Read read) {
  Seen seen;
  for (std::uint64_t r = 1; r <= kRounds; ++r) {
    const std::uint64_t word = read(context, r);
    context.signal(kSender, flag_from(context, context.rank()), SignalOp::set, r);
    seen.line += fmt::format(" {}", word);
    seen.stale += word != r ? 1U : 0U;
  }
  return seen;
}

Result<void> fence_and_quiet(World& world, const lesson::Options& options) {
  const bool broken = options.has("--break");
  Seen seen;
  const Result<void> sent = world.all().launch("fence_and_quiet", [&](CoreContext& context) {
    if (context.rank() == kSender) {
      send_to_first(context, broken);
      send_to_both(context, broken);
    }
    if (context.rank() == kFirst) seen = read_rounds(context, read_at_first);
    if (context.rank() == kSecond) seen = read_rounds(context, read_both_at_second);
  });
  if (!sent) return sent;

  const char* order[] = {"", broken ? "put, notify" : "put, fence, notify",
                         broken ? "two puts, fence, notify" : "two puts, quiet, notify"};
  std::string line;
  if (world.rank() != kSender) {
    line = fmt::format("rank {}: {:<23}  reads{}  stale {}\n", world.rank(), order[world.rank().index()], seen.line,
                       seen.stale);
  }
  if (const Result<void> printed = lesson::print_in_order(world.all(), line); !printed) return printed;
  if (seen.stale == 0) return {};
  return Error{.code = Errc::mismatch,
               .context = fmt::format("{} of {} words were stale: a fence or a quiet is missing", seen.stale, kRounds)};
}

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = 3, .cores = 1, .options = {"--break", "--strong"}}, fence_and_quiet,
                     [](runtime::Config& config, const lesson::Options& options) {
                       if (config.weak_seed == 0) config.weak_seed = kSeed;
                       if (options.has("--strong")) config.weak_seed = 0;
                     });
}
