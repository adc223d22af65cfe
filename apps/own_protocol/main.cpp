// The protocol that doc/own_protocol.md builds: in each round every rank hands a number to rank 0, which adds them up.
// usage: shmoe run --no-prefix -n 4 -- own_protocol [--long]
//        own_protocol check run all      the protocol under every schedule, and two attempts that fail

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

constexpr Rank kRoot{0};

struct Plan {
  std::int32_t rounds = 3;
  std::uint64_t places = 2;  // of each rank at the root, used by turns
  bool answers = true;       // the root says that it has read
};

// [kernel]
std::uint64_t number_of(Rank rank, std::uint64_t round) { return 100 * round + rank.index(); }

/// Where the number of `rank` lies at the root.
Offset place_of(const Plan& plan, Rank rank, std::uint64_t round) {
  return Offset{8 * (plan.places * rank.index() + round % plan.places)};
}

void hand_in(CoreContext& context, const Plan& plan, std::uint64_t round) {
  const Slot read = context.slots().flag().at(0, kRoot);            // here: the round that the root has read
  const Slot there = context.slots().flag().at(0, context.rank());  // at the root: the round that is there
  if (plan.answers && round > plan.places) context.wait(read, Compare::at_least, round - plan.places).ordering_only();
  const std::uint64_t number = number_of(context.rank(), round);
  context.put(kRoot, place_of(plan, context.rank(), round), std::span<const std::uint64_t>{&number, 1});
  context.fence(kRoot);
  context.signal(kRoot, there, SignalOp::set, round);
}

std::uint64_t add_up(CoreContext& context, const Plan& plan, std::uint64_t round) {
  std::uint64_t sum = 0;
  for (Rank rank{1}; rank.value() < context.ranks(); ++rank) {
    const Slot there = context.slots().flag().at(0, rank);
    const Witness arrived = consume_token(context.wait(there, Compare::at_least, round));
    std::uint64_t number = 0;
    context.get(kRoot, place_of(plan, rank, round), std::span{&number, 1}, arrived);
    sum += number;
    if (plan.answers) context.signal(rank, context.slots().flag().at(0, kRoot), SignalOp::set, round);
  }
  return sum;
}

void collect(CoreContext& context, const Plan& plan, std::vector<std::uint64_t>& sums) {
  if (context.core() != Core{0}) return;
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(plan.rounds); ++round) {
    if (context.rank() == kRoot)
      sums.push_back(add_up(context, plan, round));
    else
      hand_in(context, plan, round);
  }
}
// [/kernel]

// [body]
/// One run on every rank, and the sums compared with those of one loop.
Result<void> body(Communicator& all, const Plan& plan) {
  std::vector<std::uint64_t> sums;
  Result<void> done = all.launch("collect", [&](CoreContext& context) { collect(context, plan, sums); });
  for (std::uint64_t round = 1; done && round <= sums.size(); ++round) {
    std::uint64_t right = 0;
    for (Rank rank{1}; rank.value() < all.ranks(); ++rank) right += number_of(rank, round);
    if (sums[round - 1] == right) continue;
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("round {}: the sum is {}, not {}", round, sums[round - 1], right)};
  }
  return done;
}
// [/body]

// [programs]
Program program(const char* name, const char* what, Plan plan, VerdictKind expected) {
  const auto make = [plan](const Setting& setting) {
    return [plan = Plan{setting.rounds, plan.places, plan.answers}](Communicator& all) { return body(all, plan); };
  };
  return {.name = name, .what = what, .make = make, .expected = expected};
}

std::vector<Program> programs() {
  return {program("first", "one place, no answer", {.places = 1, .answers = false}, VerdictKind::stale_value),
          program("second", "two places, no answer", {.answers = false}, VerdictKind::overwrite_before_read),
          program("collect", "two places, and the root answers", {}, VerdictKind::clean)};
}
// [/programs]

// [main]
Result<void> run(World& world, const lesson::Options& options) {
  const bool longer = options.has("--long");
  const Plan plan{.rounds = longer ? 10'000 : 3};
  if (Result<void> done = body(world.all(), plan); !done) return done;
  if (world.rank() == kRoot) fmt::print("{} rounds of {} ranks, every sum right\n", plan.rounds, world.ranks());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "check")
    return apps::check_main(argc - 1, argv + 1, "own_protocol check", programs());
  return lesson::run(argc, argv, {.ranks = 2, .more_ranks = true, .cores = 1, .options = {"--long"}}, run);
}
// [/main]
