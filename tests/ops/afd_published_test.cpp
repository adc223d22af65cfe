// a2e and e2a as published: the worked example number by number, and what goes wrong where A is no multiple of E.

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "ops/afd/published.hpp"
#include "ops/ep/reference.hpp"
#include "tests/ops/afd_case.hpp"
#include "tests/ops/ep_case.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using ops::Assignment;
using ops::PublishedWindow;

namespace {

ops::AfdShape example_shape(std::int32_t experts, std::int32_t attention) {
  return {.ranks = Assignment::of(experts, attention).value(), .max_batch = 16, .hidden = 1024, .topk = 2};
}

std::vector<std::pair<std::int64_t, std::int64_t>> slices(std::int64_t n, std::int64_t used, std::int32_t cores) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (Core core{0}; core < Core{cores}; ++core) {
    const Slice part = ops::published_slice(n, used, core);
    all.emplace_back(part.size() == 0 ? 0 : part.first, part.size());
  }
  return all;
}

/// In the memory of a rank, in the end: of half 1 [source][batch size, ids, scales, x], and of half 0 [source].
struct Flags {
  std::vector<std::uint64_t> a2e, e2a;
};

/// One a2e and one e2a of every rank, whose rows are constants: r * 16 + i + 1 in row i of rank r.
class PublishedJob {
 public:
  PublishedJob(std::int32_t experts, std::int32_t attention, std::int64_t rows, bool gate = true)
      : shape_(example_shape(experts, attention)), rows_(rows) {
    shape_.published = {.half = Bytes{1U << 20}, .flags = Bytes{4096}};
    shape_.compute_gate = gate;
    const auto ranks = static_cast<std::size_t>(shape_.ranks.ranks());
    received_.resize(ranks);
    returned_.resize(ranks);
    tables_.resize(ranks);
    magics_.resize(ranks);
    sent_ids_.resize(ranks);
    flags_.resize(ranks);
  }

  /// Rows that the expert ranks hand to e2a; none: as many as came from a2e.
  void run(const std::function<std::int64_t(Rank)>& answered = {}) {
    runtime::Config config = runtime::test::small_config(4, kFaithful202607);
    config.heap = Bytes{ops::published_window_bytes(shape_).value() + (2U << 20)};
    config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); };
    runtime::test::HostBarrier meet(shape_.ranks.ranks());
    runtime::test::check_all_well(
        runtime::test::run_ranks(shape_.ranks.ranks(), config, [&](runtime::World& world) -> Result<void> {
          runtime::test::start_from_zero(world.all(), meet);
          return rank(world.all(), answered, meet);
        }));
  }

  /// The constants of the rows that an attention rank got back; -1: not one of theirs.
  [[nodiscard]] std::vector<int> returned(std::int32_t rank) const {
    return constants(returned_.at(std::size_t(rank)));
  }
  [[nodiscard]] std::vector<int> received(std::int32_t rank) const {
    return constants(received_.at(std::size_t(rank)));
  }
  [[nodiscard]] const ops::A2eTables& tables(std::int32_t rank) const { return tables_.at(std::size_t(rank)); }
  [[nodiscard]] const std::vector<std::uint64_t>& magics(std::int32_t rank) const {
    return magics_.at(std::size_t(rank));
  }
  [[nodiscard]] const std::vector<std::int32_t>& ids_in_window(std::int32_t rank) const {
    return sent_ids_.at(std::size_t(rank));
  }

  [[nodiscard]] const Flags& flags(std::int32_t rank) const { return flags_.at(std::size_t(rank)); }

 private:
  Result<void> rank(runtime::Communicator& comm, const std::function<std::int64_t(Rank)>& answered,
                    runtime::test::HostBarrier& meet) {
    const Rank me = comm.rank();
    const ops::AfdSignals signals = ops::afd_signals(comm.slots());
    const Result<Offset> window = comm.allocate(ops::published_window_bytes(shape_));
    if (!window) return window.error();
    const ops::AfdPlace place{.shape = shape_, .window = *window, .signals = signals};
    const bool expert = shape_.ranks.is_expert(me);
    const std::int64_t batch = rows_ * (expert ? ops::published_ratio(shape_.ranks) : 1);
    std::vector<std::byte> rows(static_cast<std::size_t>(batch) * shape_.row_bytes(), test::kCanary);
    std::vector<std::int32_t> ids(shape_.compute_gate ? static_cast<std::size_t>(rows_ * shape_.topk) : 0);
    std::iota(ids.begin(), ids.end(), me.value() * 100);
    const std::vector<float> scales(ids.size(), 0.5F);
    ops::A2eArgs args{.place = place};
    if (expert) {
      args.expand_x = rows;
    } else {
      for (std::int64_t i = 0; i < batch * shape_.hidden; ++i) {
        ops::reference::store(DType::bf16, rows, i, static_cast<float>(me.value() * 16 + i / shape_.hidden + 1));
      }
      args.x = rows;
      args.expert_ids = ids;
      args.scales = scales;
    }
    ops::A2eTables& tables = tables_[me.index()];
    if (auto done = ops::a2e(comm, args, tables); !done) return done;
    const PublishedWindow map(shape_);
    const auto block = comm.local<std::int32_t>(*window + map.data(me, 1) + PublishedWindow::ids(), ids.size());
    sent_ids_[me.index()].assign(block.begin(), block.end());
    if (expert) received_[me.index()] = rows;
    std::vector<std::byte> x(expert ? 0 : rows.size(), test::kNoNumber);
    const std::int64_t answers = answered ? answered(me) : batch;
    ops::E2aArgs back{.place = place, .a2e = tables};
    if (expert) {
      back.answers = std::span<const std::byte>{rows}.first(static_cast<std::size_t>(answers) * shape_.row_bytes());
    } else {
      back.x = x;
    }
    if (auto done = ops::e2a(comm, back); !done) return done;
    returned_[me.index()] = x;
    for (Core core{0}; core < Core{comm.cores()}; ++core) {
      magics_[me.index()].push_back(comm.local<std::uint64_t>(comm.map().magic_of(core), 1)[0]);
    }
    meet.arrive_and_wait();
    note_flags(comm, signals);
    return {};
  }

  /// The slots that stand for the published flags, of the halves of a2e and of e2a.
  void note_flags(runtime::Communicator& comm, const ops::AfdSignals& signals) {
    const auto word = [&](const shmem::SlotFamily& family, std::uint64_t half, Rank source, std::uint32_t event) {
      return comm.local<std::uint64_t>(comm.slots().offset_of(family.at(half, source, event)), 1)[0];
    };
    Flags& flags = flags_[comm.rank().index()];
    for (Rank source{0}; source < Rank{shape_.ranks.ranks()}; ++source) {
      for (std::uint32_t event = 0; event < ops::kAfdFlags; ++event) {
        flags.a2e.push_back(word(signals.a2e, 1, source, event));
        CHECK(word(signals.a2e, 0, source, event) == 0);
      }
      flags.e2a.push_back(word(signals.e2a, 0, source, 0));
      CHECK(word(signals.e2a, 1, source, 0) == 0);
    }
  }

  [[nodiscard]] std::vector<int> constants(const std::vector<std::byte>& rows) const {
    std::vector<int> all;
    for (std::size_t at = 0; at < rows.size(); at += shape_.row_bytes()) {
      const auto row = std::span{rows}.subspan(at, shape_.row_bytes());
      const float first = ops::reference::load(DType::bf16, row, 0);
      bool same = first >= 1 && first <= 1000;
      for (std::int64_t j = 0; j < shape_.hidden; ++j)
        same = same && ops::reference::load(DType::bf16, row, j) == first;
      all.push_back(same ? static_cast<int>(first) : -1);
    }
    return all;
  }

  ops::AfdShape shape_;
  std::int64_t rows_;
  std::vector<std::vector<std::byte>> received_;
  std::vector<std::vector<std::byte>> returned_;
  std::vector<ops::A2eTables> tables_;
  std::vector<std::vector<std::uint64_t>> magics_;
  std::vector<std::vector<std::int32_t>> sent_ids_;
  std::vector<Flags> flags_;
};

using Constants = std::vector<int>;

}  // namespace

TEST_CASE("the worked example: E 2, A 2, 16 rows of 1024, K 2") {
  const ops::AfdShape shape = example_shape(2, 2);
  const PublishedWindow window(shape);
  struct Row {
    std::int32_t rank;
    std::uint64_t base, data, ids, scales, x, end, flag1, flag2, flag3, e2a_flag, e2a_data, e2a_end;
  };
  const Row table[] = {{2, 838'861'824, 840'958'976, 840'958'980, 840'959'108, 840'959'236, 840'992'004, 838'860'832,
                        838'860'864, 838'860'896, 1'024, 2'098'176, 2'130'944},
                       {3, 838'862'336, 840'959'488, 840'959'492, 840'959'620, 840'959'748, 840'992'516, 838'861'344,
                        838'861'376, 838'861'408, 1'536, 2'098'688, 2'131'456}};
  for (const Row& row : table) {
    const Rank rank{row.rank};
    CAPTURE(row.rank);
    CHECK(window.base(rank, 1).value() == row.base);
    CHECK(window.data(rank, 1).value() == row.data);
    CHECK((window.data(rank, 1) + PublishedWindow::ids()).value() == row.ids);
    CHECK((window.data(rank, 1) + window.scales(16)).value() == row.scales);
    CHECK((window.data(rank, 1) + window.x(16)).value() == row.x);
    CHECK((window.data(rank, 1) + window.end(16)).value() == row.end);
    CHECK(window.flag(1, rank, 1).value() == row.flag1);
    CHECK(window.flag(2, rank, 1).value() == row.flag2);
    CHECK(window.flag(3, rank, 1).value() == row.flag3);
    CHECK(window.base(rank, 2).value() == row.e2a_flag);
    CHECK(window.data(rank, 2).value() == row.e2a_data);
    CHECK((window.data(rank, 2) + Bytes{2 * 16 * 1024}).value() == row.e2a_end);
  }
  CHECK(ops::published_window_bytes(shape).value() == 840'992'516);
  CHECK(slices(16 * 1024, 2, 4) == slices(2 * 8192, 2, 4));
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(slices(16 * 1024, 2, 4) == Pairs{{0, 8192}, {8192, 8192}, {0, 0}, {0, 0}});
  CHECK(slices(16 * 1024, 4, 4) == Pairs{{0, 4096}, {4096, 4096}, {8192, 4096}, {12288, 4096}});
  CHECK(slices(16 * 1024, 3, 4) == Pairs{{0, 5462}, {5462, 5462}, {10924, 5460}, {0, 0}});
  CHECK(slices(16 * 2, 3, 4) == Pairs{{0, 11}, {11, 11}, {22, 10}, {0, 0}});

  const ops::AfdShape three = example_shape(2, 3);
  const PublishedWindow other(three);
  CHECK(other.flag(1, Rank{4}, 1).value() == 838'860'896);
  CHECK(other.flag(2, Rank{4}, 1).value() == 838'860'960);
  CHECK(other.flag(3, Rank{4}, 1).value() == 838'861'024);
}

TEST_CASE("the worked example runs: rows come and go to the bit, and all counters read 2") {
  for (const bool gate : {true, false}) {
    PublishedJob job(2, 2, 16, gate);
    job.run();
    for (std::int32_t rank = 0; rank < 4; ++rank) CHECK(job.magics(rank) == std::vector<std::uint64_t>(4, 2));
    for (std::int32_t rank = 2; rank < 4; ++rank) {
      Constants rows(16);
      std::iota(rows.begin(), rows.end(), rank * 16 + 1);
      CHECK(job.received(rank - 2) == rows);
      CHECK(job.returned(rank) == rows);
      const ops::A2eTables& tables = job.tables(rank - 2);
      std::vector<std::int32_t> ids(gate ? 32 : 0);
      std::iota(ids.begin(), ids.end(), rank * 100);
      CHECK(tables.expert_ids == ids);
      CHECK(job.ids_in_window(rank) == ids);
      CHECK(tables.expert_scales == std::vector<float>(ids.size(), 0.5F));
      CHECK(tables.atten_batch_size == std::vector<std::int32_t>{0});   // never written
      CHECK(tables.x_active_mask == std::vector<std::uint8_t>(16, 0));  // neither
    }
  }
}

TEST_CASE("the words of the flags: magic 1 of a2e and magic 2 of e2a in the upper half, 0 in the lower") {
  PublishedJob job(2, 2, 16);
  job.run();
  constexpr std::uint64_t kA2e = 0x1'0000'0000;
  constexpr std::uint64_t kE2a = 0x2'0000'0000;
  using Words = std::vector<std::uint64_t>;
  const Words none(16);
  // [source][batch size, ids, scales, x]: nobody raises the first.
  CHECK(job.flags(0).a2e == Words{0, 0, 0, 0, 0, 0, 0, 0, 0, kA2e, kA2e, kA2e, 0, 0, 0, 0});
  CHECK(job.flags(1).a2e == Words{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kA2e, kA2e, kA2e});
  CHECK(job.flags(2).a2e == none);
  CHECK(job.flags(3).a2e == none);
  CHECK(job.flags(0).e2a == Words{0, 0, 0, 0});
  CHECK(job.flags(1).e2a == Words{0, 0, 0, 0});
  CHECK(job.flags(2).e2a == Words{kE2a, 0, 0, 0});
  CHECK(job.flags(3).e2a == Words{0, kE2a, 0, 0});

  PublishedJob without_gate(2, 2, 16, false);
  without_gate.run();
  CHECK(without_gate.flags(0).a2e == Words{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kA2e, 0, 0, 0, 0});
}

TEST_CASE("E 2, A 3: experts pass a batch of 32, and expert 1 gets rows 0 to 15 alone") {
  PublishedJob job(2, 3, 16);
  job.run();
  Constants both(32);
  std::iota(both.begin(), both.begin() + 16, 2 * 16 + 1);
  std::iota(both.begin() + 16, both.end(), 4 * 16 + 1);
  CHECK(job.received(0) == both);
  Constants half(32, -1);
  std::iota(half.begin(), half.begin() + 16, 3 * 16 + 1);
  CHECK(job.received(1) == half);
  for (const std::int32_t rank : {2, 3, 4}) {
    Constants own(16);
    std::iota(own.begin(), own.end(), rank * 16 + 1);
    CHECK(job.returned(rank) == own);
  }
}

TEST_CASE("H15: where A is no multiple of E, e2a hands back other rows than a2e brought") {
  PublishedJob job(2, 5, 4);
  job.run();
  CHECK(job.received(1) == Constants{49, 50, 51, 52, 81, 82, 83, 84, -1, -1, -1, -1});
  CHECK(job.returned(2) == Constants{33, 34, 35, 36});
  CHECK(job.returned(3) == Constants{49, 50, 51, 52});
  CHECK(job.returned(4) == Constants{65, 66, 67, 68});
  CHECK(job.returned(5) == Constants{83, 84, -1, -1});
  CHECK(job.returned(6) == Constants{97, 98, 99, 100});

  PublishedJob cured(2, 5, 4);
  cured.run([](Rank expert) { return expert == Rank{0} ? 12 : 8; });
  CHECK(cured.returned(5) == Constants{81, 82, 83, 84});

  PublishedJob three(2, 3, 4);  // one rank on expert 1: extra rows, but the right ones
  three.run();
  CHECK(three.returned(3) == Constants{49, 50, 51, 52});
}
