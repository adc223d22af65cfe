// Plans of faults: what is written, what is refused and how, and that nothing makes the parser stumble.

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>

#include "runtime/config.hpp"
#include "runtime/fault_plan.hpp"

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

Result<FaultPlan> plan_from(std::string_view text) { return FaultPlan::parse(text, "plan"); }

Fault fault_in(std::string_view line) {
  CAPTURE(line);
  const Result<FaultPlan> plan = plan_from(line);
  REQUIRE_MESSAGE(plan.has_value(), to_string(plan.error()));
  REQUIRE(plan->faults.size() == 1);
  return plan->faults.front();
}

std::string refusal_of(std::string_view text) {
  const Result<FaultPlan> plan = plan_from(text);
  return plan ? "taken" : to_string(plan.error());
}

constexpr std::uint64_t kNoLast = std::numeric_limits<std::uint64_t>::max();

/// Lines as to_string writes them.
constexpr std::array kFaultLines{
    "rank 1 core 0 in notify signal 2 barrier: drop",
    "rank 1 in dispatch_normal fence *: skip",
    "rank 3 in \"hand over\" launch 12 wait 1: skip",
    "in dispatch_normal put 1-4: tear 8",
    "signal 1: double",
    "signal 1: to rank 2",
    "put_signal 1 flag: slot -1",
    "signal * \"my flags: a#b\": value +256",
    "core 47 any 1000: delay 200ms",
    "quiet 2: delay 0-5us",
    "get 2-3: tear 0",
    "any 1: delay 3s",
    "any 1: stop",
    "rank 0 wait 7 sync_all: kill",
    "get 5: stall",
    "rank 1 any *: weak",
    "put_signal 2 flag: hold",
};

}  // namespace

TEST_CASE("fault plan: every part of a line arrives") {
  const Fault fault = fault_in("rank 2 core 3 in \"hand over\" launch 4 signal 5-6 barrier: value -7");
  CHECK(fault.line == 1);
  CHECK(fault.at.rank == Rank{2});
  CHECK(fault.at.core == Core{3});
  CHECK(fault.at.op == "hand over");
  CHECK(fault.at.launch == 4U);
  CHECK(fault.at.call == FaultCall::signal);
  CHECK(fault.at.first == 5);
  CHECK(fault.at.last == 6);
  CHECK(fault.at.family == "barrier");
  CHECK(fault.action == FaultAction::value);
  CHECK(fault.amount == -7);
}

TEST_CASE("fault plan: what is left out is any") {
  const Fault fault = fault_in("fence *: skip");
  CHECK(!fault.at.rank);
  CHECK(!fault.at.core);
  CHECK(!fault.at.op);
  CHECK(!fault.at.launch);
  CHECK(!fault.at.family);
  CHECK(fault.at.first == 1);
  CHECK(fault.at.last == kNoLast);
}

TEST_CASE("fault plan: every action and its amount") {
  CHECK(fault_in("put 1: drop").action == FaultAction::drop);
  CHECK(fault_in("wait 1: skip").action == FaultAction::skip);
  CHECK(fault_in("put 1: tear 8").amount == 8);
  CHECK(fault_in("signal 1: double").action == FaultAction::twice);
  CHECK(fault_in("signal 1: to rank 2").amount == 2);
  CHECK(fault_in("signal 1: slot +3").amount == 3);
  CHECK(fault_in("signal 1: value +9223372036854775807").amount == 9'223'372'036'854'775'807);
  const Fault late = fault_in("any 1: delay 200ms");
  CHECK(late.shortest == std::chrono::milliseconds(200));
  CHECK(late.longest == std::chrono::milliseconds(200));
  const Fault drawn = fault_in("any 1: delay 0-5us");
  CHECK(drawn.shortest == std::chrono::microseconds(0));
  CHECK(drawn.longest == std::chrono::microseconds(5));
  for (const char* call : {"put", "signal", "put_signal", "any"}) {
    CHECK(fault_in(fmt::format("{} 1: weak", call)).action == FaultAction::weak);
    CHECK(fault_in(fmt::format("{} 1: hold", call)).action == FaultAction::hold);
  }
  CHECK(fault_in("any 1: stall").action == FaultAction::stall);
  CHECK(fault_in("any 1: stop").action == FaultAction::stop);
  CHECK(fault_in("any 1: kill").action == FaultAction::kill);
}

TEST_CASE("fault plan: blanks, comments, empty lines and the seed") {
  const Result<FaultPlan> plan = plan_from(
      "# lost notifies\n\n  seed 7   # of what is drawn\r\n\trank 1  signal 1 :drop# the first\n\nin \"a # b\" wait "
      "2:skip");
  REQUIRE(plan);
  CHECK(plan->name == "plan");
  CHECK(plan->seed == 7);
  REQUIRE(plan->faults.size() == 2);
  CHECK(plan->faults[0].line == 4);
  CHECK(plan->faults[1].line == 6);
  CHECK(plan->faults[1].at.op == "a # b");
  CHECK(plan_from("")->faults.empty());
  CHECK(plan_from("\n#\n   ")->faults.empty());
}

TEST_CASE("fault plan: each mistake is named with its line and what is right there") {
  const std::pair<const char*, const char*> mistakes[] = {
      {"signl 1: drop",
       "'signl' stands where a call should be: one of put, get, signal, put_signal, fence, quiet, wait, any"},
      {"rank", "the end of the line stands where the rank should be: a number from 0 to 2147483647"},
      {"rank -1 put 1: drop", "'-1' stands where the rank should be"},
      {"rank 2147483648 put 1: drop", "'2147483648' stands where the rank should be"},
      {"core x put 1: drop", "'x' stands where the core should be"},
      {"core 1 rank 1 put 1: drop", "'rank' stands where a call should be"},
      {"in : put 1: drop", "':' stands where an operator should be: a name, in quotation marks if it has a blank"},
      {"in \"\" put 1: drop", "'' stands where an operator should be"},
      {"in hand over put 1: drop", "'over' stands where a call should be"},
      {"in notify launch 0 put 1: drop", "'0' stands where the number of the launch should be: a number from 1 on"},
      {"launch 2 put 1: drop", "'launch' stands where a call should be"},
      {"put : drop",
       "':' stands where which of the calls is meant should be: a number from 1 on, two such as 2-4, or * for all"},
      {"put 0: drop", "'0' stands"},
      {"put 3-2: drop", "'3-2' stands"},
      {"put 1-: drop", "'1-' stands"},
      {"put 1 barrier: drop",
       "'barrier' stands where the colon should be: put has no slot; signal, put_signal and wait have"},
      {"put 1 drop", "'drop' stands where the colon should be"},
      {"signal 1 drop", "the end of the line stands where a colon should be: and behind it what goes wrong"},
      {"put 1:",
       "the end of the line stands where what goes wrong should be: one of drop, late, skip, tear, double, to, slot, "
       "value, "
       "weak, hold, delay, stall, stop, kill"},
      {"put 1: skip", "skip is for get, fence, quiet, wait, not for put"},
      {"wait 1: drop", "drop is for put, signal, put_signal, not for wait"},
      {"put 1: double", "double is for signal, put_signal, not for put"},
      {"wait 1: weak", "weak is for put, signal, put_signal, any, not for wait"},
      {"fence 1: hold", "hold is for put, signal, put_signal, any, not for fence"},
      {"any 1: drop", "drop is for put, signal, put_signal, not for any"},
      {"put 1: tear", "the end of the line stands where the number of bytes should be"},
      {"put 1: tear -1", "'-1' stands where the number of bytes should be"},
      {"signal 1: to 2", "'2' stands where the receiver should be: to rank and a number"},
      {"signal 1: slot 1", "'1' stands where a difference should be: such as +1 or -256"},
      {"signal 1: slot +0", "'+0' stands"},
      {"signal 1: slot +-1", "'+-1' stands"},
      {"signal 1: value +9223372036854775808", "'+9223372036854775808' stands"},
      {"any 1: delay 5", "'5' stands where a time should be: such as 200ms or 0-5ms, in us, ms or s, up to a day"},
      {"any 1: delay 5-1ms", "'5-1ms' stands"},
      {"any 1: delay -5ms", "'-5ms' stands"},
      {"any 1: delay ms", "'ms' stands"},
      {"any 1: delay 86401s", "'86401s' stands"},
      {"any 1: delay 9223372036854775807s", "'9223372036854775807s' stands where a time should be"},
      {"put 1: drop drop", "'drop' stands where the end of the line should be: one fault a line"},
      {"seed", "the end of the line stands where the seed should be: a number from 0 to 18446744073709551615"},
      {"seed 18446744073709551616", "'18446744073709551616' stands where the seed should be"},
      {"in \"hand put 1: drop", "'\"hand put 1: drop' has no end"},
      {"in a\x01"
       "b put 1: drop",
       "'a?b' has a control character"},
  };
  for (const auto& mistake : mistakes) {
    const std::string line = mistake.first;
    const std::string told = refusal_of("# a plan\nput 1: drop\n" + line + "\n");
    CAPTURE(line);
    CAPTURE(told);
    CHECK(told.starts_with(std::string("invalid argument: plan:3: ") + mistake.second));
  }
  CHECK(refusal_of(std::string(100'000, 'x')).size() < 300);
}

TEST_CASE("fault plan: what is written is what was read") {
  std::string text = "seed 18446744073709551615\n";
  for (const char* line : kFaultLines) {
    CAPTURE(line);
    CHECK(to_string(fault_in(line)) == line);
    text += std::string(line) + "\n";
  }
  CHECK(to_string(*plan_from(text)) == text);
  CHECK(to_string(fault_in("any 1: delay 2000-3000us")) == "any 1: delay 2-3ms");
  CHECK(to_string(fault_in("put 2-2: drop")) == "put 2: drop");
}

TEST_CASE("fault plan: no text makes the parser stumble, and whatever it takes it writes and takes again") {
  const char* own = std::getenv("SHMOE_TEST_SEED");
  const std::uint64_t seed = own == nullptr ? 20'261'130 : std::strtoull(own, nullptr, 10);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int taken = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string text = kFaultLines[random() % kFaultLines.size()];
    for (std::uint64_t change = random() % 4; change > 0; --change) {
      const std::size_t at = random() % (text.size() + 1);
      switch (random() % 4) {
        case 0: text.insert(at, 1, static_cast<char>(random() % 256)); break;
        case 1: text.insert(at, 1, " :\"#-*+\n0"[random() % 9]); break;
        case 2: text.erase(at, random() % 4); break;
        default: text.insert(at, kFaultLines[random() % kFaultLines.size()]); break;
      }
    }
    const Result<FaultPlan> plan = plan_from(text);
    if (!plan) {
      CHECK(plan.error().context.starts_with("plan:"));
      continue;
    }
    ++taken;
    const std::string written = to_string(*plan);
    CAPTURE(written);
    const Result<FaultPlan> again = plan_from(written);
    REQUIRE(again);
    CHECK(to_string(*again) == written);
  }
  CHECK(taken > 4'000);
}

TEST_CASE("fault plan: what the job does not have is refused before it starts") {
  const shmem::SlotPlan slots = shmem::SlotPlan::of_block(
      shmem::block_map(kSafe, {.ranks = 4, .cores = 2, .slots = 2, .ipc_data = Bytes{0}, .heap = Bytes{1U << 20}}));
  const auto checked = [&](std::string_view text, bool threads) {
    const Result<void> result = plan_from(text)->check({.ranks = 4, .cores = 2, .slots = slots, .threads = threads});
    return result ? "right" : to_string(result.error());
  };
  CHECK(checked("rank 3 core 1 signal 1 flag: to rank 3", false) == "right");
  CHECK(checked("rank 3 any 1: kill", false) == "right");
  CHECK(checked("\nrank 4 any 1: stall", false) == "invalid argument: plan:2: rank 4 is none of the 4 ranks");
  CHECK(checked("signal 1: to rank 7", false) == "invalid argument: plan:1: rank 7 is none of the 4 ranks");
  CHECK(checked("core 2 any 1: stall", false) == "invalid argument: plan:1: core 2 is none of the 2 cores of a rank");
  for (const char* family : {"barier", "abort"}) {
    CHECK(checked(fmt::format("signal 1 {}: drop", family), false) ==
          fmt::format("invalid argument: plan:1: no slots are called '{}': there are barrier, flag, sync_all", family));
  }
  const std::uint32_t size = slots.size();
  CHECK(checked(fmt::format("signal 1: slot +{}", size - 1), false) == "right");
  CHECK(checked(fmt::format("signal 1: slot -{}", size - 1), false) == "right");
  for (const char* shift : {"+9223372036854775807", "-9223372036854775808"}) {
    CHECK(checked(fmt::format("signal 1: slot {}", shift), false) ==
          fmt::format("invalid argument: plan:1: slot {} leads nowhere: the {} slots of a rank are at most {} apart",
                      shift, size, size - 1));
  }
  CHECK_FALSE(checked(fmt::format("signal 1: slot +{}", size), false) == "right");
  CHECK(checked("rank 3 any 1: kill", true) ==
        "invalid argument: plan:1: kill would end all ranks, which are threads of one process: run them as processes");
  CHECK(checked("rank 3 any 1: stop", true) ==
        "invalid argument: plan:1: stop would end all ranks, which are threads of one process: run them as processes");
}

TEST_CASE("fault plan: the setting is a file") {
  const auto load = [](const std::string& file) {
    return Config::load([&](std::string_view name) -> std::optional<std::string> {
      return name == "SHMOE_FAULTS" ? std::optional(file) : std::nullopt;
    });
  };
  CHECK(load("")->faults.faults.empty());
  const auto missing = load("/nonexistent/plan");
  REQUIRE_FALSE(missing);
  CHECK(to_string(missing.error()) ==
        "not found: SHMOE_FAULTS: cannot read faults from '/nonexistent/plan': give a file that can be read (No such "
        "file or directory)");
  const auto folder = load("/tmp");
  REQUIRE_FALSE(folder);
  CHECK(to_string(folder.error()) ==
        "invalid argument: SHMOE_FAULTS: '/tmp', which should hold faults, is not a regular file");
}
