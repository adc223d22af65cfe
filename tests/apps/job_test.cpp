// The main job on threads, in every mode, and what its check finds.

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>

#include "apps/shmoe/afd_check.hpp"
#include "apps/shmoe/afd_step.hpp"
#include "apps/shmoe/low_latency_step.hpp"
#include "apps/shmoe/moe_check.hpp"
#include "apps/shmoe/moe_job.hpp"
#include "ops/afd/window.hpp"
#include "ops/low_latency/region.hpp"

using namespace shmoe;
using namespace shmoe::apps;

namespace {

MoePlan small_plan() {
  MoePlan plan;
  plan.routing = {.files = {}, .tokens = 9, .topk = 3, .experts = 7, .seed = 5};
  plan.shape = {.dtype = DType::bf16, .hidden = 33, .seed = 5};
  plan.steps = 3;
  plan.warmup = 1;
  return plan;
}

runtime::Config job_config(MoeMode mode) {
  runtime::Config config = runtime::Config::defaults();
  config.heap = Bytes{std::uint64_t{8} << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.declare_slots = [mode](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
    if (mode == MoeMode::afd) ops::declare_afd(slots, map);
    if (mode == MoeMode::low_latency) ops::declare_low_latency(slots, map);
  };
  return config;
}

Result<MoeReport> run_on_threads(std::int32_t ranks, std::int32_t cores, const MoePlan& plan) {
  runtime::Config config = job_config(plan.mode);
  config.cores = cores;
  std::mutex mutex;
  std::optional<MoeReport> report;
  const auto ran = runtime::World::run_as_threads(ranks, config, [&](runtime::World& world) -> Result<void> {
    auto done = run_moe_job(world, plan, RoutingSource::open(plan.routing));
    if (!done) return done.error();
    const std::lock_guard lock(mutex);
    if (world.rank() == Rank{0}) report = *done;
    return {};
  });
  if (!ran) return ran.error();
  return *report;
}

}  // namespace

TEST_CASE("the job is exact on threads, for every dtype and odd numbers") {
  MoePlan plan = small_plan();
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    plan.shape.dtype = dtype;
    const auto report = run_on_threads(3, 2, plan);
    REQUIRE_MESSAGE(report, to_string(report.error()));
    CHECK(report->verified());
    CHECK(report->ranks.size() == 3);
    CHECK(report->ranks[1].tokens == 27);
    CHECK(report->ranks[1].rows_sent == 81);
    CHECK(report->ranks[0].rows_received + report->ranks[1].rows_received + report->ranks[2].rows_received == 3 * 81);
    const auto& ranks = report->ranks;
    const auto most = std::max({ranks[0].rows_received, ranks[1].rows_received, ranks[2].rows_received});
    CHECK(report->imbalance() == doctest::Approx(static_cast<double>(most) / 81));
  }
}

TEST_CASE("attention and experts on ranks of their own: exact for every dtype, ratio and way to send") {
  MoePlan plan = small_plan();
  plan.mode = MoeMode::afd;
  const struct {
    std::int32_t ranks, experts, cores;
    DType dtype;
    ops::Quant quant;
  } cases[] = {{2, 1, 1, DType::bf16, ops::Quant::none},
               {5, 2, 2, DType::fp16, ops::Quant::int8},
               {4, 3, 1, DType::fp32, ops::Quant::int8}};
  for (const auto& c : cases) {
    plan.expert_ranks = c.experts;
    plan.shape.dtype = c.dtype;
    plan.shape.quant = c.quant;
    const auto report = run_on_threads(c.ranks, c.cores, plan);
    REQUIRE_MESSAGE(report, to_string(report.error()));
    CHECK(report->verified());
    CHECK(report->expert_ranks == c.experts);
    CHECK(report->ranks[0].tokens == 0);
    CHECK(report->ranks.back().tokens == 27);
    CHECK(report->ranks.back().rows_sent == 27);
  }
  plan.expert_ranks = 3;
  const auto none_left = run_on_threads(3, 1, plan);
  REQUIRE_FALSE(none_left);
  CHECK(none_left.error().context.find("3 expert ranks and 0 attention ranks") != std::string::npos);
}

TEST_CASE("a single wrong bit of what a2e brought or e2a brought back is found and named") {
  const MoeShape shape{.dtype = DType::bf16, .hidden = 8, .seed = 1};
  const ops::Assignment ranks = ops::Assignment::of(1, 1).value();
  const Batch batch = draw_batch({.tokens = 5, .topk = 2, .experts = 4}, 0, Rank{0});
  std::vector<std::string> found(2);
  const auto ran =
      runtime::World::run_as_threads(2, job_config(MoeMode::afd), [&](runtime::World& world) -> Result<void> {
        const bool expert = world.rank() == Rank{0};
        auto step = AfdPipeline{world.all(), shape, ranks, batch.topk}.run(expert ? Batch{} : batch, 5, 0);
        if (!step) return step.error();
        std::vector<std::byte>& bytes = expert ? step->expand_x : step->returned;
        std::string& text = found[world.rank().index()];
        if (wrong_result(*step, shape, ranks, {batch})) text = "wrong before";
        bytes[16 * 3 + 5] ^= std::byte{1};
        const auto wrong = wrong_result(*step, shape, ranks, {batch});
        text += wrong ? wrong->context : "not found";
        return {};
      });
  REQUIRE_MESSAGE(ran, to_string(ran.error()));
  CHECK(found[0].find("wrong result on rank 0 in step 0: received row 3 differs in byte 5; ") == 0);
  CHECK(found[1].find("wrong result on rank 1 in step 0: returned row 3 has ") == 0);
}

TEST_CASE("few tokens: exact for every dtype, number of ranks and way to send") {
  MoePlan plan = small_plan();
  plan.mode = MoeMode::low_latency;
  const struct {
    std::int32_t ranks, cores;
    DType dtype;
    ops::Quant quant;
  } cases[] = {{1, 1, DType::bf16, ops::Quant::none},
               {2, 2, DType::bf16, ops::Quant::int8},
               {5, 1, DType::fp16, ops::Quant::int8},
               {3, 2, DType::fp32, ops::Quant::none}};
  for (const auto& c : cases) {
    plan.shape.dtype = c.dtype;
    plan.shape.quant = c.quant;
    const auto report = run_on_threads(c.ranks, c.cores, plan);
    REQUIRE_MESSAGE(report, to_string(report.error()));
    CHECK(report->verified());
    CHECK(report->stages.size() == 3);
    CHECK(report->ranks.back().tokens == 27);
    CHECK(report->ranks.back().rows_sent == 81);
    CHECK(report->ranks.back().ranks_reached <= 27 * std::min(c.ranks, 3));
    CHECK(report->ranks.back().ranks_reached >= 27);
  }
  plan.expert_ranks = 1;
  const auto refused = run_on_threads(2, 1, plan);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().context.find("in mode low-latency every rank holds experts") != std::string::npos);
}

TEST_CASE("both paths count the same rows and ranks") {
  MoePlan plan = small_plan();
  const auto normal = run_on_threads(3, 1, plan);
  plan.mode = MoeMode::low_latency;
  const auto few = run_on_threads(3, 1, plan);
  REQUIRE(normal);
  REQUIRE(few);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(few->ranks[rank].rows_received == normal->ranks[rank].rows_received);
    CHECK(few->ranks[rank].ranks_reached == normal->ranks[rank].ranks_reached);
  }
}

TEST_CASE("a single wrong bit of a low-latency step is found and named") {
  const MoeShape shape{.dtype = DType::bf16, .hidden = 8, .seed = 1};
  const ops::ExpertMap experts = ops::ExpertMap::even(4, 1);
  const Batch batch = draw_batch({.tokens = 5, .topk = 2, .experts = 4}, 0, Rank{0});
  const auto ran =
      runtime::World::run_as_threads(1, job_config(MoeMode::low_latency), [&](runtime::World& world) -> Result<void> {
        LowLatencyPipeline pipeline{world.all(), world.all(), shape, experts};
        auto step = pipeline.run(batch, 5, 0);
        if (!step) return step.error();
        const auto problem = problem_of({batch}, experts);
        CHECK_FALSE(wrong_result(*step, shape, problem));

        std::vector<std::byte> rows(step->received.begin(), step->received.end());
        rows[16 * 3 + 5] ^= std::byte{1};
        LowLatencyStep spoiled = *step;
        spoiled.received = rows;
        auto wrong = wrong_result(spoiled, shape, problem);
        REQUIRE(wrong);
        CHECK(wrong->context.find("wrong result on rank 0 in step 0: received row 3 (expert ") == 0);

        spoiled = *step;
        spoiled.combined[16 * 4] ^= std::byte{1};
        wrong = wrong_result(spoiled, shape, problem);
        REQUIRE(wrong);
        CHECK(wrong->context.find("combined token 4 has ") != std::string::npos);

        ops::LowLatencyTables tables = *step->tables;
        tables.ep_recv_count[1] += 1;
        spoiled = *step;
        spoiled.tables = &tables;
        wrong = wrong_result(spoiled, shape, problem);
        REQUIRE(wrong);
        CHECK(wrong->context.find("table ep_recv_count") != std::string::npos);
        return {};
      });
  REQUIRE_MESSAGE(ran, to_string(ran.error()));
}

TEST_CASE("one rank alone, and no tokens at all") {
  MoePlan plan = small_plan();
  const auto alone = run_on_threads(1, 1, plan);
  REQUIRE(alone);
  CHECK(alone->verified());
  CHECK(alone->imbalance() == 1);
  REQUIRE(alone->ranks.size() == 1);
  CHECK(alone->ranks[0].rows_sent == 81);
  CHECK(alone->ranks[0].rows_received == 81);
  plan.routing.tokens = 0;
  const auto idle = run_on_threads(2, 1, plan);
  REQUIRE(idle);
  CHECK(idle->verified());
  CHECK(idle->imbalance() == 1);
  REQUIRE(idle->ranks.size() == 2);
  for (const RankRecord& rank : idle->ranks) {
    CHECK(rank.tokens == 0);
    CHECK(rank.rows_received == 0);
  }
}

TEST_CASE("what one rank cannot do is one error of all") {
  MoePlan plan = small_plan();
  plan.routing.files = {"no/such/file"};
  const auto failed = run_on_threads(3, 1, plan);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().context.find("no/such/file") != std::string::npos);
}

TEST_CASE("a single wrong bit is found and named") {
  const MoeShape shape{.dtype = DType::bf16, .hidden = 8, .seed = 1};
  const ops::ExpertMap experts = ops::ExpertMap::even(4, 1);
  const Batch batch = draw_batch({.tokens = 5, .topk = 2, .experts = 4}, 0, Rank{0});
  const auto ran =
      runtime::World::run_as_threads(1, job_config(MoeMode::normal), [&](runtime::World& world) -> Result<void> {
        auto buffers = ops::EpBuffers::allocate(world.all(), 4, shape.dtype, shape.hidden);
        REQUIRE(buffers);
        auto step = MoePipeline{world.all(), shape, experts, *buffers}.run(batch, 0);
        REQUIRE(step);
        const auto problem = problem_of({batch}, experts);
        const std::span<std::byte> rows = buffers->received(step->notify.recv_rows);
        const Received received{.rows = rows, .scales = {}};
        CHECK_FALSE(wrong_result(*step, shape, problem, received));

        rows[16 * 3 + 5] ^= std::byte{1};
        auto wrong = wrong_result(*step, shape, problem, received);
        REQUIRE(wrong);
        CHECK(wrong->context.find("wrong result on rank 0 in step 0: received row 3 (expert ") == 0);
        CHECK(wrong->context.find("column 2") != std::string::npos);
        rows[16 * 3 + 5] ^= std::byte{1};

        step->combined[16 * 4] ^= std::byte{1};
        wrong = wrong_result(*step, shape, problem, received);
        REQUIRE(wrong);
        CHECK(wrong->context.find("combined token 4 has ") != std::string::npos);
        step->combined[16 * 4] ^= std::byte{1};

        step->notify.put_offset[1] += 1;
        wrong = wrong_result(*step, shape, problem, received);
        REQUIRE(wrong);
        CHECK(wrong->context.find("table put_offset") != std::string::npos);
        return {};
      });
  REQUIRE_MESSAGE(ran, to_string(ran.error()));
}
