// In which orders writes may land: of each small program all that fence, quiet and put_signal leave, and no other.

#include "runtime/write_channels.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "runtime/fault_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::SignalOp;

namespace {

constexpr SourceSite kLitmusSite{"litmus.cpp", 1};
constexpr Slot kFlag{1U};   // of rank 1 in the barrier family, which it may write anywhere
constexpr Slot kOther{4U};  // the same in the other buffer
using Orders = std::set<std::string>;

/// Notes what lands, a word a landing. A wait that has a deadline reaches it; its clock goes on by 10 ms a look.
class LandingFabric final : public shmem::Fabric {
 public:
  std::string landed;

  void put(Rank, Offset, std::span<const std::byte> from, SourceSite) override {
    note(std::string(reinterpret_cast<const char*>(from.data()), from.size()));
  }
  void signal(Rank, Slot slot, SignalOp, std::uint64_t value, SourceSite) override {
    note(fmt::format("{}{}", slot == kFlag ? "f" : "g", value));
  }
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op, std::uint64_t value,
                  SourceSite site) override {
    put(dst, to, from, site);
    signal(dst, slot, op, value, site);
  }
  void get(Rank, Offset, std::span<std::byte>, SourceSite) override {}
  void fence(Rank, SourceSite) override {}
  void quiet(SourceSite) override { note("quiet"); }
  std::span<const std::byte> open_read(Rank, Offset, Bytes, SourceSite) override { return {}; }
  void close_read(Rank, Offset, Bytes, SourceSite) override {}
  std::span<std::byte> open_write(Rank, Offset, Bytes, SourceSite) override {
    note("in place");
    return place_;
  }
  void close_write(Rank, Offset, Bytes, SourceSite) override {}
  void touch(shmem::Access, Rank, Offset, Bytes, SourceSite) override {}
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite) override {
    note(spec.deadline ? "slept" : "waits");
    if (spec.deadline) return Error{.code = Errc::deadline, .context = "late"};
    return shmem::Arrival{};
  }
  std::optional<shmem::Arrival> test(const shmem::WaitSpec&, SourceSite) override { return std::nullopt; }
  void actor(const shmem::ActorEvent&, SourceSite) override {}
  shmem::Time now() override { return time_ += std::chrono::milliseconds(10); }

 private:
  void note(const std::string& what) { landed += (landed.empty() ? "" : " ") + what; }

  shmem::Time time_{0};
  std::array<std::byte, 64> place_{};
};

/// Core `core` of rank 1 of 3, in an operator.
class Sender {
 public:
  explicit Sender(std::string_view text, Core core = Core{0}) {
    const shmem::BlockMap map =
        shmem::block_map(kSafe, {.ranks = 3, .cores = 2, .slots = 2, .ipc_data = Bytes{0}, .heap = Bytes{1U << 20}});
    peers_.rank = Rank{1};
    peers_.mem.resize(3);
    peers_.map = std::make_shared<shmem::BlockMap>(map);
    peers_.slots = std::make_shared<shmem::SlotPlan>(shmem::SlotPlan::of_block(map));
    auto next = std::make_unique<LandingFabric>();
    next_ = next.get();
    Result<FaultPlan> plan = FaultPlan::parse(text, "plan");
    REQUIRE_MESSAGE(plan.has_value(), to_string(plan.error()));
    fabric_ =
        std::make_unique<FaultFabric>(std::move(next), std::make_shared<RankFaults>(*plan, Rank{1}), peers_, core);
    tell(shmem::ActorEvent::Kind::start);
  }

  void put(int dst, std::string_view data, std::uint64_t at) {
    fabric_->put(Rank{dst}, Offset{at}, std::as_bytes(std::span{data}), kLitmusSite);
  }
  void put_signal(int dst, std::string_view data, std::uint64_t at, Slot slot, std::uint64_t value) {
    fabric_->put_signal(Rank{dst}, Offset{at}, std::as_bytes(std::span{data}), slot, SignalOp::set, value, kLitmusSite);
  }
  void set(int dst, Slot slot, std::uint64_t value) {
    fabric_->signal(Rank{dst}, slot, SignalOp::set, value, kLitmusSite);
  }
  void fence(int dst) { fabric_->fence(Rank{dst}, kLitmusSite); }
  void quiet() { fabric_->quiet(kLitmusSite); }
  void wait() { REQUIRE(fabric_->wait({.where = Rank{1}, .slots = {&kFlag, 1}, .value = 1}, kLitmusSite)); }
  void test() { (void)fabric_->test({.where = Rank{1}, .slots = {&kFlag, 1}, .value = 1}, kLitmusSite); }
  void leave() { tell(shmem::ActorEvent::Kind::leave); }
  void give_up() {
    fabric_->put(Rank{1}, peers_.map->abort_text(), std::as_bytes(std::span{"why"}.first(3)), kLitmusSite);
  }
  [[nodiscard]] shmem::Fabric& fabric() { return *fabric_; }
  /// Since it was last asked.
  std::string landed() { return std::exchange(next_->landed, {}); }

 private:
  void tell(shmem::ActorEvent::Kind kind) {
    fabric_->actor({.kind = kind, .op = "litmus", .round = Round{}}, kLitmusSite);
  }

  shmem::Peers peers_;
  LandingFabric* next_ = nullptr;
  std::unique_ptr<FaultFabric> fabric_;
};

using Litmus = std::function<void(Sender&)>;

/// In which orders it lands, over many seeds. Programs that end without a quiet get one.
Orders orders_of(const Litmus& program) {
  Orders orders;
  for (int seed = 1; seed <= 400; ++seed) {
    Sender sender(fmt::format("seed {}\nany *: weak", seed));
    program(sender);
    sender.quiet();
    std::string order = sender.landed();
    for (std::size_t at = 0; (at = order.find(" quiet")) != std::string::npos;) order.erase(at, 6);
    orders.insert(order);
  }
  return orders;
}

}  // namespace

TEST_CASE("litmus in real jobs: a notify overtakes its data, and not with a fence in between") {
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.set(0, kFlag, 1);
        }) == Orders{"A f1", "f1 A"});
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.fence(0);
          s.set(0, kFlag, 1);
        }) == Orders{"A f1"});
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.fence(2);
          s.set(0, kFlag, 1);
        }) == Orders{"A f1", "f1 A"});
}

TEST_CASE("litmus in real jobs: a fence orders one destination, a quiet all of them") {
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put(2, "B", 0);
          s.fence(2);
          s.set(2, kFlag, 1);
        }) == Orders{"A B f1", "B A f1", "B f1 A"});
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put(2, "B", 0);
          s.quiet();
          s.set(2, kFlag, 1);
        }) == Orders{"A B f1", "B A f1"});
}

TEST_CASE("litmus in real jobs: fences make steps, within which everything is free") {
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.fence(0);
          s.put(0, "B", 8);
          s.put(0, "C", 16);
          s.fence(0);
          s.set(0, kFlag, 1);
        }) == Orders{"A B C f1", "A C B f1"});
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put(0, "B", 8);
          s.put(0, "C", 16);
        }) == Orders{"A B C", "A C B", "B A C", "B C A", "C A B", "C B A"});
}

TEST_CASE("litmus in real jobs: put_signal orders its own data and nothing that was before it") {
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put_signal(0, "P", 8, kFlag, 1);
        }) == Orders{"A P f1", "P A f1", "P f1 A"});
  CHECK(orders_of([](Sender& s) {
          s.put_signal(0, "P", 0, kFlag, 1);
          s.put_signal(0, "Q", 8, kOther, 1);
        }) == Orders{"P f1 Q g1", "P Q f1 g1", "P Q g1 f1", "Q P f1 g1", "Q P g1 f1", "Q g1 P f1"});
}

TEST_CASE("litmus in real jobs: two writes to one place keep their order, and to one slot too") {
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put(0, "B", 0);
        }) == Orders{"A B"});
  CHECK(orders_of([](Sender& s) {
          s.put(0, "AAAA", 0);
          s.put(0, "BBBB", 3);
          s.put(0, "C", 7);
        }) == Orders{"AAAA BBBB C", "AAAA C BBBB", "C AAAA BBBB"});
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put(2, "B", 0);
        }) == Orders{"A B", "B A"});
  CHECK(orders_of([](Sender& s) {
          s.set(0, kFlag, 1);
          s.set(0, kFlag, 2);
          s.set(0, kOther, 3);
        }) == Orders{"f1 f2 g3", "f1 g3 f2", "g3 f1 f2"});
}

TEST_CASE("litmus in real jobs: a row may land in two parts, and a word never does") {
  CHECK(orders_of([](Sender& s) { s.put(0, "11111111", 0); }) == Orders{"11111111"});
  CHECK(orders_of([](Sender& s) { s.put(0, "1111111122222222333", 0); }) ==
        Orders{"1111111122222222333", "11111111 22222222333", "22222222333 11111111"});
}

TEST_CASE("litmus in real jobs: the own memory is written at once") {
  CHECK(orders_of([](Sender& s) {
          s.put(0, "A", 0);
          s.put(1, "B", 0);
          s.set(1, kFlag, 1);
        }) == Orders{"A B f1", "B A f1", "B f1 A"});
}

TEST_CASE("litmus in real jobs: memory of others is written in place by nobody whose writes are held back") {
  Sender sender("signal *: hold");
  CHECK(sender.fabric().open_write(Rank{0}, Offset{0U}, Bytes{8}, kLitmusSite).empty());
  CHECK(!sender.fabric().open_write(Rank{1}, Offset{0U}, Bytes{8}, kLitmusSite).empty());
  CHECK(sender.landed() == "in place");
}

TEST_CASE("write channels: what a put sends is what lay there at the call") {
  Sender sender("put *: hold");
  std::string row = "old";
  sender.put(0, row, 0);
  row = "new";
  sender.quiet();
  CHECK(sender.landed() == "old quiet");
}

TEST_CASE("write channels: of a seed, a rank and a core, the same order again and again") {
  const auto run = [](int seed, Core core) {
    Sender sender(fmt::format("seed {}\nany *: weak", seed), core);
    for (int round = 0; round < 20; ++round) {
      sender.put(round % 3 == 0 ? 0 : 2, std::string(1, static_cast<char>('A' + round)),
                 8U * static_cast<unsigned>(round));
      sender.test();
      if (round % 5 == 0) sender.fence(2);
    }
    sender.quiet();
    return sender.landed();
  };
  CHECK(run(1, Core{0}) == run(1, Core{0}));
  CHECK(run(1, Core{0}) != run(2, Core{0}));
  CHECK(run(1, Core{0}) != run(1, Core{1}));
}

TEST_CASE("write channels: what is on hold lands at a quiet and nowhere else, with what is ordered behind it") {
  Sender sender("put 1: hold");
  sender.put(0, "A", 0);
  sender.set(0, kFlag, 1);
  CHECK(sender.landed() == "f1");
  sender.fence(0);
  sender.set(0, kFlag, 2);
  sender.put(2, "B", 0);
  sender.wait();
  for (int i = 0; i < 10; ++i) sender.test();
  sender.leave();
  CHECK(sender.landed() == "B waits");
  sender.quiet();
  CHECK(sender.landed() == "A f2 quiet");
  sender.set(0, kFlag, 3);
  CHECK(sender.landed() == "f3");
}

TEST_CASE("write channels: hold is stronger than weak, and a call that is neither lands at once") {
  Sender sender("signal 1: hold\nany *: weak\nsignal 1: weak");
  sender.set(0, kFlag, 1);
  sender.leave();
  CHECK(sender.landed().empty());
  sender.set(2, kFlag, 5);  // in no operator
  CHECK(sender.landed() == "f5");
  sender.quiet();
  CHECK(sender.landed() == "f1 quiet");
}

TEST_CASE("write channels: a weak write arrives though its core calls nothing but wait, or test, or leaves") {
  std::set<bool> slept;
  for (int seed = 1; seed <= 60; ++seed) {
    const std::string plan = fmt::format("seed {}\nsignal *: weak", seed);
    Sender waiting(plan);
    waiting.set(0, kFlag, 1);
    waiting.wait();
    const std::string order = waiting.landed();
    CHECK((order == "f1 waits" || order == "slept f1 waits"));
    slept.insert(order == "slept f1 waits");

    Sender polling(plan);
    polling.set(0, kFlag, 1);
    for (int i = 0; i < 4; ++i) polling.test();
    CHECK(polling.landed() == "f1");

    Sender leaving(plan);
    leaving.set(0, kFlag, 1);
    leaving.leave();
    CHECK(leaving.landed() == "f1");
  }
  CHECK(slept.size() == 2);
}

TEST_CASE("write channels: whoever gives up takes along what has not landed, and holds nothing back any more") {
  Sender sender("any *: hold");
  sender.put(0, "A", 0);
  sender.set(0, kFlag, 1);
  sender.give_up();
  sender.quiet();
  sender.set(2, kFlag, 2);
  CHECK(sender.landed() == "why quiet f2");
}

TEST_CASE("write channels: signals to several ranks are held one by one, doubled ones twice") {
  const std::array dsts{Rank{0}, Rank{2}};
  Sender sender("signal 2: hold\nsignal 1: double");
  sender.fabric().signal_each(dsts, kFlag, SignalOp::set, 1, kLitmusSite);
  CHECK(sender.landed() == "f1 f1");
  sender.quiet();
  CHECK(sender.landed() == "f1 quiet");
}

TEST_CASE("write channels: a call that is not allowed is refused at the call and not where it would land") {
  Sender sender("any *: hold");
  CHECK_THROWS(sender.put(7, "A", 0));
  CHECK_THROWS(sender.put(0, "A", std::uint64_t{1} << 40));
  CHECK_THROWS(sender.set(0, Slot{0U}, 1));  // rank 0's own
  sender.quiet();
  CHECK(sender.landed() == "quiet");
}
