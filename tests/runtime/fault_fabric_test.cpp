// What is left of each call that meets a fault, over a fabric that notes what comes through.

#include "runtime/fault_fabric.hpp"

#include <algorithm>
#include <cstring>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::SignalOp;

namespace {

constexpr SourceSite kFaultSite{"here.cpp", 1};
using NotedLines = std::vector<std::string>;

FaultPlan parsed_faults(std::string_view text) {
  Result<FaultPlan> plan = FaultPlan::parse(text, "plan");
  REQUIRE_MESSAGE(plan.has_value(), to_string(plan.error()));
  return *std::move(plan);
}

std::string chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> bytes_in(std::string_view text) { return std::as_bytes(std::span{text}); }

/// Notes the calls. Its clock goes on by 10 ms whenever somebody looks at it.
class NotingFabric final : public shmem::Fabric {
 public:
  explicit NotingFabric(Slot abort) : abort_(abort) {}

  NotedLines lines;
  int looks = 0;                       // whether the job has been given up
  int given_up_after = 1'000'000'000;  // of them

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite) override {
    note("put {} +{} '{}'", dst, to, chars_of(from));
  }
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite) override {
    note("get {} +{} {}", src, from, to.size());
    std::ranges::fill(to, std::byte{'g'});
  }
  std::span<const std::byte> open_read(Rank src, Offset, Bytes size, SourceSite) override {
    note("open_read {}", src);
    return std::span{place_}.first(size.value());
  }
  void close_read(Rank src, Offset, Bytes, SourceSite) override { note("close_read {}", src); }
  std::span<std::byte> open_write(Rank dst, Offset, Bytes size, SourceSite) override {
    note("open_write {}", dst);
    return std::span{place_}.first(size.value());
  }
  void close_write(Rank dst, Offset, Bytes, SourceSite) override { note("close_write {}", dst); }
  void signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite) override {
    note("signal {} slot {} {} {}", dst, slot, op == SignalOp::set ? "set" : "add", value);
  }
  void signal_each(std::span<const Rank> dsts, Slot slot, SignalOp, std::uint64_t value, SourceSite) override {
    note("signal_each {} slot {} {}", dsts.size(), slot, value);
  }
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp, std::uint64_t value,
                  SourceSite) override {
    note("put_signal {} +{} '{}' slot {} {}", dst, to, chars_of(from), slot, value);
  }
  void fence(Rank dst, SourceSite) override { note("fence {}", dst); }
  void quiet(SourceSite) override { note("quiet"); }
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite) override {
    note("wait slot {} {}", spec.slots.front(), spec.value);
    return shmem::Arrival{.index = 0, .value = spec.value};
  }
  std::optional<shmem::Arrival> test(const shmem::WaitSpec& spec, SourceSite) override {
    if (spec.slots.front() == abort_) return ++looks > given_up_after ? std::optional(shmem::Arrival{}) : std::nullopt;
    for (std::size_t i = 0; i < spec.observed.size(); ++i) spec.observed[i] = 10 + i;
    return shmem::Arrival{.index = 0, .value = 1000};
  }
  void touch(shmem::Access access, Rank owner, Offset, Bytes, SourceSite) override {
    note("touch {} {}", access == shmem::Access::read ? "read" : "write", owner);
  }
  void actor(const shmem::ActorEvent&, SourceSite) override {}
  shmem::Time now() override { return time_ += std::chrono::milliseconds(10); }

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    lines.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  Slot abort_;
  shmem::Time time_{0};
  std::array<std::byte, 64> place_{};
};

/// Core `core` of rank 1 of 3 under a plan.
class FaultBench {
 public:
  explicit FaultBench(std::string_view text, Core core = Core{0}, std::int32_t ranks = 3)
      : FaultBench(std::make_shared<RankFaults>(parsed_faults(text), Rank{1}), core, ranks) {}
  FaultBench(std::shared_ptr<RankFaults> of_rank, Core core, std::int32_t ranks = 3) {
    const shmem::BlockMap map = shmem::block_map(
        kSafe, {.ranks = ranks, .cores = 2, .slots = 2, .ipc_data = Bytes{0}, .heap = Bytes{1U << 20}});
    peers_.rank = Rank{1};
    peers_.mem.resize(static_cast<std::size_t>(ranks));
    peers_.map = std::make_shared<shmem::BlockMap>(map);
    peers_.slots = std::make_shared<shmem::SlotPlan>(shmem::SlotPlan::of_block(map));
    auto noting = std::make_unique<NotingFabric>(peers_.slots->abort().at(0, Rank{0}));
    noting_ = noting.get();
    fabric_ = std::make_unique<FaultFabric>(std::move(noting), std::move(of_rank), peers_, core);
  }

  shmem::Fabric& start(std::string_view op) {
    fabric_->actor({.kind = shmem::ActorEvent::Kind::start, .op = op, .round = Round{}}, kFaultSite);
    return *fabric_;
  }
  void leave() { fabric_->actor({.kind = shmem::ActorEvent::Kind::leave, .op = {}, .round = Round{}}, kFaultSite); }
  [[nodiscard]] shmem::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] NotingFabric& seen() { return *noting_; }
  [[nodiscard]] const shmem::SlotPlan& slots() const { return *peers_.slots; }
  [[nodiscard]] Offset abort_text() const { return peers_.map->abort_text(); }
  NotedLines take() { return std::exchange(noting_->lines, {}); }

 private:
  shmem::Peers peers_;
  NotingFabric* noting_ = nullptr;
  std::unique_ptr<FaultFabric> fabric_;
};

/// Slot 1 is the barrier slot of rank 1 in buffer 0, and 4 that in buffer 1.
void send_to_barrier(shmem::Fabric& fabric, std::uint64_t value) {
  fabric.signal(Rank{0}, Slot{1U}, SignalOp::set, value, kFaultSite);
}

NotedLines sent_values(FaultBench& bench, int count) {
  for (int i = 1; i <= count; ++i) send_to_barrier(bench.fabric(), static_cast<std::uint64_t>(i));
  NotedLines values;
  for (const std::string& line : bench.take()) values.push_back(line.substr(line.rfind(' ') + 1));
  return values;
}

}  // namespace

TEST_CASE("fault fabric: a dropped call never was, the others are as they were") {
  FaultBench bench("put 2: drop\nsignal 2: drop\nput_signal 2: drop\nget 2: skip\nfence 2: skip\nquiet 2: skip");
  shmem::Fabric& fabric = bench.start("op");
  for (int i = 0; i < 3; ++i) {
    std::array<std::byte, 3> room{};
    fabric.put(Rank{2}, Offset{8U}, bytes_in(i == 1 ? "lost" : "here"), kFaultSite);
    fabric.signal(Rank{2}, Slot{1U}, SignalOp::add, static_cast<std::uint64_t>(i), kFaultSite);
    fabric.put_signal(Rank{2}, Offset{8U}, bytes_in("x"), Slot{1U}, SignalOp::set, static_cast<std::uint64_t>(i),
                      kFaultSite);
    fabric.get(Rank{2}, Offset{8U}, room, kFaultSite);
    CHECK(room[2] == (i == 1 ? std::byte{0} : std::byte{'g'}));
    fabric.fence(Rank{2}, kFaultSite);
    fabric.quiet(kFaultSite);
  }
  const auto round = [](int i) {
    return NotedLines{"put 2 +8 'here'",
                      fmt::format("signal 2 slot 1 add {}", i),
                      fmt::format("put_signal 2 +8 'x' slot 1 {}", i),
                      "get 2 +8 3",
                      "fence 2",
                      "quiet"};
  };
  NotedLines expected = round(0);
  const NotedLines last = round(2);
  expected.insert(expected.end(), last.begin(), last.end());
  CHECK(bench.take() == expected);
}

TEST_CASE("fault fabric: torn data, doubled and misdirected signals") {
  FaultBench bench(
      "put 1: tear 3\nput 2: tear 99\nput 3: to rank 0\nget 1: tear 2\nsignal 1: double\nsignal 2: to rank 0\n"
      "signal 3: slot +3\nsignal 4: value -1\nput_signal 1: tear 0\nput_signal 1: double\nput_signal 1: value +5");
  shmem::Fabric& fabric = bench.start("op");
  for (int i = 0; i < 3; ++i) fabric.put(Rank{2}, Offset{8U}, bytes_in("12345"), kFaultSite);
  std::array<std::byte, 4> room{};
  fabric.get(Rank{2}, Offset{8U}, room, kFaultSite);
  CHECK(chars_of(room) == std::string("gg\0\0", 4));
  for (int i = 0; i < 4; ++i) fabric.signal(Rank{2}, Slot{1U}, SignalOp::set, 7, kFaultSite);
  fabric.put_signal(Rank{2}, Offset{8U}, bytes_in("12345"), Slot{4U}, SignalOp::set, 7, kFaultSite);
  CHECK(bench.take() == NotedLines{"put 2 +8 '123'", "put 2 +8 '12345'", "put 0 +8 '12345'", "get 2 +8 2",
                                   "signal 2 slot 1 set 7", "signal 2 slot 1 set 7", "signal 0 slot 1 set 7",
                                   "signal 2 slot 4 set 7", "signal 2 slot 1 set 6", "put_signal 2 +8 '' slot 4 12",
                                   "signal 2 slot 4 set 12"});
}

TEST_CASE("fault fabric: several faults at one call, and what is lost stays lost") {
  FaultBench together("signal *: to rank 0\nsignal 1: value +1\nsignal 1: value +1\nsignal 1: double");
  send_to_barrier(together.start("op"), 1);
  CHECK(together.take() == NotedLines{"signal 0 slot 1 set 3", "signal 0 slot 1 set 3"});
  FaultBench lost("signal 1: drop\nsignal 1: double");
  CHECK((lost.start("op"), sent_values(lost, 2)) == NotedLines{"2"});
}

TEST_CASE("fault fabric: no difference reaches a slot that is none by wrapping round") {
  for (const char* shift : {"+4294967296", "-2", "-9223372036854775808", "+9223372036854775807"}) {
    FaultBench bench(fmt::format("signal 1: slot {}\nsignal 1: value -9223372036854775808", shift));
    send_to_barrier(bench.start("op"), 1);
    CHECK(bench.take() == NotedLines{"signal 0 slot 4294967295 set 9223372036854775809"});
  }
}

TEST_CASE("fault fabric: a wait that is left out returns the words as they are") {
  FaultBench bench("wait 1-3: skip");
  shmem::Fabric& fabric = bench.start("op");
  const std::array slots{Slot{0U}, Slot{2U}};
  std::array<std::uint64_t, 2> words{};
  shmem::WaitSpec spec{.where = Rank{1}, .slots = slots, .value = 99, .observed = words};
  const auto skipped = [&](shmem::Match match) {
    spec.match = match;
    words = {};
    const shmem::Arrival arrival = *fabric.wait(spec, kFaultSite);
    CHECK(words == std::array<std::uint64_t, 2>{10, 11});
    return std::pair(arrival.index, arrival.value);
  };
  CHECK(skipped(shmem::Match::all) == std::pair<std::size_t, std::uint64_t>(1, 11));
  CHECK(skipped(shmem::Match::any) == std::pair<std::size_t, std::uint64_t>(0, 10));
  CHECK(skipped(shmem::Match::sum) == std::pair<std::size_t, std::uint64_t>(0, 1000));
  CHECK(bench.take().empty());
  CHECK((*fabric.wait(spec, kFaultSite)).value == 99);
  CHECK(bench.take() == NotedLines{"wait slot 0 99"});
}

TEST_CASE("fault fabric: calls are counted in a launch of the operator, and nowhere else") {
  FaultBench any("signal 2: drop");
  CHECK(sent_values(any, 3) == NotedLines{"1", "2", "3"});  // in no launch
  for (const char* op : {"a", "b", "a"}) CHECK((any.start(op), sent_values(any, 3)) == NotedLines{"1", "3"});
  any.leave();
  CHECK(sent_values(any, 3) == NotedLines{"1", "2", "3"});

  FaultBench one("in a signal 2-3: drop");
  CHECK((one.start("b"), sent_values(one, 4)) == NotedLines{"1", "2", "3", "4"});
  CHECK((one.start("a"), sent_values(one, 4)) == NotedLines{"1", "4"});

  FaultBench third("in a launch 2 signal *: drop");
  CHECK((third.start("a"), sent_values(third, 2)) == NotedLines{"1", "2"});
  CHECK((third.start("b"), sent_values(third, 2)) == NotedLines{"1", "2"});
  CHECK((third.start("a"), sent_values(third, 2)) == NotedLines{});
  CHECK((third.start("a"), sent_values(third, 2)) == NotedLines{"1", "2"});
}

TEST_CASE("fault fabric: of a rank, of a core, of a family of slots") {
  FaultBench other_rank("rank 0 signal *: drop");
  CHECK((other_rank.start("a"), sent_values(other_rank, 1)) == NotedLines{"1"});
  FaultBench other_core("rank 1 core 1 signal *: drop");
  CHECK((other_core.start("a"), sent_values(other_core, 1)) == NotedLines{"1"});
  FaultBench this_core("rank 1 core 1 signal *: drop", Core{1});
  CHECK((this_core.start("a"), sent_values(this_core, 1)) == NotedLines{});

  FaultBench family("signal 2 flag: drop\nwait 1 flag: skip");
  shmem::Fabric& fabric = family.start("a");
  const Slot flag = family.slots().flag().at(0, Rank{1});
  for (std::uint64_t value = 1; value <= 3; ++value) {
    send_to_barrier(fabric, value);
    fabric.signal(Rank{0}, flag, SignalOp::set, 10 + value, kFaultSite);
  }
  const Slot barrier{0U};
  CHECK(fabric.wait({.where = Rank{1}, .slots = {&barrier, 1}, .value = 1}, kFaultSite).has_value());
  CHECK(fabric.wait({.where = Rank{1}, .slots = {&flag, 1}, .value = 2}, kFaultSite).has_value());
  CHECK(family.take() == NotedLines{"signal 0 slot 1 set 1", fmt::format("signal 0 slot {} set 11", flag),
                                    "signal 0 slot 1 set 2", "signal 0 slot 1 set 3",
                                    fmt::format("signal 0 slot {} set 13", flag), "wait slot 0 1"});

  FaultBench small("signal *: to rank 2", Core{0}, 2);  // a communicator without such a rank
  CHECK((small.start("a"), sent_values(small, 1)) == NotedLines{"1"});
}

TEST_CASE("fault fabric: any call counts them all, a test is none") {
  FaultBench bench("any 3: delay 0s");
  shmem::Fabric& fabric = bench.start("a");
  fabric.quiet(kFaultSite);
  const Slot slot{0U};
  for (int i = 0; i < 5; ++i) (void)fabric.test({.where = Rank{1}, .slots = {&slot, 1}, .value = 1}, kFaultSite);
  fabric.fence(Rank{0}, kFaultSite);
  CHECK(bench.seen().looks == 0);
  send_to_barrier(fabric, 1);
  CHECK(bench.seen().looks == 1);
}

TEST_CASE("fault fabric: signals to several ranks are met one by one") {
  const std::array everyone{Rank{0}, Rank{1}, Rank{2}};
  FaultBench bench("signal 2: drop");
  bench.start("a").signal_each(everyone, Slot{1U}, SignalOp::set, 5, kFaultSite);
  CHECK(bench.take() == NotedLines{"signal 0 slot 1 set 5", "signal 2 slot 1 set 5"});
  FaultBench untouched("put 1: drop");
  untouched.start("a").signal_each(everyone, Slot{1U}, SignalOp::set, 5, kFaultSite);
  CHECK(untouched.take() == NotedLines{"signal_each 3 slot 1 5"});
}

TEST_CASE("fault fabric: views are puts and gets where those have faults, and views where not") {
  FaultBench bench("put 1: tear 2\nget 1: skip");
  shmem::Context context(bench.start("a"), bench.slots(), {.rank = Rank{1}, .ranks = 3, .core = Core{0}, .cores = 1});
  std::array<char, 4> scratch{'o', 'l', 'd', '!'};
  {
    const shmem::WriteView<char> view = context.write(Rank{2}, Offset{8U}, std::span<char>{scratch}, kFaultSite);
    std::memcpy(view.data().data(), "new!", 4);
  }
  {
    const shmem::ReadView<char> view =
        context.read(Rank{2}, Offset{8U}, std::span<char>{scratch}, shmem::Witness::own(), kFaultSite);
    CHECK(std::string(view.data().begin(), view.data().end()) == "new!");  // what the scratch held
  }
  CHECK(bench.take() == NotedLines{"touch write 2", "put 2 +8 'ne'", "touch read 2"});

  FaultBench untouched("signal 1: drop");
  shmem::Context other(untouched.start("a"), untouched.slots(),
                       {.rank = Rank{1}, .ranks = 3, .core = Core{0}, .cores = 1});
  (void)other.write(Rank{2}, Offset{8U}, std::span<char>{scratch}, kFaultSite);
  (void)other.read(Rank{2}, Offset{8U}, std::span<char>{scratch}, shmem::Witness::own(), kFaultSite);
  CHECK(untouched.take() == NotedLines{"open_write 2", "close_write 2", "open_read 2", "close_read 2"});
}

TEST_CASE("fault fabric: a delay lasts as long as it says, a stall until the job is given up") {
  FaultBench late("signal 2: delay 40ms");
  CHECK((late.start("a"), sent_values(late, 3)) == NotedLines{"1", "2", "3"});
  CHECK(late.seen().looks == 4);  // the clock goes on by 10 ms a look
  FaultBench given_up("signal 2: delay 40s");
  given_up.seen().given_up_after = 2;
  CHECK((given_up.start("a"), sent_values(given_up, 2)) == NotedLines{"1", "2"});
  CHECK(given_up.seen().looks == 3);
  FaultBench stalled("signal 1: stall");
  stalled.seen().given_up_after = 6;
  CHECK((stalled.start("a"), sent_values(stalled, 1)) == NotedLines{"1"});
  CHECK(stalled.seen().looks == 7);
}

TEST_CASE("fault fabric: drawn delays are the same for a seed, and others for another core") {
  const auto looks = [](const char* text, Core core) {
    FaultBench bench(text, core);
    bench.start("a");
    std::vector<int> each;
    for (std::uint64_t i = 0; i < 12; ++i) {
      send_to_barrier(bench.fabric(), i);
      each.push_back(std::exchange(bench.seen().looks, 0));
    }
    CHECK(*std::ranges::max_element(each) <= 4);
    return each;
  };
  const char* plan = "seed 3\nsignal *: delay 0-40ms";
  CHECK(looks(plan, Core{0}) == looks(plan, Core{0}));
  CHECK(looks(plan, Core{0}) != looks(plan, Core{1}));
  CHECK(looks(plan, Core{0}) != looks("seed 4\nsignal *: delay 0-40ms", Core{0}));
}

TEST_CASE("fault fabric: whoever gives up meets no fault") {
  FaultBench bench("any *: stall\nput *: drop\nsignal *: drop");
  bench.seen().given_up_after = 0;
  shmem::Fabric& fabric = bench.start("a");
  send_to_barrier(fabric, 1);
  fabric.put(Rank{1}, bench.abort_text(), bytes_in("why"), kFaultSite);
  send_to_barrier(fabric, 2);
  CHECK(bench.take() == NotedLines{fmt::format("put 1 +{} 'why'", bench.abort_text()), "signal 0 slot 1 set 2"});
  CHECK((bench.start("b"), sent_values(bench, 1)) == NotedLines{});
}

TEST_CASE("fault fabric: what no core of the rank has met is known") {
  const auto of_rank = std::make_shared<RankFaults>(
      parsed_faults(
          "rank 1 in a signal 1: drop\nin typo signal 1: drop\nrank 0 in a put 1: drop\ncore 1 signal 2: double"),
      Rank{1});
  FaultBench first(of_rank, Core{0});
  FaultBench second(of_rank, Core{1});
  const auto missed = [&] {
    std::vector<std::size_t> lines;
    for (const Fault& fault : of_rank->missed()) lines.push_back(fault.line);
    return lines;
  };
  CHECK(missed() == std::vector<std::size_t>{1, 2, 4});
  first.start("a");
  sent_values(first, 2);
  CHECK(missed() == std::vector<std::size_t>{2, 4});
  second.start("b");
  sent_values(second, 2);
  CHECK(missed() == std::vector<std::size_t>{2});
}
