// Layout counts, notify tells every rank where its rows will lie, dispatch writes each row there.
// usage: mpirun --oversubscribe -np 2 07_dispatch [--break]
//   --break   each rank makes its receive buffer as long as its own rows, not as the most of any rank

#include "apps/07_dispatch/worked_example.hpp"
#include "apps/lesson.hpp"
#include "ops/ep/dispatch_normal.hpp"

namespace {

using namespace shmoe;
using namespace shmoe::lesson;
using runtime::Communicator;
using runtime::World;

template <class T>
std::string table(std::span<const T> values, std::size_t columns) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); i += columns) {
    text += fmt::format(" [{}]", fmt::join(values.subspan(i, columns), " "));
  }
  return text;
}

std::string tables(Communicator& all, const ops::LayoutTables& layout, const ops::NotifyTables& notify) {
  const auto counts = all.local<const std::int32_t>(layout.num_tokens_per_expert, kExperts);
  std::string text = "layout\n";
  text += fmt::format("  num_tokens_per_expert  {}\n", table<std::int32_t>(counts, kExperts));
  text += fmt::format("  num_tokens_per_rank    {}\n", table<std::int32_t>(layout.num_tokens_per_rank, kRanks));
  text += fmt::format("  is_token_in_rank  [t,r]{}\n", table<std::int32_t>(layout.is_token_in_rank, kRanks));
  text += fmt::format("  send_token_idx    [t,k]{}\n", table<std::int32_t>(layout.send_token_idx, kTopk));
  text += "notify\n";
  text += fmt::format("  recv_data         [s,e]{}\n", table<std::int32_t>(notify.recv_data, kExperts));
  text += fmt::format("  put_offset        [e,s]{}\n", table<std::int64_t>(notify.put_offset, kRanks));
  text += fmt::format("  total_recv_tokens       {}\n", notify.total_recv_tokens);
  text += fmt::format("  max_bs                  {}\n", notify.max_bs);
  text += fmt::format("  recv_tokens_per_expert {}\n", table<std::int64_t>(notify.recv_tokens_per_expert, 2));
  return text;
}

/// Rows lie by expert, then by source rank: put_offset says where each run starts, recv_data how long it is.
std::string rows(const ops::ExpertMap& experts, const ops::NotifyTables& notify, Rank me,
                 std::span<const std::uint16_t> recv_x) {
  std::string text = "dispatch\n";
  std::size_t row = 0;
  for (const Expert e : experts.experts_of(me)) {
    for (Rank s{0}; s.value() < kRanks; ++s) {
      const std::int32_t count = notify.recv_data[s.index() * kExperts + e.index()];
      for (std::int32_t i = 0; i < count; ++i, ++row) {
        text += fmt::format("  row {}: expert {} from rank {}: {}\n", row, e, s,
                            row_text(recv_x.subspan(row * kHidden, kHidden)));
      }
    }
  }
  return text;
}

// [dispatch]
Result<void> dispatch(World& world, const Options& options) {
  Communicator& all = world.all();
  const Rank me = all.rank();
  const ops::Routing routing = routing_of(me);
  const ops::ExpertMap experts = ops::ExpertMap::even(kExperts, kRanks);
  const std::vector<std::uint16_t> x = tokens_of(me);

  const Result<Offset> counts = all.allocate(shmem::bytes_of<std::int32_t>(kExperts));
  if (!counts) return counts.error();
  ops::LayoutTables layout;
  Result<void> done =
      ops::layout(all, {.routing = routing, .experts = experts, .num_tokens_per_expert = *counts}, layout);
  if (!done) return done;
  ops::NotifyTables notify;
  done = ops::notify(all, {.layout = layout, .experts = experts}, notify);
  if (!done) return done;

  // Symmetric memory: as long on every rank as on the rank that receives most.
  const std::int64_t capacity = options.has("--break") ? notify.recv_rows : notify.total_recv_tokens;
  const Result<Offset> recv_x =
      all.allocate(shmem::bytes_of<std::uint16_t>(static_cast<std::size_t>(capacity * kHidden)));
  if (!recv_x) return recv_x.error();
  done = ops::dispatch_normal(all, {.x = std::as_bytes(std::span{x}),
                                    .dtype = DType::bf16,
                                    .hidden = kHidden,
                                    .topk_idx = routing.topk_idx_i32(),
                                    .experts = experts,
                                    .layout = layout,
                                    .notify = notify,
                                    .recv_x = *recv_x,
                                    .capacity = capacity});
  if (!done) return done;

  const auto received = all.local<const std::uint16_t>(*recv_x, static_cast<std::size_t>(notify.recv_rows * kHidden));
  return print_in_order(
      all, fmt::format("rank {}\n{}{}", me, tables(all, layout, notify), rows(experts, notify, me, received)));
}
// [/dispatch]

}  // namespace

int main(int argc, char** argv) { return lesson::run(argc, argv, {.ranks = kRanks, .options = {"--break"}}, dispatch); }
