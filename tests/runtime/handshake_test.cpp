// The handshake at the entry of an operator: one clear error on every rank, and the job goes on.

#include <cstring>
#include <functional>
#include <numeric>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

/// What one rank brings to the handshake.
struct Call {
  CallCard card{"dispatch"};
  std::optional<Error> fault = {};
};

CallCard usual_card() { return CallCard("dispatch").with("hidden", 64).with("top-k", 8); }

Error fault(Errc code, std::string text) { return Error{.code = code, .context = std::move(text)}; }

/// All ranks call; then all call again with the same card, and the world works. Returns the error of each rank.
Outcomes handshake(std::int32_t ranks, std::int32_t cores, const std::function<Call(Rank)>& call) {
  Outcomes errors(static_cast<std::size_t>(ranks));
  check_all_well(run_ranks(ranks, small_config(cores), [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    const Call mine = call(world.rank());
    std::vector<int> rows_written(static_cast<std::size_t>(cores));
    const Result<void> refused = comm.launch("dispatch", [&](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.enter(mine.card, mine.fault);
      rows_written[context.core().index()] = 1;
    });
    if (!refused) errors[world.rank().index()] = refused.error();
    if (!refused) {
      for (const int written : rows_written) CHECK(written == 0);
    }
    CHECK_FALSE(comm.aborted().has_value());
    for (int round = 0; round < 3; ++round) {
      const Result<void> again = comm.launch("dispatch", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        sync.enter(usual_card(), std::nullopt);
        sync.barrier_all();
      });
      if (!again) return again;
    }
    return comm.barrier();
  }));
  return errors;
}

struct Shape {
  std::int32_t ranks;
  std::int32_t cores;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 1}, {3, 4}, {5, 3}};

void check_same_mismatch(const Outcomes& errors, Rank named, const std::string& text) {
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == Errc::mismatch);
    CHECK(error->context == text);
    CHECK(error->where == named);
  }
}

}  // namespace

TEST_CASE("equal cards pass") {
  for (const Shape& shape : kShapes) {
    const std::int32_t ranks = shape.ranks;
    const std::int32_t cores = shape.cores;
    check_all_well(handshake(ranks, cores, [](Rank) { return Call{usual_card()}; }));
  }
}

TEST_CASE("a different value is a mismatch on every rank, with both values and ranks") {
  for (const Shape& shape : kShapes) {
    const std::int32_t ranks = shape.ranks;
    const std::int32_t cores = shape.cores;
    if (ranks == 1) continue;
    for (Rank odd{0}; odd.value() < ranks; ++odd) {
      CAPTURE(ranks);
      CAPTURE(cores);
      CAPTURE(odd.value());
      const Outcomes errors = handshake(ranks, cores, [&](Rank rank) {
        return Call{CallCard("dispatch").with("hidden", rank == odd ? 128 : 64).with("top-k", 8)};
      });
      const Rank named{odd == Rank{0} ? 1 : odd.value()};  // all ranks are compared with rank 0
      check_same_mismatch(
          errors, named,
          fmt::format("dispatch: hidden is {} on rank {} and {} on rank 0: every rank must pass the same",
                      named == odd ? 128 : 64, named, named == odd ? 64 : 128));
    }
  }
}

TEST_CASE("of several ranks that differ all ranks report the lowest") {
  const Outcomes errors = handshake(5, 3, [&](Rank rank) {
    return Call{CallCard("dispatch").with("hidden", 64 + (rank.value() >= 2 ? rank.value() : 0)).with("top-k", 8)};
  });
  check_same_mismatch(errors, Rank{2},
                      "dispatch: hidden is 66 on rank 2 and 64 on rank 0: every rank must pass the same");
}

TEST_CASE("of lists of ranks the first that differs is named, and all are compared") {
  using Ranks = std::vector<std::int32_t>;
  const auto card = [](const Ranks& ranks) {
    return CallCard("dispatch").with_ranks("group", std::vector<Rank>(ranks.begin(), ranks.end()));
  };
  Ranks many(CallCard::kNamedRanks + 1);
  std::iota(many.begin(), many.end(), 0);
  Ranks others = many;
  others.back() = 4095;
  const auto difference = [&](const Ranks& mine, const Ranks& theirs) {
    return card(mine).difference(card(theirs), Rank{0}, Rank{3}).value_or("");
  };
  CHECK(difference({4, 7, 1}, {4, 7, 1}) == "");
  CHECK(difference({4, 7, 1}, {4, 1, 7}) ==
        "group[1] is rank 1 on rank 3 and rank 7 on rank 0: every rank must pass the same");
  CHECK(difference({4, 7}, {4, 7, 1}) ==
        "group has 3 ranks on rank 3 and 2 on rank 0, the first 2 alike: every rank must pass the same");
  CHECK(difference(many, many) == "");
  CHECK(difference(many, others) ==
        "group has 65 ranks on rank 3 and 65 on rank 0, the first 64 alike: every rank must pass the same");
}

TEST_CASE("another operator, or the same with another number of fields, is a mismatch") {
  const CallCard cards[] = {CallCard("combine").with("hidden", 64).with("top-k", 8),
                            CallCard("dispatch").with("hidden", 64), CallCard("dispatch")};
  for (const CallCard& card : cards) {
    const Outcomes errors = handshake(3, 2, [&](Rank rank) { return Call{rank == Rank{1} ? card : usual_card()}; });
    REQUIRE(errors[0]);
    CHECK(contains(errors[0]->context, "every rank must call the same operators in the same order"));
    CHECK(contains(errors[0]->context, "dispatch: rank 1 calls "));
    check_same_mismatch(errors, Rank{1}, errors[0]->context);
  }
}

TEST_CASE("a fault of one rank reaches every rank with its code, text and rank") {
  for (const Shape& shape : kShapes) {
    const std::int32_t ranks = shape.ranks;
    const std::int32_t cores = shape.cores;
    for (Rank faulty{0}; faulty.value() < ranks; ++faulty) {
      CAPTURE(ranks);
      CAPTURE(cores);
      CAPTURE(faulty.value());
      const Outcomes errors = handshake(ranks, cores, [&](Rank rank) {
        Call call{usual_card()};
        if (rank == faulty) call.fault = fault(Errc::capacity_exceeded, "900 rows, 512 fit");
        return call;
      });
      for (const auto& error : errors) {
        REQUIRE(error);
        CHECK(error->code == Errc::capacity_exceeded);
        CHECK(error->context == "dispatch: 900 rows, 512 fit");
        CHECK(error->where == faulty);
      }
    }
  }
}

TEST_CASE("of two faults all ranks report the lower rank's") {
  for (const Shape& shape : kShapes) {
    const std::int32_t ranks = shape.ranks;
    const std::int32_t cores = shape.cores;
    for (Rank low{0}; low.value() < ranks; ++low) {
      for (Rank high{low.value() + 1}; high.value() < ranks; ++high) {
        CAPTURE(ranks);
        CAPTURE(cores);
        const Outcomes errors = handshake(ranks, cores, [&](Rank rank) {
          Call call{usual_card()};
          if (rank == low) call.fault = fault(Errc::invalid_argument, "low");
          if (rank == high) call.fault = fault(Errc::capacity_exceeded, "high");
          return call;
        });
        for (const auto& error : errors) {
          REQUIRE(error);
          CHECK(error->code == Errc::invalid_argument);
          CHECK(error->context == "dispatch: low");
          CHECK(error->where == low);
        }
      }
    }
  }
}

TEST_CASE("a fault comes before a mismatch") {
  for (const Shape& shape : kShapes) {
    const std::int32_t ranks = shape.ranks;
    const std::int32_t cores = shape.cores;
    if (ranks < 3) continue;
    const Outcomes errors = handshake(ranks, cores, [&](Rank rank) {
      Call call{rank == Rank{0} ? CallCard("combine") : usual_card()};
      if (rank == Rank{2}) call.fault = fault(Errc::invalid_argument, "top-k is 0");
      return call;
    });
    for (const auto& error : errors) CHECK(text_of(error) == "invalid argument: dispatch: top-k is 0");
  }
}

TEST_CASE("a card that was torn is told as one, whoever's it is") {
  for (const Rank torn : {Rank{0}, Rank{2}}) {
    const Outcomes errors = handshake(3, 2, [&](Rank rank) {
      Call call{usual_card()};
      // The digest of another card and the fields of this one.
      const CallCard other = CallCard("combine");
      if (rank == torn) std::memcpy(static_cast<void*>(&call.card), &other, sizeof(std::uint64_t));
      return call;
    });
    for (const auto& error : errors) {
      REQUIRE(error);
      CHECK(error->code == Errc::mismatch);
      CHECK(error->context.find(fmt::format("the call card of rank {} cannot be read", torn)) != std::string::npos);
    }
  }
}

TEST_CASE("a long text is cut, the same everywhere") {
  const Outcomes errors = handshake(3, 2, [&](Rank rank) {
    Call call{usual_card()};
    if (rank == Rank{1}) call.fault = fault(Errc::invalid_argument, std::string(600, 'x'));
    return call;
  });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->context == "dispatch: " + std::string(shmem::kErrorTextBytes - 1, 'x'));
  }
}

TEST_CASE("different heaps are a mismatch at the next barrier, on every rank") {
  Outcomes errors(3);
  check_all_well(run_ranks(3, small_config(2), [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    const Result<Offset> at = comm.allocate(Bytes{world.rank() == Rank{2} ? 128U : 64U});
    if (!at) return at.error();
    const Result<void> met = comm.barrier();
    if (!met) errors[world.rank().index()] = met.error();
    CHECK_FALSE(comm.aborted().has_value());
    return {};
  }));
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == Errc::mismatch);
    CHECK(contains(error->context, "barrier: heap history is "));
    CHECK(contains(error->context, "on rank 2"));
    CHECK(error->context == errors[0]->context);
    CHECK(error->where == Rank{2});
  }
}

TEST_CASE("in the published protocol a fault stays where it is, and the peers end with its text") {
  for (const Profile& profile : {kFaithful202607, kFaithful202608}) {
    const Outcomes outcomes = run_ranks(3, small_config(2, profile), [](World& world) {
      return world.all().launch("dispatch", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        const bool faulty = context.rank() == Rank{1};
        sync.enter(CallCard("dispatch"),
                   faulty ? std::optional(fault(Errc::invalid_argument, "no tokens")) : std::nullopt);
      });
    });
    CHECK(text_of(outcomes[1]) == "invalid argument: dispatch: no tokens");
    for (const std::size_t rank : {0U, 2U}) {
      REQUIRE(outcomes[rank]);
      CHECK(outcomes[rank]->code == Errc::aborted);
      CHECK(outcomes[rank]->where == Rank{1});
      CHECK(contains(outcomes[rank]->context, "rank 1 gave up: invalid argument: no tokens"));
    }
  }
}

TEST_CASE("a card that does not fit, and a fault without a code, break the contract") {
  CHECK_THROWS_WITH_AS(CallCard("a name of more than 23 characters"), doctest::Contains("is longer than 23 characters"),
                       ContractViolation);
  CHECK_THROWS_WITH_AS(CallCard("op").with("more than 15 characters", 1),
                       doctest::Contains("is longer than 15 characters"), ContractViolation);
  CallCard full("op");
  full.with_ranks("group", {});
  CHECK_THROWS_WITH_AS(full.with_ranks("another", {}),
                       doctest::Contains("a call card holds one list of ranks, before its fields"), ContractViolation);
  for (std::size_t i = 0; i < CallCard::kFields; ++i) full.with("field", 1);
  CHECK_THROWS_WITH_AS(full.with("one more", 1), doctest::Contains(" fields; \"one more\" is one too many"),
                       ContractViolation);
  CHECK_THROWS_WITH_AS(full.with_ranks("late", {}),
                       doctest::Contains("a call card holds one list of ranks, before its fields"), ContractViolation);
  const Outcomes outcomes = run_ranks(2, small_config(1), [](World& world) {
    return world.all().launch("op", [&](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.enter(CallCard("op"), context.rank() == Rank{0} ? std::optional(fault(Errc::ok, "?")) : std::nullopt);
    });
  });
  REQUIRE(outcomes[0]);
  CHECK(outcomes[0]->code == Errc::broken_contract);
  REQUIRE(outcomes[1]);
  CHECK(outcomes[1]->code == Errc::aborted);
}
