#include "shmem/signal.hpp"

#include <set>

#include <doctest/doctest.h>

#include "shmem/wait.hpp"

using namespace shmoe;
using namespace shmoe::shmem;

namespace {

SlotPlan plan_of(std::int32_t ranks, std::int32_t slots) {
  return SlotPlan::of_block(block_map(kSafe, {.ranks = ranks, .cores = slots, .slots = slots}));
}

}  // namespace

TEST_CASE("slots: dense numbers follow the memory, 32 bytes apart, inside their regions") {
  for (const std::int32_t ranks : {1, 2, 3, 7, 64, 385}) {
    for (const std::int32_t slots : {1, 2, 48}) {
      const BlockMap map = block_map(kSafe, {.ranks = ranks, .cores = slots, .slots = slots});
      const SlotPlan plan = SlotPlan::of_block(map);
      CAPTURE(ranks);
      CAPTURE(slots);
      CHECK(plan.size() == static_cast<std::uint32_t>(2 * ranks + 2 * ranks * slots + 2));
      CHECK(plan.ranks() == ranks);
      std::uint32_t next = 0;
      int wrong = 0;
      for (std::uint64_t buffer = 0; buffer < 2; ++buffer) {
        for (std::int32_t source = 0; source < ranks; ++source, ++next) {
          const Slot slot = plan.barrier().at(buffer, Rank{source});
          wrong += slot != Slot{next} || plan.offset_of(slot) != map.barrier.at + Bytes{32 * next};
        }
      }
      const std::uint32_t first = next;
      for (std::uint64_t buffer = 0; buffer < 2; ++buffer) {
        for (std::int32_t source = 0; source < ranks; ++source) {
          for (std::int32_t event = 0; event < slots; ++event, ++next) {
            const Slot slot = plan.flag().at(buffer, Rank{source}, static_cast<std::uint32_t>(event));
            wrong +=
                slot != Slot{next} || plan.offset_of(slot) != map.flags.at + Bytes{32 * std::uint64_t{next - first}};
          }
        }
      }
      CHECK(wrong == 0);
      CHECK(plan.offset_of(plan.sync_all().at(0, Rank{0})) == map.sync_all.at);
      CHECK(plan.offset_of(plan.abort().at(0, Rank{0})) == map.abort.at);
      CHECK(plan.offset_of(Slot{first - 1}) + Bytes{32} == map.barrier.end());
      CHECK(plan.offset_of(Slot{next - 1}) + Bytes{32} == map.flags.end());
    }
  }
}

TEST_CASE("slots: a number, source, buffer or event that does not exist breaks the contract") {
  const SlotPlan plan = plan_of(3, 2);
  CHECK_THROWS_AS((void)plan.offset_of(Slot{plan.size()}), ContractViolation);
  CHECK_THROWS_AS((void)plan.offset_of(Slot{0xFFFF'FFFFU}), ContractViolation);
  CHECK_THROWS_WITH_AS((void)plan.barrier().at(2, Rank{0}),
                       doctest::Contains("slot barrier[2][0][0] of a family of 2 x 3 x 1"), ContractViolation);
  CHECK_THROWS_WITH_AS((void)plan.barrier().at(0, Rank{3}),
                       doctest::Contains("slot barrier[0][3][0] of a family of 2 x 3 x 1"), ContractViolation);
  CHECK_THROWS_WITH_AS((void)plan.barrier().at(0, Rank{-1}),
                       doctest::Contains("slot barrier[0][-1][0] of a family of 2 x 3 x 1"), ContractViolation);
  CHECK_THROWS_WITH_AS((void)plan.flag().at(0, Rank{0}, 2),
                       doctest::Contains("slot flag[0][0][2] of a family of 2 x 3 x 2"), ContractViolation);
  try {
    (void)plan.flag().at(1, Rank{7}, 0);
    FAIL("no violation");
  } catch (const ContractViolation& e) {
    CHECK(std::string(e.what()).find("slot flag[1][7][0] of a family of 2 x 3 x 2") != std::string::npos);
  }
}

TEST_CASE("slots: families that overlap are refused, neighbours are not") {
  SlotPlan plan(4);
  plan.declare({.name = "a", .base = Offset{1024}, .buffers = 2, .sources = 4, .events = 3});  // 24 slots, 768 bytes
  for (const std::uint64_t base : {1024U, 1024U + 736U, 1024U - 32U, 1024U - 64U + 32U}) {
    CAPTURE(base);
    CHECK_THROWS_WITH_AS(plan.declare({.name = "b", .base = Offset{base}, .events = 2}),
                         doctest::Contains("slot families b and a overlap"), ContractViolation);
  }
  CHECK(plan.size() == 24);
  CHECK(plan.ledger_size() == 24);
  const SlotFamily before = plan.declare({.name = "b", .base = Offset{1024 - 64}, .events = 2});
  const SlotFamily after = plan.declare({.name = "c", .base = Offset{1024 + 768}, .events = 2});
  CHECK(before.first == 24);
  CHECK(after.first == 26);
  CHECK(plan.family_of(Slot{25}).name == "b");
  CHECK(plan.family_of(Slot{26}).name == "c");
  CHECK(plan.families().size() == 3);
  // The published families leave no room for another in their regions.
  SlotPlan published = plan_of(2, 2);
  CHECK_THROWS_WITH_AS(published.declare({.name = "x", .base = Offset{0x1F020}}),
                       doctest::Contains("slot families x and barrier overlap"), ContractViolation);
}

TEST_CASE("slots: a family is found by its name; names are given once, places are whole slots") {
  SlotPlan plan = plan_of(2, 2);
  CHECK(plan.family("barrier").first == plan.barrier().first);
  CHECK_THROWS_WITH_AS((void)plan.family("token"), doctest::Contains("no slot family has the name token"),
                       ContractViolation);
  const std::uint64_t before = plan.digest();
  CHECK(before == plan_of(2, 2).digest());
  CHECK_THROWS_WITH_AS(plan.declare({.name = "flag", .base = Offset{0}}),
                       doctest::Contains("two slot families with the name flag"), ContractViolation);
  CHECK_THROWS_WITH_AS(plan.declare({.name = "token", .base = Offset{16}}),
                       doctest::Contains("slot family token begins at 0x10, no multiple of 32"), ContractViolation);
  plan.declare({.name = "token", .base = Offset{32}, .sources = 2, .events = 3});
  CHECK(plan.family("token").at(0, Rank{1}, 2) == Slot{plan.size() - 1});
  CHECK(plan.digest() != before);
}

TEST_CASE("slots: descriptions name family, buffer, source and event") {
  SlotPlan plan = plan_of(4, 6);
  CHECK(plan.describe(plan.barrier().at(1, Rank{3})) == "barrier[1] from rank 3");
  CHECK(plan.describe(plan.barrier().at(0, Rank{0})) == "barrier[0] from rank 0");
  CHECK(plan.describe(plan.flag().at(0, Rank{2}, 5)) == "flag[0] from rank 2 event 5");
  CHECK(plan.describe(plan.sync_all().at(0, Rank{0})) == "sync_all");
  CHECK(plan.describe(plan.abort().at(0, Rank{0})) == "abort");
  const SlotFamily many =
      plan.declare({.name = "many", .base = Offset{0}, .buffers = 2, .events = 3, .writers = Writers::any_rank});
  CHECK(plan.describe(many.at(1, Rank{0}, 2)) == "many[1] event 2");
  const SlotFamily credit = plan.declare({.name = "credit",
                                          .base = Offset{1024},
                                          .buffers = 2,
                                          .sources = 4,
                                          .events = 3,
                                          .writers = Writers::source_and_owner});
  CHECK(plan.describe(credit.at(1, Rank{3}, 2)) == "credit[1] from rank 3 event 2");
}

TEST_CASE("slots: who may write follows the family") {
  const SlotPlan plan = plan_of(3, 2);
  for (std::int32_t owner = 0; owner < 3; ++owner) {
    for (std::int32_t writer = 0; writer < 3; ++writer) {
      for (std::int32_t source = 0; source < 3; ++source) {
        for (std::uint64_t buffer = 0; buffer < 2; ++buffer) {
          CHECK(plan.may_write(plan.barrier().at(buffer, Rank{source}), Rank{owner}, Rank{writer}) ==
                (source == writer));
          const Slot flag = plan.flag().at(buffer, Rank{source}, 1);
          CHECK(plan.may_write(flag, Rank{owner}, Rank{writer}) == (source == writer));
          CHECK(plan.writer_of(flag, Rank{owner}) == Rank{source});
        }
      }
      CHECK(plan.may_write(plan.sync_all().at(0, Rank{0}), Rank{owner}, Rank{writer}) == (owner == writer));
      CHECK(plan.may_write(plan.abort().at(0, Rank{0}), Rank{owner}, Rank{writer}));
    }
    CHECK(plan.writer_of(plan.sync_all().at(0, Rank{0}), Rank{owner}) == Rank{owner});
    CHECK(!plan.writer_of(plan.abort().at(0, Rank{0}), Rank{owner}));
  }
}

TEST_CASE("slots: a credit is set by its source and reset by its owner, and by nobody else") {
  SlotPlan plan(4, 2);
  const SlotFamily credit = plan.declare({.name = "credit",
                                          .base = Offset{0},
                                          .buffers = 2,
                                          .sources = 4,
                                          .events = 3,
                                          .writers = Writers::source_and_owner});
  CHECK(credit.has_sources());
  CHECK(credit.goes_back());
  for (Rank owner{0}; owner.value() < 4; ++owner) {
    for (Rank source{0}; source.value() < 4; ++source) {
      const Slot slot = credit.at(1, source, 2);
      CHECK(plan.writer_of(slot, owner, Side::source) == source);
      CHECK(plan.writer_of(slot, owner, Side::owner) == owner);
      CHECK(plan.writer_of(slot, owner) == (source == owner ? std::optional<Rank>(owner) : std::nullopt));
      for (Rank writer{0}; writer.value() < 4; ++writer) {
        CHECK(plan.may_write(slot, owner, writer) == (writer == source || writer == owner));
      }
    }
  }
  CHECK(side_of(0) == Side::owner);
  CHECK(side_of(1) == Side::source);
  const Slot flag = plan.declare({.name = "flag", .base = Offset{4096}, .sources = 4}).at(0, Rank{2});
  CHECK(!plan.family_of(flag).goes_back());
  CHECK(plan.writer_of(flag, Rank{1}, Side::owner) == Rank{2});
  CHECK_THROWS_WITH_AS(
      plan.declare({.name = "sum", .base = Offset{8192}, .writers = Writers::source_and_owner, .op = SignalOp::add}),
      doctest::Contains("slot family sum of source_and_owner is declared for add"), ContractViolation);
}

TEST_CASE("slots: whose signal a wait needs") {
  SlotPlan plan(4);
  const Slot credit =
      plan.declare({.name = "credit", .base = Offset{0}, .sources = 4, .writers = Writers::source_and_owner})
          .at(0, Rank{2});
  const Slot flag = plan.declare({.name = "flag", .base = Offset{4096}, .sources = 4}).at(0, Rank{2});
  const Slot any = plan.declare({.name = "any", .base = Offset{8192}, .writers = Writers::any_rank}).at(0, Rank{0});
  const Rank owner{1};
  CHECK(awaited_writer(plan, credit, owner, Compare::equal, 0) == owner);
  CHECK(awaited_writer(plan, credit, owner, Compare::equal, 1) == Rank{2});
  CHECK(awaited_writer(plan, credit, owner, Compare::at_least, 1) == Rank{2});
  CHECK(awaited_writer(plan, credit, owner, Compare::not_equal, 0) == Rank{2});
  CHECK(!awaited_writer(plan, credit, owner, Compare::not_equal, 1));  // another value, or 0
  CHECK(awaited_writer(plan, credit, owner, Compare::at_most, 0) == owner);
  CHECK(!awaited_writer(plan, credit, owner, Compare::at_most, 1));
  CHECK(awaited_writer(plan, credit, Rank{2}, Compare::not_equal, 1) == Rank{2});
  CHECK(awaited_writer(plan, flag, owner, Compare::equal, 0) == Rank{2});
  CHECK(awaited_writer(plan, flag, owner, Compare::at_least, 3) == Rank{2});
  CHECK(!awaited_writer(plan, any, owner, Compare::equal, 0));
  CHECK(!awaited_writer(plan, any, owner, Compare::equal, 1));
}

TEST_CASE(
    "ledger: each (destination, slot) a rank may write has an entry of its own, and one a core where cores share it") {
  for (const std::int32_t ranks : {1, 2, 3, 8, 33}) {
    for (const std::int32_t slots : {1, 2, 7}) {
      SlotPlan plan = plan_of(ranks, slots);
      plan.declare(
          {.name = "counter", .base = Offset{0}, .events = 5, .writers = Writers::any_rank, .op = SignalOp::add});
      plan.declare({.name = "own", .base = Offset{4096}, .buffers = 2, .events = 3, .writers = Writers::own_cores});
      plan.declare({.name = "word",
                    .base = Offset{8192},
                    .buffers = 3,
                    .sources = static_cast<std::uint32_t>(ranks),
                    .events = 2});
      plan.declare({.name = "credit",
                    .base = Offset{16384},
                    .buffers = 3,
                    .sources = static_cast<std::uint32_t>(ranks),
                    .events = 2,
                    .writers = Writers::source_and_owner});
      for (std::int32_t writer = 0; writer < ranks; ++writer) {
        std::set<std::uint32_t> entries;
        std::size_t pairs = 0;
        for (std::int32_t dst = 0; dst < ranks; ++dst) {
          for (Slot slot{0}; slot.value() < plan.size(); ++slot) {
            if (!plan.may_write(slot, Rank{dst}, Rank{writer})) continue;
            const bool shared = plan.family_of(slot).writers == Writers::own_cores;
            const bool credit = plan.family_of(slot).writers == Writers::source_and_owner;
            for (std::int32_t core = 0; core < (shared ? slots : 1); ++core) {
              for (const Side side : {Side::source, Side::owner}) {
                if (!credit && side == Side::owner) continue;
                if (credit && plan.writer_of(slot, Rank{dst}, side) != Rank{writer}) continue;
                ++pairs;
                entries.insert(plan.ledger_index(Rank{dst}, slot, Core{core}, side));
              }
            }
          }
        }
        CHECK(entries.size() == pairs);
        CHECK(pairs == plan.ledger_size());
        CHECK(*entries.rbegin() < plan.ledger_size());
      }
    }
  }
}

TEST_CASE("words: the published word packs magic and value, and the magic wraps at 32 bits") {
  CHECK(published_word(0xFFFF'FFFFU, 1) == 0xFFFF'FFFF'0000'0001U);
  CHECK(published_word(std::uint64_t{1} << 32, 1) == published_word(0, 1));
  CHECK(published_word((std::uint64_t{1} << 32) - 3, 0xFFFF'FFFFU) == 0xFFFF'FFFD'FFFF'FFFFU);
  CHECK(published_word(0, 1) != 0);
  std::set<std::uint64_t> words;
  for (std::uint64_t magic = (std::uint64_t{1} << 32) - 3; magic < (std::uint64_t{1} << 32) + 3; ++magic) {
    for (std::uint32_t value = 1; value <= 2; ++value) words.insert(published_word(magic, value));
  }
  CHECK(words.size() == 12);
}

TEST_CASE("words: the safe word keeps 56 bits of sequence in order, and every error code") {
  for (int code = 0; code <= static_cast<int>(Errc::broken_contract); ++code) {
    const auto error = static_cast<Errc>(code);
    for (const std::uint64_t sequence :
         {std::uint64_t{0}, std::uint64_t{1}, (std::uint64_t{1} << 31) - 3, (std::uint64_t{1} << 32) - 3,
          (std::uint64_t{1} << 32) + 3, (std::uint64_t{1} << 56) - 1}) {
      const std::uint64_t word = safe_word(sequence, error);
      CHECK(error_in(word) == error);
      CHECK((word >> 8) == sequence);
      CHECK(word >= safe_word(sequence));
      if (sequence < (std::uint64_t{1} << 56) - 1) CHECK(word < safe_word(sequence + 1));
    }
  }
}
