// Faults in ranks that are threads: what the ranks then see, and what is proven of them.

#include <array>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::SignalOp;

namespace {

Config config_with_faults(std::int32_t cores, std::string_view text) {
  Config config = small_config(cores);
  Result<FaultPlan> plan = FaultPlan::parse(text, "plan");
  REQUIRE_MESSAGE(plan.has_value(), to_string(plan.error()));
  config.faults = *std::move(plan);
  return config;
}

Slot flag_in_hand(const CoreContext& context, int rank) { return context.slots().flag().at(0, Rank{rank}); }

void wait_in_hand(CoreContext& context, int rank) {
  context.wait(flag_in_hand(context, rank), Compare::at_least, 1).ordering_only();
}

/// The ranks meet once more: whoever is left behind waits for a rank that lives.
Result<void> launch_and_meet(World& world, std::string_view op, Kernel kernel) {
  if (Result<void> launched = world.all().launch(op, kernel); !launched) return launched;
  return world.all().barrier();
}

/// Rank 1 puts "12345678" twice and notifies rank 0, which returns what it then reads.
Outcomes hand_rows_over(const Config& config, std::string& read) {
  return run_ranks(2, config, [&](World& world) {
    return launch_and_meet(world, "hand over", [&](CoreContext& context) {
      const std::string_view data = "12345678";
      if (context.rank() == Rank{1}) {
        context.put(Rank{0}, Offset{0U}, data);
        context.put(Rank{0}, Offset{8U}, data);
        context.fence(Rank{0});
        context.signal(Rank{0}, flag_in_hand(context, 1), SignalOp::set, 1);
        return;
      }
      const shmem::Witness there = consume_token(context.wait(flag_in_hand(context, 1), Compare::at_least, 1));
      read.resize(16);
      context.get(Rank{0}, Offset{0U}, read, there);
    });
  });
}

std::string proof_among(const Outcomes& outcomes) {
  std::string proof;
  for (const auto& outcome : outcomes) {
    if (outcome && !contains(outcome->context, "gave up: ")) proof += to_string(*outcome);
  }
  return proof;
}

}  // namespace

TEST_CASE("faults: no plan, and no fault on this path, change nothing") {
  for (const char* plan : {"", "rank 0 in other put *: drop\nin other any *: stall"}) {
    std::string read;
    check_all_well(hand_rows_over(config_with_faults(1, plan), read));
    CHECK(read == "1234567812345678");
  }
}

TEST_CASE("faults: a torn put leaves the end of the place as it was") {
  std::string read;
  check_all_well(hand_rows_over(config_with_faults(1, "in \"hand over\" put 2: tear 3"), read));
  CHECK(read == std::string("12345678123\0\0\0\0\0", 16));
}

TEST_CASE("faults: a lost notify is proven, with no trace of it in the ledger") {
  std::string read;
  const Outcomes outcomes = hand_rows_over(config_with_faults(1, "rank 1 in \"hand over\" signal 1 flag: drop"), read);
  const std::string proof = proof_among(outcomes);
  CAPTURE(proof);
  CHECK(outcomes[0]->code == Errc::deadlock);
  CHECK(contains(proof, "orphan wait: rank 0 core 0 waits for flag[0] from rank 1 of rank 0"));
  CHECK(contains(proof, "sees 0x0"));
}

TEST_CASE("faults: a misdirected notify is where it went, and nowhere else") {
  std::array<bool, 2> notified{};
  const Outcomes outcomes =
      run_ranks(2, config_with_faults(1, "rank 1 in astray signal 1 flag: to rank 1"), [&](World& world) {
        return world.all().launch("astray", [&](CoreContext& context) {
          ZeroBufferSync sync(context);
          const Slot flag = flag_in_hand(context, 1);
          if (context.rank() == Rank{1}) context.signal(Rank{0}, flag, SignalOp::set, 1);
          sync.barrier_all();
          notified[context.rank().index()] =
              context.fabric()
                  .test({.where = context.rank(), .slots = {&flag, 1}, .value = 1}, SourceSite::here())
                  .has_value();
        });
      });
  check_all_well(outcomes);
  CHECK(notified == std::array{false, true});
}

TEST_CASE("faults: a misdirected signal that its rank may not send is refused at the call") {
  std::string read;
  const Outcomes outcomes =
      hand_rows_over(config_with_faults(1, "rank 1 in \"hand over\" signal 1 flag: slot -1"), read);
  REQUIRE(outcomes[1].has_value());
  CHECK(outcomes[1]->code == Errc::broken_contract);
  CHECK(contains(outcomes[1]->context, "rank 1 signals flag[0] from rank 0 of rank 0"));
  CHECK(contains(outcomes[1]->context, "and is no declared writer of it"));
}

TEST_CASE("faults: outside of strict mode a drifted barrier signal is where it lies, and not where it should") {
  Config config = config_with_faults(1, "rank 1 in meet signal 2 barrier: slot +1");
  config.strict = false;
  const std::string proof = proof_among(run_ranks(3, config, [](World& world) {
    return launch_and_meet(world, "meet", [](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.barrier_all();
    });
  }));
  CAPTURE(proof);
  CHECK(contains(proof, "misdirected notify: "));
  CHECK(contains(proof,
                 "\n  cause: slot formula drift: rank 1 core 0 sent 0x200 (barrier 2) to barrier[0] from rank 2 of "
                 "rank 2, at faults_test.cpp:"));
  CHECK(contains(proof, "; rank 2 waits for it at barrier[0] from rank 1\n"));
  CHECK(!contains(proof, "slot erased"));
}

TEST_CASE("faults: a wait that is left out reads too early") {
  std::uint64_t seen = 99;
  const Outcomes outcomes = run_ranks(2, config_with_faults(1, "rank 0 in early wait 1: skip"), [&](World& world) {
    return world.all().launch("early", [&](CoreContext& context) {
      const std::uint64_t word = 5;
      if (context.rank() == Rank{0}) {
        const shmem::Witness there = consume_token(context.wait(flag_in_hand(context, 1), Compare::at_least, 1));
        context.get(Rank{0}, Offset{0U}, std::span{&seen, 1}, there);
        context.signal(Rank{1}, flag_in_hand(context, 0), SignalOp::set, 1);
        return;
      }
      context.wait(flag_in_hand(context, 0), Compare::at_least, 1).ordering_only();
      context.put(Rank{0}, Offset{0U}, std::span{&word, 1});
      context.fence(Rank{0});
      context.signal(Rank{0}, flag_in_hand(context, 1), SignalOp::set, 1);
    });
  });
  check_all_well(outcomes);
  CHECK(seen == 0);
}

TEST_CASE("faults: a sum that is looked at late has missed a flag that was set again") {
  Config config = config_with_faults(1, "rank 1 in exchange launch 1 wait 1 window: late");
  config.strict = false;
  config.declare_slots = [](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
    slots.declare({.name = "window",
                   .base = map.user_data.at,
                   .sources = static_cast<std::uint32_t>(slots.ranks()),
                   .writers = shmem::Writers::source_and_owner});
  };
  const auto exchange = [](CoreContext& context) {
    const shmem::SlotFamily& window = context.slots().family("window");
    const Slot slots[] = {window.at(0, Rank{0}), window.at(0, Rank{1})};
    for (const Rank rank : {Rank{0}, Rank{1}}) context.signal(rank, slots[context.rank().index()], SignalOp::set, 1);
    context.wait({.where = context.rank(), .slots = slots, .match = shmem::Match::sum, .value = 2, .upper = 2})
        .ordering_only();
    for (const Slot slot : slots) context.signal(context.rank(), slot, SignalOp::set, 0);
  };
  const Outcomes outcomes = run_ranks(2, config, [&](World& world) {
    const Result<void> first = world.all().launch("exchange", exchange);
    return first ? launch_and_meet(world, "exchange", exchange) : first;
  });
  const std::string proof = proof_among(outcomes);
  CAPTURE(proof);
  CHECK(contains(proof, "cause: merged notifies: window from rank 0 of rank 1 was filled 2 times"));
}

TEST_CASE("faults: a doubled add counts twice") {
  std::uint64_t arrived = 0;
  Config config = config_with_faults(1, "rank 1 in count signal 1 tally: double");
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    plan.declare({.name = "tally", .base = map.user_data.at + Bytes{1024}, .sources = 2, .op = SignalOp::add});
  };
  check_all_well(run_ranks(2, config, [&](World& world) {
    return world.all().launch("count", [&](CoreContext& context) {
      const Slot tally = context.slots().family("tally").at(0, Rank{1});
      if (context.rank() == Rank{1}) return context.signal(Rank{0}, tally, SignalOp::add, 3);
      shmem::Token token = context.wait(tally, Compare::at_least, 6);
      arrived = token.arrival().value;
      std::move(token).ordering_only();
    });
  }));
  CHECK(arrived == 6);
}

TEST_CASE("faults: a stalled core is no deadlock; it goes on when its peers have lost patience") {
  bool gone_on = false;
  const Outcomes outcomes =
      run_ranks(2, config_with_faults(1, "rank 1 in \"hand over\" signal 1: stall"), [&](World& world) {
        if (world.rank() == Rank{0}) world.all().set_wait_limit(std::chrono::milliseconds(400));
        return world.all().launch("hand over", [&](CoreContext& context) {
          if (context.rank() == Rank{0}) return wait_in_hand(context, 1);
          context.signal(Rank{0}, flag_in_hand(context, 1), SignalOp::set, 1);
          gone_on = true;
          wait_in_hand(context, 0);
        });
      });
  CHECK(gone_on);
  REQUIRE(outcomes[0].has_value());
  CHECK(outcomes[0]->code == Errc::deadline);
  CHECK(contains(outcomes[0]->context, "for flag[0] from rank 1 in rank 0's memory to be >= 0x1, sees 0x0"));
  REQUIRE(outcomes[1].has_value());
  CHECK(outcomes[1]->code == Errc::aborted);
}

TEST_CASE("faults: signals of a real barrier are met one by one, and the barrier is proven stuck") {
  const Outcomes outcomes =
      run_ranks(3, config_with_faults(2, "rank 2 in meet signal 1 barrier: drop"), [&](World& world) {
        return launch_and_meet(world, "meet", [](CoreContext& context) {
          ZeroBufferSync sync(context);
          sync.barrier_all();
        });
      });
  const std::string proof = proof_among(outcomes);
  CAPTURE(proof);
  CHECK(contains(proof, "orphan wait: "));
  CHECK(contains(proof, "cause: missing notify: rank 2 sent 0x200 (barrier 2) to rank 1 and not to rank 0"));
}

TEST_CASE("faults: ranks that are threads are not started to be killed") {
  const Result<void> result = World::run_as_threads(2, config_with_faults(1, "\nrank 1 any 1: kill"),
                                                    [](World&) -> Result<void> { return {}; });
  REQUIRE_FALSE(result);
  CHECK(to_string(result.error()) ==
        "invalid argument: plan:2: kill would end all ranks, which are threads of one process: run them as processes");
}

namespace {

/// Rank 1 asks and waits for an answer, which rank 0 gives once it is asked.
Outcomes ask_and_answer(std::string_view plan, bool completes) {
  return run_ranks(2, config_with_faults(1, plan), [completes](World& world) {
    return launch_and_meet(world, "ask", [completes](CoreContext& context) {
      const Rank me = context.rank();
      if (me == Rank{0}) wait_in_hand(context, 1);
      if (me == Rank{1}) context.put(Rank{0}, Offset{0U}, std::string_view{"question"});
      context.fence(Rank{1 - me.value()});
      context.signal(Rank{1 - me.value()}, flag_in_hand(context, me.value()), SignalOp::set, 1);
      if (completes) context.quiet();
      if (me == Rank{1}) wait_in_hand(context, 0);
    });
  });
}

}  // namespace

TEST_CASE("faults: a signal that its sender has not completed is proven undelivered, with its value and its place") {
  const std::string plan = "rank 1 in ask signal 1 flag: hold";
  const std::string proof = proof_among(ask_and_answer(plan, false));
  CAPTURE(proof);
  CHECK(contains(proof, "undelivered: a signal that is waited for lies with its sender, which will never complete it"));
  CHECK(contains(
      proof, "\n  cause: missing quiet: rank 1 core 0 sent 0x1 to flag[0] from rank 1 of rank 0 at faults_test.cpp:"));
  CHECK(contains(proof, ", and it lies there still: the core waits at faults_test.cpp:"));
  CHECK(contains(proof, "\n  what to do: call quiet behind the signal, before this core waits for an answer"));
  CHECK(contains(proof, "rank 1 sent it 1 time, last 0x1 by core 0 at faults_test.cpp:"));
  CHECK(contains(proof, "; 1 of them lies with the sender"));
  CHECK(!contains(proof, "also fits"));
  // The wait for the signal comes before the wait for the answer.
  CHECK(proof.find("\n  rank 0 core 0 in ask") < proof.find("\n  rank 1 core 0 in ask"));
  check_all_well(ask_and_answer(plan, true));
}

TEST_CASE("faults: a fence lets nothing go, it only puts the signal behind the data that is held") {
  const std::string plan = "rank 1 in ask put 1: hold";
  const std::string proof = proof_among(ask_and_answer(plan, false));
  CAPTURE(proof);
  CHECK(contains(proof, "undelivered: "));
  CHECK(contains(proof, "cause: missing quiet: rank 1 core 0 sent 0x1 to flag[0] from rank 1 of rank 0"));
  check_all_well(ask_and_answer(plan, true));
}

TEST_CASE("faults: the ledger counts what lies with a core, and no longer once it has landed") {
  const auto count_to_three = [](std::string_view plan, bool completes) {
    return proof_among(run_ranks(2, config_with_faults(1, plan), [completes](World& world) {
      return world.all().launch("count", [completes](CoreContext& context) {
        if (context.rank() == Rank{0}) {
          context.wait(flag_in_hand(context, 1), Compare::at_least, 3).ordering_only();
          return context.signal(Rank{1}, flag_in_hand(context, 0), SignalOp::set, 1);
        }
        for (std::uint64_t round = 1; round <= 3; ++round) {
          context.signal(Rank{0}, flag_in_hand(context, 1), SignalOp::set, round);
          if (completes) context.quiet();
        }
        wait_in_hand(context, 0);
      });
    }));
  };
  const std::string held = count_to_three("rank 1 in count signal 2: hold", false);
  CAPTURE(held);
  CHECK(contains(held, "undelivered: "));
  CHECK(contains(held, "to be >= 0x3, sees 0x1"));
  CHECK(contains(held, "rank 1 sent it 3 times, last 0x3 by core 0 at faults_test.cpp:"));
  CHECK(contains(held, "; 2 of them lie with the sender"));
  const std::string lost = count_to_three("rank 1 in count signal 1-2: hold\nrank 1 in count signal 3: drop", true);
  CAPTURE(lost);
  CHECK(contains(lost, "to be >= 0x3, sees 0x2"));
  CHECK(contains(lost, "rank 1 signalled it 2 times, last 0x2 by core 0 at faults_test.cpp:"));
  CHECK(!contains(lost, "undelivered"));
}

TEST_CASE("faults: what was sent and not completed stays with a core that leaves, and goes with its next quiet") {
  const auto tell = [](bool goes_on) {
    return run_ranks(2, config_with_faults(1, "rank 0 in tell signal 1 flag: hold"), [goes_on](World& world) {
      const Result<void> told = world.all().launch("tell", [](CoreContext& context) {
        if (context.rank() == Rank{0}) context.signal(Rank{1}, flag_in_hand(context, 0), SignalOp::set, 1);
        if (context.rank() == Rank{1}) wait_in_hand(context, 0);
      });
      return told && goes_on ? world.all().barrier() : told;
    });
  };
  const std::string proof = proof_among(tell(false));
  CAPTURE(proof);
  CHECK(contains(proof, "undelivered: "));
  CHECK(
      contains(proof, "cause: missing quiet: rank 0 core 0 sent 0x1 to flag[0] from rank 0 of rank 1 at faults_test"));
  CHECK(contains(proof, ", and it lies there still: the core has left without a quiet"));
  check_all_well(tell(true));
}

TEST_CASE("faults: a signal on hold that would end no wait is no cause") {
  const std::string proof =
      proof_among(ask_and_answer("rank 1 in ask signal 1: hold\nrank 1 in ask signal 1: value -1", false));
  CAPTURE(proof);
  CHECK(!proof.empty());
  CHECK(!contains(proof, "undelivered"));
  CHECK(!contains(proof, "missing quiet"));
}

TEST_CASE("faults: whoever holds a signal and runs is live, and nothing is proven") {
  const Outcomes outcomes = run_ranks(
      2, config_with_faults(1, "rank 1 in live signal 1: hold\nrank 1 in live fence 1: stall"), [](World& world) {
        if (world.rank() == Rank{0}) world.all().set_wait_limit(std::chrono::milliseconds(400));
        return world.all().launch("live", [](CoreContext& context) {
          if (context.rank() == Rank{0}) return wait_in_hand(context, 1);
          context.signal(Rank{0}, flag_in_hand(context, 1), SignalOp::set, 1);
          context.fence(Rank{0});
          wait_in_hand(context, 0);
        });
      });
  REQUIRE(outcomes[0].has_value());
  CHECK(outcomes[0]->code == Errc::deadline);
}

TEST_CASE("faults: barriers of weak ranks keep their word, whatever is drawn") {
  for (int seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    std::array<std::array<std::uint64_t, 3>, 3> sums{};
    const std::string plan = fmt::format("seed {}\nany *: weak", seed);
    check_all_well(run_ranks(3, config_with_faults(2, plan), [&](World& world) {
      return launch_and_meet(world, "weak", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        for (std::uint64_t round = 1; round <= 3; ++round) {
          if (context.core() == Core{0}) {
            for (Rank dst{0}; dst.value() < 3; ++dst)
              context.put(dst, Offset{8 * context.rank().index()}, std::span{&round, 1});
            context.quiet();
          }
          const shmem::Witness all = sync.barrier_all();
          std::array<std::uint64_t, 3> row{};
          context.get(context.rank(), Offset{0U}, row, all);
          if (context.core() == Core{0}) sums[context.rank().index()][round - 1] = row[0] + row[1] + row[2];
          sync.barrier_all();
        }
      });
    }));
    for (const auto& of_rank : sums) CHECK(of_rank == std::array<std::uint64_t, 3>{3, 6, 9});
  }
}
