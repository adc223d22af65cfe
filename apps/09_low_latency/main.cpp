// Dispatch for few tokens sends and returns; while the rows travel, this rank's shared expert works on its own tokens.
// usage: mpirun --oversubscribe -np 2 09_low_latency [--break]
//   --break   the experts begin before dispatch_finish

#include <fmt/ranges.h>

#include "apps/07_dispatch/worked_example.hpp"
#include "apps/lesson.hpp"
#include "ops/low_latency/buffers.hpp"
#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"

namespace {

using namespace shmoe;
using namespace shmoe::lesson;
using runtime::Communicator;
using runtime::World;
using Half = ops::LowLatencyBuffers::Half;

std::span<std::uint16_t> as_bf16(std::span<std::byte> rows) {
  return {reinterpret_cast<std::uint16_t*>(rows.data()), rows.size() / 2};
}

// [experts]
/// Expert e answers x * (e + 1). The rows of one expert lie together.
void run_experts(const ops::ExpertMap& experts, const ops::LowLatencyTables& tables, Rank me, const Half& half) {
  const std::span<const std::uint16_t> in = as_bf16(half.received(tables));
  const std::span<std::uint16_t> out = as_bf16(half.answers(tables));
  std::size_t at = 0;
  for (const Expert e : experts.experts_of(me)) {
    const auto local = static_cast<std::size_t>(experts.local_index(e));
    const std::size_t end = at + static_cast<std::size_t>(tables.expert_token_nums[local] * kHidden);
    for (; at < end; ++at) {
      out[at] = shmem::float_to_bf16(shmem::bf16_to_float(in[at]) * static_cast<float>(e.value() + 1));
    }
  }
}
// [/experts]

template <class T>
std::string table(const std::vector<T>& values, std::size_t columns) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); i += columns) {
    text += fmt::format(" [{}]", fmt::join(std::span{values}.subspan(i, columns), " "));
  }
  return text;
}

std::string outputs(Rank me, const ops::LowLatencyTables& tables, std::span<const std::uint16_t> rows,
                    std::span<const std::uint16_t> y) {
  std::string text = fmt::format("rank {}\n", me);
  text += fmt::format("  ep_recv_count [e,s]{}\n", table(tables.ep_recv_count, kRanks));
  text += fmt::format("  expand_idx    [t,k]{}\n", table(tables.expand_idx, kTopk));
  text += fmt::format("  expert_token_nums  {}\n", table(tables.expert_token_nums, kExperts / kRanks));
  for (std::size_t row = 0; row < rows.size() / kHidden; ++row) {
    text += fmt::format("  row {}: {}\n", row, row_text(rows.subspan(row * kHidden, kHidden)));
  }
  for (std::size_t t = 0; t < kTokens; ++t) {
    text += fmt::format("  token {} with its shared expert: {}\n", t, row_text(y.subspan(t * kHidden, kHidden)));
  }
  return text;
}

// [step]
Result<void> step(World& world, const Options& options) {
  Communicator& all = world.all();
  const Rank me = all.rank();
  const ops::Routing routing = routing_of(me);
  const ops::ExpertMap experts = ops::ExpertMap::even(kExperts, kRanks);
  const std::vector<std::uint16_t> x = tokens_of(me);
  std::vector<std::uint16_t> y(x.size());

  // Counts travel with the rows, so there must be room for all that may come.
  Result<ops::LowLatencyBuffers> buffers = ops::LowLatencyBuffers::allocate(
      all, {.capacity = ops::most_rows(experts, kTopk, kTokens), .dtype = DType::bf16, .hidden = kHidden});
  if (!buffers) return buffers.error();
  const Half& half = buffers->next();
  ops::LowLatencyTables tables;
  Result<void> done = ops::dispatch_begin(all,
                                          {.x = std::as_bytes(std::span{x}),
                                           .dtype = DType::bf16,
                                           .hidden = kHidden,
                                           .expert_ids = routing.topk_idx_i32(),
                                           .topk = kTopk,
                                           .experts = experts,
                                           .expand_x = half.expand_x,
                                           .capacity = buffers->capacity()},
                                          tables);
  if (!done) return done;
  const std::vector<std::uint16_t> shared = x;  // the shared expert answers x itself
  if (options.has("--break")) run_experts(experts, tables, me, half);
  if (done = ops::dispatch_finish(all, tables); !done) return done;
  run_experts(experts, tables, me, half);
  done = ops::combine_low_latency(all, {.expert_out = half.expert_out,
                                        .capacity = buffers->capacity(),
                                        .tables = tables,
                                        .expert_scales = routing.weights(),
                                        .shared_expert_x = std::as_bytes(std::span{shared}),
                                        .x = std::as_writable_bytes(std::span{y})});
  if (!done) return done;
  return print_in_order(all, outputs(me, tables, as_bf16(half.received(tables)), y));
}
// [/step]

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = kRanks, .options = {"--break"}}, step,
                     [](runtime::Config& config, const Options&) { config.declare_slots = ops::declare_low_latency; });
}
