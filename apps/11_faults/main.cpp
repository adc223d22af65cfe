// Ping-pong, for faults to be injected into. The program knows nothing of them: SHMOE_FAULTS names the plan.
// usage: SHMOE_FAULTS=apps/11_faults/lost.faults mpirun --oversubscribe -np 2 11_faults
//        shmoe run -n 2 --faults apps/11_faults/lost.faults -- 11_faults

#include "apps/lesson.hpp"

namespace {

using namespace shmoe;
using runtime::CoreContext;
using runtime::World;
using shmem::SignalOp;
using shmem::Witness;

using Row = std::array<std::uint64_t, 2>;
using Rows = std::vector<Row>;

constexpr Offset kRow{0};
constexpr std::uint64_t kRounds = 3;
constexpr Rank kAsks{0};
constexpr Rank kAnswers{1};

// [steps]
void send(CoreContext& context, Rank to, const Row& row, std::uint64_t round) {
  context.put(to, kRow, row);
  context.fence(to);
  context.signal(to, context.slots().flag().at(0, context.rank()), SignalOp::set, round);
}

Row receive(CoreContext& context, Rank from, std::uint64_t round) {
  const Slot flag = context.slots().flag().at(0, from);
  const Witness there = consume_token(context.wait(flag, Compare::at_least, round));
  Row row{};
  context.get(context.rank(), kRow, row, there);
  return row;
}
// [/steps]

// [kernel]
void ping_pong(CoreContext& context, Rows& answers) {
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    if (context.rank() == kAsks) {
      send(context, kAnswers, {round, round}, round);
      answers.push_back(receive(context, kAnswers, round));
    } else {
      const Row row = receive(context, kAsks, round);
      send(context, kAsks, {row[0] * row[0], row[1] * row[1]}, round);
    }
  }
}
// [/kernel]

Result<void> play(World& world, const lesson::Options& /*options*/) {
  Rows answers;
  Result<void> played = world.all().launch("ping_pong", [&](CoreContext& context) { ping_pong(context, answers); });
  if (!played) return played;
  std::string lines;
  std::uint64_t wrong = 0;
  for (std::uint64_t round = 1; round <= answers.size(); ++round) {
    const Row& row = answers[round - 1];
    lines += fmt::format("round {}: {} {}\n", round, row[0], row[1]);
    wrong += row == Row{round * round, round * round} ? 0U : 1U;
  }
  if (Result<void> printed = lesson::print_in_order(world.all(), lines); !printed) return printed;
  if (wrong == 0) return {};
  return Error{.code = Errc::mismatch,
               .context = fmt::format("{} of {} answers are wrong: see the plan of faults", wrong, kRounds)};
}

}  // namespace

int main(int argc, char** argv) { return lesson::run(argc, argv, {.ranks = 2, .cores = 1}, play); }
