// Random small programs: the checker's exhaustive search must see exactly the outcomes of a model that goes through all
// states. SHMOE_TEST_SEED=n repeats a run.

#include <doctest/doctest.h>

#include <cstring>

#include "tests/check/small_model.hpp"
#include "tests/check/support.hpp"
#include "tests/seed.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

/// Words 0 and 1 of every rank, which both ranks may write.
void declare_words(shmem::SlotPlan& slots, const shmem::BlockMap& map) {
  const Offset at = map.user_data.at + Bytes{64 * 1024};
  slots.declare({.name = "set", .base = at, .writers = shmem::Writers::any_rank});
  slots.declare({.name = "add", .base = at + Bytes{64}, .writers = shmem::Writers::any_rank, .op = SignalOp::add});
}

class CheckedProgram {
 public:
  CheckedProgram(const SmallProgram& program, World& world) : program_(program), world_(world) {}

  Explored outcomes(std::uint64_t most_runs) {
    forget();
    const Body body = [this](Communicator& comm) {
      for (std::int64_t rank = 0; rank < 2; ++rank) {
        memory_[static_cast<std::size_t>(rank)] = comm.mapped_at(Rank{rank}, Offset{0});
      }
      return comm.launch("random", [this](CoreContext& context) { run(context); });
    };
    return explore_all(
        world_, body, [this](const Run& r) { return outcome(r); }, most_runs);
  }

 private:
  void forget() {
    seen_.clear();
    for (const auto& core : program_) seen_.emplace_back(core.size(), -1);
  }

  std::string outcome(const Run& run) {
    std::array<int, 8> memory{};
    const auto word = [&](std::size_t rank, Offset at) {
      std::uint64_t value = 0;
      std::memcpy(&value, memory_[rank] + at.value(), sizeof value);
      return static_cast<int>(value);
    };
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::uint64_t n = 0; n < 2; ++n) {
        memory[rank * 4 + n] = word(rank, cell(n));
        memory[rank * 4 + 2 + n] =
            word(rank, world_.slots().offset_of(world_.slots().family(n == 0 ? "set" : "add").at(0, Rank{0})));
      }
    }
    const std::string text = run.verdict.clean() || !run.verdict.stuck.empty()
                                 ? small_outcome(seen_, memory, !run.verdict.clean())
                                 : to_string(run.verdict);
    forget();
    return text;
  }

  void run(CoreContext& c) {
    const std::size_t core = c.rank().index() * program_.size() / 2 + c.core().index();
    for (std::size_t i = 0; i < program_[core].size(); ++i) step(c, program_[core][i], seen_[core][i]);
  }

  static void step(CoreContext& c, const SmallOp& op, int& seen) {
    const Rank rank{op.rank};
    const auto value = static_cast<std::uint64_t>(op.value);
    const SignalOp how = op.word == 0 ? SignalOp::set : SignalOp::add;
    const Slot word = c.slots().family(op.word == 0 ? "set" : "add").at(0, Rank{0});
    const Offset row = cell(static_cast<std::uint64_t>(op.row));
    const auto wait = [&](Compare compare) {
      shmem::Token token = c.wait(word, compare, value);
      seen = static_cast<int>(token.arrival().value);
      std::move(token).ordering_only();
    };
    using Kind = SmallOp::Kind;
    switch (op.kind) {
      case Kind::put: put(c, op.rank, row, value); break;
      case Kind::put_signal: c.put_signal(rank, row, Seen{value}, word, how, value); break;
      case Kind::fence: c.fence(rank); break;
      case Kind::signal: c.signal(rank, word, how, value); break;
      case Kind::wait_at_least: wait(Compare::at_least); break;
      case Kind::wait_equal: wait(Compare::equal); break;
      case Kind::wait_differs: wait(Compare::not_equal); break;
      case Kind::test: seen = holds(c.test({.where = c.rank(), .slots = {&word, 1}, .value = value})) ? 1 : 0; break;
      case Kind::get: seen = static_cast<int>(get(c, op.rank, row)); break;
      case Kind::quiet: c.quiet(); break;
    }
  }

  const SmallProgram& program_;
  World& world_;
  std::vector<std::vector<int>> seen_;
  std::array<const std::byte*, 2> memory_{};
};

/// Programs until `wanted` of them have been gone through completely.
void compare(std::int32_t cores, std::size_t most_ops, int wanted, std::size_t most_states, std::uint64_t most_runs) {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  World world({.ranks = 2, .cores = cores, .declare_slots = declare_words, .data_steps = true, .races = false});
  std::size_t most = 0;
  for (int compared = 0; compared < wanted;) {
    const SmallProgram program = random_program(random, 2 * static_cast<std::size_t>(cores), most_ops);
    SmallModel model(program);
    const std::set<std::string> expected = model.outcomes(most_states);
    // Neither the dull ones nor those that have too many schedules.
    if (expected.size() < 3) continue;
    const std::string text = to_text(program);
    CAPTURE(text);
    const Explored checked = CheckedProgram(program, world).outcomes(most_runs);
    if (checked.exhausted) {
      ++compared;
      most = std::max(most, expected.size());
      REQUIRE(fmt::format("{}", fmt::join(checked.outcomes, "\n")) == fmt::format("{}", fmt::join(expected, "\n")));
    } else {
      REQUIRE(std::includes(expected.begin(), expected.end(), checked.outcomes.begin(), checked.outcomes.end()));
    }
  }
  CHECK(most >= 6);
}

}  // namespace

TEST_CASE("random programs of two cores end in exactly the outcomes of the rules") { compare(1, 5, 300, 120, 5000); }

TEST_CASE("random programs of four cores end in exactly the outcomes of the rules") { compare(2, 2, 40, 80, 3000); }
