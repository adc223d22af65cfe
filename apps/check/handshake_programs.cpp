// What the entry barrier of an operator promises: when one rank's call is not like the others', every core of every rank
// leaves with the same error, and the next call works again.

#include <string>

#include "apps/check/kernels.hpp"
#include "apps/check/operators.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::ZeroBufferSync;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

/// What a rank brings into a round, and what everybody must leave with.
struct Call {
  runtime::CallCard card;
  std::optional<Error> fault;
  std::optional<Error> expected;
};

/// Nothing where every core left as it should.
std::string check_call(Communicator& comm, const Call& call) {
  std::vector<std::string> left(static_cast<std::size_t>(comm.cores()));
  const Result<void> done = comm.launch("handshake", [&](CoreContext& context) {
    ZeroBufferSync sync(context);
    try {
      sync.enter(call.card, call.fault);
    } catch (const Interrupted& interrupted) {
      left[context.core().index()] = to_string(interrupted.error());
      throw;
    }
  });
  const std::string expected = call.expected ? to_string(*call.expected) : std::string{};
  for (std::size_t core = 0; core < left.size(); ++core) {
    if (left[core] != expected)
      return fmt::format("core {} left with \"{}\" and not \"{}\"", core, left[core], expected);
  }
  if (done.has_value() == call.expected.has_value()) return "the launch does not say what its cores say";
  if (!done && done.error().where != call.expected->where) return "the error names another rank";
  return {};
}

using MakeCall = std::function<Call(std::int32_t round, Rank me, std::int32_t ranks)>;

Body calls(const Setting& setting, MakeCall make) {
  return [rounds = setting.rounds, make = std::move(make)](Communicator& comm) -> Result<void> {
    for (std::int32_t round = 0; round < rounds; ++round) {
      const std::string wrong_end = check_call(comm, make(round, comm.rank(), comm.ranks()));
      if (wrong_end.empty()) continue;
      return Error{.code = Errc::mismatch,
                   .context = fmt::format("rank {} round {}: {}", comm.rank(), round, wrong_end)};
    }
    return {};
  };
}

/// In every round another rank has a fault, and in the last one two ranks: the lowest counts.
Body handshake_fault(const Setting& setting) {
  return calls(setting, [rounds = setting.rounds](std::int32_t round, Rank me, std::int32_t ranks) {
    const Rank faulty{round % ranks};
    const auto fault_of = [&](Rank rank) {
      return Error{.code = Errc::invalid_argument, .context = fmt::format("fault of rank {}", rank), .where = rank};
    };
    const bool mine = me == faulty || (round == rounds - 1 && me > faulty);
    Call call{.card = runtime::CallCard("handshake"), .fault = {}, .expected = fault_of(faulty)};
    if (mine) call.fault = fault_of(me);
    return call;
  });
}

/// In every second round one rank calls with another value.
Body handshake_mismatch(const Setting& setting) {
  return calls(setting, [](std::int32_t round, Rank me, std::int32_t ranks) {
    const Rank odd{(round / 2 + 1) % ranks};
    const bool differs = round % 2 == 0 && ranks > 1;
    const auto value_of = [&](Rank rank) { return differs && rank == odd ? -1 - round : round; };
    Call call{.card = runtime::CallCard("handshake"), .fault = {}, .expected = {}};
    call.card.with("value", value_of(me));
    if (differs) {
      // Rank 0 is the rule; the lowest rank that differs from it is named.
      const Rank named = odd == Rank{0} ? Rank{1} : odd;
      call.expected =
          Error{.code = Errc::mismatch,
                .context = fmt::format("value is {} on rank {} and {} on rank 0: every rank must pass the same",
                                       value_of(named), named, value_of(Rank{0})),
                .where = named};
    }
    return call;
  });
}

/// One rank gives up in the middle of a kernel: all leave, it with its own error, the others with its reason.
Body abort(const Setting& /*setting*/) {
  return [](Communicator& comm) -> Result<void> {
    const Rank origin{comm.ranks() - 1};
    const Result<void> done = comm.launch("abort", [&](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.barrier_all();
      if (context.rank() == origin && context.core() == Core{0}) {
        throw Interrupted(Error{.code = Errc::capacity_exceeded, .context = "no room", .where = origin});
      }
      sync.barrier_all();
    });
    const bool mine = comm.rank() == origin;
    const Errc code = mine ? Errc::capacity_exceeded : Errc::aborted;
    const bool told = !done && done.error().code == code && done.error().where == origin &&
                      done.error().context.find("no room") != std::string::npos;
    // The communicator stays as it is, so what comes next says the same.
    const Result<void> later = comm.barrier();
    if (told && !later && later.error().code == Errc::aborted) return {};
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("rank {} left with \"{}\", then \"{}\"", comm.rank(),
                                        done ? "no error" : to_string(done.error()),
                                        later ? "no error" : to_string(later.error()))};
  };
}

}  // namespace

std::vector<Program> handshake_programs() {
  return {
      {.name = "abort", .what = "a rank gives up, and every rank hears why", .make = abort},
      {.name = "handshake_fault",
       .what = "a fault of one rank leaves every core of every rank with the same error",
       .make = handshake_fault},
      {.name = "handshake_mismatch", .what = "and so does a call that differs on one rank", .make = handshake_mismatch},
  };
}

}  // namespace shmoe::apps
