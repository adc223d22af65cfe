// Dispatch for few tokens sends and returns; while the rows travel, this rank's shared expert works on its own tokens.
// usage: mpirun --oversubscribe -np 2 09_low_latency [--break] [--two] [--one-half]
//   --break      the experts begin before dispatch_finish
//   --two        two batches are under way at once, each in a half of its own
//   --one-half   both are in the same half

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

/// Batches with different tokens have different sums.
Result<void> told(Communicator& all, const std::vector<std::uint16_t> (&y)[2]) {
  std::string text;
  for (std::size_t batch = 0; batch < 2; ++batch) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto row = std::span{y[batch]}.subspan(t * kHidden, kHidden);
      text += fmt::format("rank {} batch {} token {}: {}\n", all.rank(), batch, t, row_text(row));
    }
  }
  if (Result<void> printed = print_in_order(all, text); !printed) return printed;
  if (y[0] != y[1]) return {};
  return Error{
      .code = Errc::mismatch,
      .context = "the sums of batch 0 are those of batch 1, whose rows lay over its own before the experts came"};
}

// [step]
Result<void> step(World& world, const Options& options) {
  Communicator& all = world.all();
  const Rank me = all.rank();
  const ops::Routing routing = routing_of(me);
  const ops::ExpertMap experts = ops::ExpertMap::even(kExperts, kRanks);
  const std::vector<std::uint16_t> x = tokens_of(me);
  std::vector<std::uint16_t> y(x.size());

  // Nobody knows the counts before the call, so there must be room for all that may come.
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

// [two]
/// Batch 1 goes on where batch 0 of all ranks ends: each number still occurs once.
std::vector<std::uint16_t> batch_of(Rank me, std::size_t batch) {
  std::vector<std::uint16_t> x = tokens_of(me);
  const auto before = static_cast<float>(batch * kRanks * kTokens * kHidden);
  for (std::uint16_t& bits : x) bits = shmem::float_to_bf16(shmem::bf16_to_float(bits) + before);
  return x;
}

/// Both have the same routing. The experts come to batch 0 when both are there.
Result<void> two_batches(World& world, bool one_half) {
  Communicator& all = world.all();
  const Rank me = all.rank();
  const ops::Routing routing = routing_of(me);
  const ops::ExpertMap experts = ops::ExpertMap::even(kExperts, kRanks);
  Result<ops::LowLatencyBuffers> buffers = ops::LowLatencyBuffers::allocate(
      all, {.capacity = ops::most_rows(experts, kTopk, kTokens), .dtype = DType::bf16, .hidden = kHidden});
  if (!buffers) return buffers.error();
  const Half& first = buffers->next();
  const Half* halves[] = {&first, one_half ? &first : &buffers->next()};
  ops::LowLatencyTables tables[2];
  for (std::size_t batch = 0; batch < 2; ++batch) {
    const std::vector<std::uint16_t> x = batch_of(me, batch);
    const Result<void> sent = ops::dispatch_begin(all,
                                                  {.x = std::as_bytes(std::span{x}),
                                                   .dtype = DType::bf16,
                                                   .hidden = kHidden,
                                                   .expert_ids = routing.topk_idx_i32(),
                                                   .topk = kTopk,
                                                   .experts = experts,
                                                   .expand_x = halves[batch]->expand_x,
                                                   .capacity = buffers->capacity()},
                                                  tables[batch]);
    if (!sent) return sent;
  }
  for (ops::LowLatencyTables& batch : tables) {
    if (const Result<void> received = ops::dispatch_finish(all, batch); !received) return received;
  }
  std::vector<std::uint16_t> y[2];
  for (std::size_t batch = 0; batch < 2; ++batch) {
    run_experts(experts, tables[batch], me, *halves[batch]);
    y[batch].resize(kTokens * kHidden);
    const Result<void> summed = ops::combine_low_latency(all, {.expert_out = halves[batch]->expert_out,
                                                               .capacity = buffers->capacity(),
                                                               .tables = tables[batch],
                                                               .expert_scales = routing.weights(),
                                                               .x = std::as_writable_bytes(std::span{y[batch]})});
    if (!summed) return summed;
  }
  return told(all, y);
}
// [/two]

Result<void> low_latency(World& world, const Options& options) {
  const bool one_half = options.has("--one-half");
  return one_half || options.has("--two") ? two_batches(world, one_half) : step(world, options);
}

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = kRanks, .options = {"--break", "--two", "--one-half"}}, low_latency,
                     [](runtime::Config& config, const Options&) { config.declare_slots = ops::declare_low_latency; });
}
