// The whole way of a token: layout, notify, dispatch, experts, combine.
// usage: mpirun --oversubscribe -np 2 08_combine [--break]
//   --break   rank 1 leaves combine out

#include "apps/07_dispatch/worked_example.hpp"
#include "apps/lesson.hpp"
#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/pipeline.hpp"

namespace {

using namespace shmoe;
using namespace shmoe::lesson;
using runtime::Communicator;
using runtime::World;

// [experts]
/// Expert e answers x * (e + 1). The rows of one expert lie together.
void run_experts(const ops::ExpertMap& experts, const ops::NotifyTables& notify, Rank me, ops::EpBuffers& buffers) {
  const std::span<const std::uint16_t> in = as_bf16(buffers.received(notify.recv_rows));
  const std::span<std::uint16_t> out = as_bf16(buffers.answers(notify.recv_rows));
  std::size_t at = 0;
  for (const Expert e : experts.experts_of(me)) {
    const auto local = static_cast<std::size_t>(experts.local_index(e));
    const std::size_t end = at + static_cast<std::size_t>(notify.recv_tokens_per_expert[local] * kHidden);
    for (; at < end; ++at) {
      out[at] = shmem::float_to_bf16(shmem::bf16_to_float(in[at]) * static_cast<float>(e.value() + 1));
    }
  }
}
// [/experts]

std::string outputs(Rank me, const ops::Routing& routing, std::span<const std::uint16_t> y) {
  std::string text;
  for (std::size_t t = 0; t < kTokens; ++t) {
    text += fmt::format("rank {} token {}:", me, t);
    for (std::size_t k = t * kTopk; k < (t + 1) * kTopk; ++k) {
      text += fmt::format(" {} of expert {},", routing.weights()[k], routing.topk_idx()[k]);
    }
    text += fmt::format(" together {}\n", row_text(y.subspan(t * kHidden, kHidden)));
  }
  return text;
}

// [pipeline]
Result<void> pipeline(World& world, const Options& options) {
  Communicator& all = world.all();
  const Rank me = all.rank();
  const ops::Routing routing = routing_of(me);
  const ops::ExpertMap experts = ops::ExpertMap::even(kExperts, kRanks);
  const std::vector<std::uint16_t> x = tokens_of(me);
  std::vector<std::uint16_t> y(x.size());
  Result<ops::EpBuffers> buffers = ops::EpBuffers::allocate(all, kExperts, DType::bf16, kHidden);
  if (!buffers) return buffers.error();

  ops::LayoutTables layout;
  Result<void> done = ops::layout(
      all, {.routing = routing, .experts = experts, .num_tokens_per_expert = buffers->next_counts()}, layout);
  if (!done) return done;
  ops::NotifyTables notify;
  done = ops::notify(all, {.layout = layout, .experts = experts}, notify);
  if (!done) return done;
  if (Result<void> room = buffers->reserve(notify); !room) return room;
  done = ops::dispatch_normal(all, {.x = std::as_bytes(std::span{x}),
                                    .dtype = DType::bf16,
                                    .hidden = kHidden,
                                    .topk_idx = routing.topk_idx_i32(),
                                    .experts = experts,
                                    .layout = layout,
                                    .notify = notify,
                                    .recv_x = buffers->recv_x(),
                                    .capacity = buffers->capacity()});
  if (!done) return done;

  run_experts(experts, notify, me, *buffers);

  if (options.has("--break") && me == Rank{1}) return {};
  done = ops::combine_normal(all, {.expert_out = buffers->expert_out(),
                                   .capacity = buffers->capacity(),
                                   .dtype = DType::bf16,
                                   .hidden = kHidden,
                                   .topk_idx = routing.topk_idx_i32(),
                                   .weights = routing.weights(),
                                   .experts = experts,
                                   .layout = layout,
                                   .notify = notify,
                                   .x = std::as_writable_bytes(std::span{y})});
  if (!done) return done;
  return print_in_order(all, outputs(me, routing, y));
}
// [/pipeline]

}  // namespace

int main(int argc, char** argv) { return lesson::run(argc, argv, {.ranks = kRanks, .options = {"--break"}}, pipeline); }
