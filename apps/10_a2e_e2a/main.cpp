// Attention and experts on ranks of their own: a2e hands a batch over, e2a brings the weighted sums back.
// usage: mpirun --oversubscribe -np 5 10_a2e_e2a [--break]
//   --break   rank 3 is started without a gate: it has no expert ids and scales to send

#include <fmt/ranges.h>

#include "apps/lesson.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "shmem/number.hpp"

namespace {

using namespace shmoe;
using namespace shmoe::lesson;
using runtime::Communicator;
using runtime::World;

constexpr std::int64_t kHidden = 2;
constexpr std::int32_t kTopk = 2;
constexpr std::int64_t kBatch[] = {2, 0, 1};  // of ranks 2, 3 and 4
using Rows = std::vector<float>;

/// What attention leaves on a rank: row i is 10 r + i, and 1 more.
struct Batch {
  Rows x;
  std::vector<std::int32_t> ids;
  std::vector<float> scales;
};

Batch batch_of(Rank rank) {
  Batch batch;
  for (std::int64_t row = 0; row < kBatch[rank.index() - 2]; ++row) {
    const auto first = static_cast<float>(10 * rank.value() + row);
    batch.x.insert(batch.x.end(), {first, first + 1});
    batch.ids.insert(batch.ids.end(), {static_cast<std::int32_t>(row), 3});
    batch.scales.insert(batch.scales.end(), {0.75F, 0.25F});
  }
  return batch;
}

template <class T>
std::string listed(std::span<const T> values) {
  return fmt::format("[{}]", fmt::join(values, " "));
}

// [experts]
/// For each row one answer from each of its experts: expert e answers x * (e + 1).
Rows run_experts(const ops::A2eTables& tables, const Rows& rows) {
  Rows answers;
  for (std::size_t pair = 0; pair < tables.expert_ids.size(); ++pair) {
    const auto factor = static_cast<float>(tables.expert_ids[pair] + 1);
    for (std::size_t j = 0; j < kHidden; ++j) answers.push_back(rows[pair / kTopk * kHidden + j] * factor);
  }
  return answers;
}

Result<std::string> be_expert(Communicator& all, const ops::AfdPlace& place) {
  Rows rows(static_cast<std::size_t>(place.shape.capacity(all.rank()) * kHidden));
  ops::A2eTables tables;
  Result<void> done = ops::a2e(all, {.place = place, .expand_x = std::as_writable_bytes(std::span{rows})}, tables);
  if (!done) return done.error();
  const Rows answers = run_experts(tables, rows);
  done = ops::e2a(
      all,
      {.place = place, .a2e = tables, .kind = ops::Answers::one_each_k, .answers = std::as_bytes(std::span{answers})});
  if (!done) return done.error();
  std::string text = fmt::format("expert rank {} serves {}, batches {}\n", all.rank(),
                                 place.shape.ranks.served(all.rank()), listed<std::int32_t>(tables.atten_batch_size));
  for (std::int64_t row = 0; row < tables.rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    text += fmt::format("  row {}: {} for experts {} with {}\n", row,
                        listed(std::span<const float>{rows}.subspan(at * kHidden, kHidden)),
                        listed(std::span<const std::int32_t>{tables.expert_ids}.subspan(at * kTopk, kTopk)),
                        listed(std::span<const float>{tables.expert_scales}.subspan(at * kTopk, kTopk)));
  }
  return text;
}
// [/experts]

// [attention]
Result<std::string> be_attention(Communicator& all, const ops::AfdPlace& place) {
  const Batch batch = batch_of(all.rank());
  Rows y(batch.x.size());
  ops::A2eTables tables;
  Result<void> done = ops::a2e(
      all, {.place = place, .x = std::as_bytes(std::span{batch.x}), .expert_ids = batch.ids, .scales = batch.scales},
      tables);
  if (!done) return done.error();
  done = ops::e2a(
      all,
      {.place = place, .a2e = tables, .kind = ops::Answers::one_each_k, .x = std::as_writable_bytes(std::span{y})});
  if (!done) return done.error();
  return fmt::format("attention rank {} belongs to expert rank {}: sent {}, got {}\n", all.rank(),
                     place.shape.ranks.expert_of(all.rank()), listed<float>(batch.x), listed<float>(y));
}
// [/attention]

// [main]
Result<void> disaggregated(World& world, const Options& options) {
  Communicator& all = world.all();
  const ops::AfdShape shape{.ranks = ops::Assignment::of(2, 3).value(),
                            .max_batch = 2,
                            .hidden = kHidden,
                            .topk = kTopk,
                            .dtype = DType::fp32,
                            .compute_gate = !options.has("--break") || all.rank() != Rank{3}};
  const ops::AfdSignals signals = ops::afd_signals(all.slots());
  const Result<Offset> window = all.allocate(ops::afd_window_bytes(shape, all.profile()));
  if (!window) return window.error();
  const ops::AfdPlace place{.shape = shape, .window = *window, .signals = signals};
  const Result<std::string> text = shape.ranks.is_expert(all.rank()) ? be_expert(all, place) : be_attention(all, place);
  if (!text) return text.error();
  return print_in_order(all, *text);
}
// [/main]

}  // namespace

int main(int argc, char** argv) {
  return lesson::run(
      argc, argv, {.ranks = 5, .options = {"--break"}}, disaggregated, [](runtime::Config& config, const Options&) {
        config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); };
      });
}
