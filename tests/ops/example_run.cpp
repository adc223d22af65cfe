#include "tests/ops/example_run.hpp"

#include <chrono>

#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/pipeline.hpp"
#include "runtime/world.hpp"
#include "tests/ops/example.hpp"
#include "tests/ops/low_latency_fixture.hpp"

namespace shmoe::test {

namespace reference = ops::reference;

namespace {

void run_experts(const ops::ExpertMap& experts, Rank rank, const ops::NotifyTables& notify, DType dtype,
                 std::span<const std::byte> x, std::span<std::byte> y) {
  std::int64_t next = 0;
  for (const Expert expert : experts.experts_of(rank)) {
    const auto rows = notify.recv_tokens_per_expert[static_cast<std::size_t>(experts.local_index(expert))];
    for (const std::int64_t last = next + rows * kExampleHidden; next < last; ++next) {
      std::byte rounded[2];
      reference::store(DType::bf16, rounded, 0,
                       reference::load(dtype, x, next) * static_cast<float>(expert.value() + 1));
      reference::store(dtype, y, next, reference::load(DType::bf16, rounded, 0));
    }
  }
}

Result<ExampleRank> run_rank(runtime::Communicator& comm, DType dtype) {
  const reference::Problem problem = example_problem();
  const reference::Input& input = problem.ranks[comm.rank().index()];
  const ops::Routing routing(problem.topk, input.topk_idx, input.weights);
  const ops::ExpertMap experts = ops::ExpertMap::even(problem.experts, comm.ranks());
  const std::vector<std::byte> x = example_tokens(dtype, comm.rank().value());

  auto buffers = ops::EpBuffers::allocate(comm, problem.experts, dtype, kExampleHidden);
  if (!buffers) return std::move(buffers).error();
  ExampleRank out;
  ops::LayoutTables& layout = out.layout;
  ops::NotifyTables& notify = out.notify;
  auto counted = ops::layout(
      comm, {.routing = routing, .experts = experts, .num_tokens_per_expert = buffers->next_counts()}, layout);
  if (!counted) return std::move(counted).error();
  auto told = ops::notify(comm, {.layout = layout, .experts = experts}, notify);
  if (!told) return std::move(told).error();
  if (auto room = buffers->reserve(notify); !room) return std::move(room).error();

  const std::span<std::byte> received = buffers->received(notify.total_recv_tokens);
  for (std::byte& b : received) b = std::byte{0xA5};
  auto sent = ops::dispatch_normal(comm, {.x = x,
                                          .dtype = dtype,
                                          .hidden = kExampleHidden,
                                          .topk_idx = routing.topk_idx_i32(),
                                          .experts = experts,
                                          .layout = layout,
                                          .notify = notify,
                                          .recv_x = buffers->recv_x(),
                                          .capacity = buffers->capacity()});
  if (!sent) return std::move(sent).error();
  run_experts(experts, comm.rank(), notify, dtype, received, buffers->answers(notify.recv_rows));

  out.combined.resize(x.size());
  auto summed = ops::combine_normal(comm, {.expert_out = buffers->expert_out(),
                                           .capacity = buffers->capacity(),
                                           .dtype = dtype,
                                           .hidden = kExampleHidden,
                                           .topk_idx = routing.topk_idx_i32(),
                                           .weights = routing.weights(),
                                           .experts = experts,
                                           .layout = layout,
                                           .notify = notify,
                                           .x = out.combined});
  if (!summed) return std::move(summed).error();
  const auto counts = comm.local<std::int32_t>(layout.num_tokens_per_expert, 4);
  out.num_tokens_per_expert.assign(counts.begin(), counts.end());
  out.received.assign(received.begin(), received.end());
  return out;
}

Result<void> run_low_latency_rank(LowLatencyBench& bench, const LowLatencyCase& input,
                                  const LowLatencyExpected& expected, LowLatencyExampleRank& out) {
  const std::size_t me = bench.comm.rank().index();
  const LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], out.tables);
  const std::vector<std::byte> x = example_tokens(DType::bf16, bench.comm.rank().value());
  ops::DispatchLowLatencyArgs args = step.dispatch_args();
  args.x = x;
  if (Result<void> sent = ops::dispatch_low_latency(bench.comm, args, out.tables); !sent) return sent;
  const std::size_t row = input.base.row_bytes();
  const auto size = static_cast<std::size_t>(out.tables.recv_rows) * row;
  const auto received = bench.comm.local<std::byte>(bench.rooms[0].expand_x, size);
  const auto answers = bench.comm.local<std::byte>(bench.rooms[0].expert_out, size);
  out.received.assign(received.begin(), received.end());
  for (std::size_t at = 0; at < size; at += row) {
    apply_expert(DType::bf16, expected.answer.rows[me][at / row].expert, received.subspan(at, row),
                 answers.subspan(at, row));
  }
  out.combined.resize(x.size());
  return ops::combine_low_latency(bench.comm, {.expert_out = bench.rooms[0].expert_out,
                                               .capacity = expected.answer.total_recv_tokens,
                                               .tables = out.tables,
                                               .expert_scales = input.base.problem.ranks[me].weights,
                                               .x = out.combined});
}

}  // namespace

Result<std::vector<LowLatencyExampleRank>> run_low_latency_example(const Profile& profile, ops::GroupList nums) {
  const LowLatencyCase input{.base = {.hidden = kExampleHidden, .problem = example_problem()},
                             .expert_token_nums = nums};
  const LowLatencyExpected expected = expect(input);
  std::vector<LowLatencyExampleRank> ranks(2);
  // As published, the rows of a second core may come later than the flag (S3).
  const Setup setup{.cores = profile == kSafe ? kExampleCores : 1, .profile = profile};
  const std::string found = on_low_latency_ranks(input, setup, [&](LowLatencyBench& bench) {
    return run_low_latency_rank(bench, input, expected, ranks[bench.comm.rank().index()]);
  });
  if (!found.empty()) return Error{.code = Errc::mismatch, .context = found};
  return ranks;
}

std::vector<std::int64_t> low_latency_bases(const ops::LowLatencyTables& tables, Rank me) {
  constexpr std::size_t kRanks = 2;
  std::vector<std::int64_t> bases;
  for (const std::int32_t expert : tables.pair_column) {
    const std::size_t entry = static_cast<std::size_t>(expert) * kRanks + me.index();
    const bool first_of_owner = entry % 4 == 0;
    bases.push_back(first_of_owner ? 0 : tables.ep_recv_count[entry - 1]);
  }
  return bases;
}

Result<std::vector<ExampleRank>> run_example(DType dtype) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = kExampleCores;
  config.heap = Bytes{1U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  std::vector<ExampleRank> ranks(2);
  const Result<void> done = runtime::World::run_as_threads(2, config, [&](runtime::World& world) -> Result<void> {
    Result<ExampleRank> own = run_rank(world.all(), dtype);
    if (!own) return std::move(own).error();
    ranks[world.rank().index()] = *std::move(own);
    return world.all().barrier();
  });
  if (!done) return done.error();
  return ranks;
}

}  // namespace shmoe::test
