// One slot and two buffers, used again and again: how often before something is overwritten?
// usage: mpirun --oversubscribe -np 2 05_slot_reuse [--break | --acknowledge]
//        05_slot_reuse check run all
//   --break         three rounds instead of two
//   --acknowledge   three rounds, and the reader says when a buffer is free
//   check ...       the same protocol under every schedule; see 05_slot_reuse check --help

#include "apps/check/command.hpp"
#include "apps/lesson.hpp"

namespace {

using namespace shmoe;
using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::World;
using runtime::check::Program;
using runtime::check::Setting;
using shmem::SignalOp;
using shmem::Witness;

constexpr Rank kWriter{0};
constexpr Rank kReader{1};
constexpr std::size_t kWords = 4;

using Row = std::array<std::uint64_t, kWords>;

struct Plan {
  std::int32_t rounds = 2;
  bool acknowledge = false;
};

Row row_of(std::uint64_t round) { return {round, round, round, round}; }
Offset buffer_of(std::uint64_t round) { return Offset{round % 2 * sizeof(Row)}; }

// [kernel]
void hand_over(CoreContext& context, const Plan& plan, std::vector<Row>& seen) {
  if (context.rank() > kReader || context.core() != Core{0}) return;  // in a larger world the others look on
  const Slot full = context.slots().flag().at(0, kWriter);            // at the reader: the round that has been written
  const Slot free = context.slots().flag().at(0, kReader);            // at the writer: the round that has been read
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(plan.rounds); ++round) {
    if (context.rank() == kWriter) {
      if (plan.acknowledge && round > 2) context.wait(free, Compare::at_least, round - 2).ordering_only();
      context.put(kReader, buffer_of(round), row_of(round));
      context.fence(kReader);
      context.signal(kReader, full, SignalOp::set, round);
    } else {
      const Witness written = consume_token(context.wait(full, Compare::at_least, round));
      context.get(kReader, buffer_of(round), seen.emplace_back(), written);
      if (plan.acknowledge) context.signal(kWriter, free, SignalOp::set, round);
    }
  }
}
// [/kernel]

// [check]
Result<void> body(Communicator& all, const Plan& plan) {
  std::vector<Row> seen;
  Result<void> done = all.launch("hand over", [&](CoreContext& context) { hand_over(context, plan, seen); });
  for (std::size_t i = 0; done && i < seen.size(); ++i) {
    if (seen[i] == row_of(i + 1)) continue;
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("round {} reads the row of round {}: the writer must wait until it was read",
                                        i + 1, seen[i][0])};
  }
  return done;
}

std::vector<Program> programs() {
  const auto program = [](const char* name, const char* what, Plan plan, VerdictKind expected) {
    return Program{.name = name,
                   .what = what,
                   .make = [plan](const Setting&) { return [plan](Communicator& all) { return body(all, plan); }; },
                   .expected = expected};
  };
  return {program("two_rounds", "each buffer is used once", {2, false}, VerdictKind::clean),
          program("three_rounds", "the first buffer is used again", {3, false}, VerdictKind::overwrite_before_read),
          program("acknowledged", "and the reader has said that it may be", {3, true}, VerdictKind::clean)};
}
// [/check]

Result<void> slot_reuse(World& world, const lesson::Options& options) {
  const bool acknowledge = options.has("--acknowledge");
  const Plan plan{.rounds = acknowledge || options.has("--break") ? 3 : 2, .acknowledge = acknowledge};
  if (Result<void> done = body(world.all(), plan); !done) return done;
  return lesson::print_in_order(
      world.all(), world.rank() == kReader ? fmt::format("rank 1: {} rounds, every row as it was sent\n", plan.rounds)
                                           : std::string{});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "check")
    return apps::check_main(argc - 1, argv + 1, "05_slot_reuse check", programs());
  return lesson::run(argc, argv, {.ranks = 2, .cores = 1, .options = {"--break", "--acknowledge"}}, slot_reuse);
}
