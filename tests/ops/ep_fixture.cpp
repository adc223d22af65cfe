#include "tests/ops/ep_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tests/ops/difference.hpp"

namespace shmoe::test {

namespace reference = ops::reference;

namespace {

void fill(std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), kCanary); }

constexpr std::size_t kGuardRows = 2;

/// The most bytes of any case, where a row of one has row_bytes(case).
template <class RowBytes>
std::size_t largest_rows(std::span<const EpCase> cases, const RowBytes& row_bytes) {
  std::size_t bytes = 0;
  for (const EpCase& input : cases) {
    const auto rows = static_cast<std::size_t>(reference::solve(input.problem).total_recv_tokens) + kGuardRows;
    bytes = std::max(bytes, rows * row_bytes(input));
  }
  return bytes;
}

std::size_t largest_rows(std::span<const EpCase> cases) {
  return largest_rows(cases, [](const EpCase& input) { return input.row_bytes(); });
}

/// Of the scales and the gradients: four bytes a row.
std::size_t largest_columns(std::span<const EpCase> cases) {
  return largest_rows(cases, [](const EpCase&) { return std::size_t{4}; });
}

std::size_t largest_counts(std::span<const EpCase> cases) {
  std::size_t experts = 0;
  for (const EpCase& input : cases) experts = std::max(experts, static_cast<std::size_t>(input.problem.experts));
  return experts * 4;
}

std::span<std::byte> guarded_rows(runtime::Communicator& comm, Offset at, std::size_t row_bytes, const Tables& tables) {
  const std::size_t rows = static_cast<std::size_t>(tables.notify.total_recv_tokens) + kGuardRows;
  return comm.local<std::byte>(at, rows * row_bytes);
}

/// Peers have read the old answers: they have entered a later dispatch.
void run_experts(Rank rank, const EpCase& input, const Tables& tables, const Outcome& outcome,
                 std::span<std::byte> expert_out) {
  const std::size_t row = input.row_bytes();
  const std::span<const std::byte> scales{outcome.scales};
  fill(expert_out);
  for (const Expert expert : tables.experts.experts_of(rank)) {
    const auto local = static_cast<std::size_t>(tables.experts.local_index(expert));
    auto place = static_cast<std::size_t>(
        tables.notify.put_offset[expert.index() * static_cast<std::size_t>(tables.experts.ranks())]);
    for (std::int64_t i = 0; i < tables.notify.recv_tokens_per_expert[local]; ++i, ++place) {
      const auto sent = std::span{outcome.received}.subspan(place * input.sent_row_bytes(), input.sent_row_bytes());
      const auto scale = scales.empty() ? scales : scales.subspan(place * 4, 4);
      apply_expert(input.dtype, expert.value(), opened(input, sent, scale), expert_out.subspan(place * row, row));
    }
  }
}

/// Cuts `size` guard bytes off both ends.
Result<void> take_guards(std::vector<std::byte>& bytes, std::size_t size) {
  const auto kept = [](std::span<const std::byte> guard) {
    return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kCanary; });
  };
  const std::span<const std::byte> all{bytes};
  if (!kept(all.first(size)) || !kept(all.last(size))) {
    return Error{.code = Errc::mismatch, .context = "combine wrote outside x"};
  }
  const auto guard = static_cast<std::ptrdiff_t>(size);
  bytes.erase(bytes.end() - guard, bytes.end());
  bytes.erase(bytes.begin(), bytes.begin() + guard);
  return {};
}

}  // namespace

std::string difference(const EpCase& input, const Expected& expected, std::int64_t rank, const Outcome& outcome) {
  const auto r = static_cast<std::size_t>(rank);
  const reference::Answer& answer = expected.answer;
  const std::size_t row = input.row_bytes();
  std::vector<std::string> found;
  found.push_back(
      list_difference("num_tokens_per_expert", answer.num_tokens_per_expert[r], outcome.num_tokens_per_expert));
  found.push_back(
      list_difference("num_tokens_per_rank", answer.num_tokens_per_rank[r], outcome.layout.num_tokens_per_rank));
  found.push_back(list_difference("is_token_in_rank", answer.is_token_in_rank[r], outcome.layout.is_token_in_rank));
  found.push_back(list_difference("send_token_idx", answer.send_token_idx[r], outcome.layout.send_token_idx));
  found.push_back(list_difference("recv_data", answer.recv_data, outcome.notify.recv_data));
  found.push_back(list_difference("put_offset", answer.put_offset, outcome.notify.put_offset));
  found.push_back(list_difference("recv_tokens_per_expert", answer.recv_tokens_per_expert[r],
                                  outcome.notify.recv_tokens_per_expert));
  std::vector<std::int64_t> groups = answer.group_counts[r];
  if (input.group_list == ops::GroupList::cumulative) std::partial_sum(groups.begin(), groups.end(), groups.begin());
  found.push_back(list_difference("group_list", groups, outcome.notify.group_list));
  const std::vector<std::int64_t>& counts = answer.recv_tokens_per_expert[r];
  found.push_back(list_difference<std::int64_t>(
      "{total_recv_tokens, max_bs, recv_rows, padded_rows}",
      {answer.total_recv_tokens, answer.max_bs, std::accumulate(counts.begin(), counts.end(), std::int64_t{0}),
       std::ssize(answer.rows[r])},
      {outcome.notify.total_recv_tokens, outcome.notify.max_bs, outcome.notify.recv_rows, outcome.notify.padded_rows}));
  std::vector<std::byte> received = expected.received[r];
  received.resize(outcome.received.size(), kCanary);
  found.push_back(bytes_difference("recv_x", input.sent_row_bytes(), received, outcome.received));
  std::vector<std::byte> scales = expected.scales[r];
  scales.resize(outcome.scales.size(), kCanary);
  found.push_back(bytes_difference("recv_scales", 4, scales, outcome.scales));
  found.push_back(bytes_difference("combined", row, expected.combined[r], outcome.combined));
  found.push_back(bytes_difference("grad_out", input.element_bytes(), expected.gradients[r], outcome.gradients));
  const std::string text = first_difference(found);
  return text.empty() ? text : fmt::format("rank {}: {} ({})", rank, text, input.describe());
}

Bytes heap_for(std::span<const EpCase> cases) {
  return Bytes{2 * largest_rows(cases) + 2 * largest_columns(cases) + 2 * largest_counts(cases) +
               (std::size_t{1} << 20)};
}

Result<Room> allocate_room(runtime::Communicator& comm, std::span<const EpCase> cases) {
  const Bytes rows{largest_rows(cases)};
  const Bytes counts{largest_counts(cases)};
  Room room;
  const Bytes columns{largest_columns(cases)};
  const std::pair<Offset*, Bytes> parts[] = {{&room.counts[0], counts},    {&room.counts[1], counts},
                                             {&room.recv_x, rows},         {&room.expert_out, rows},
                                             {&room.recv_scales, columns}, {&room.prob_grad, columns}};
  for (const auto& [place, size] : parts) {
    Result<Offset> at = comm.allocate(size);
    if (!at) return std::move(at).error();
    *place = *at;
  }
  return room;
}

ops::DispatchArgs dispatch_args(const EpCase& input, const Room& room, const Tables& tables,
                                std::span<const std::byte> x) {
  return {.x = x,
          .dtype = input.dtype,
          .hidden = input.hidden,
          .topk_idx = tables.routing.topk_idx_i32(),
          .experts = tables.experts,
          .layout = tables.layout,
          .notify = tables.notify,
          .recv_x = room.recv_x,
          .capacity = tables.notify.total_recv_tokens,
          .quant = input.quant,
          .recv_scales = room.recv_scales};
}

ops::CombineArgs combine_args(const EpCase& input, const Room& room, const Tables& tables, std::span<std::byte> x,
                              std::span<std::byte> gradients) {
  return {.expert_out = room.expert_out,
          .capacity = tables.notify.total_recv_tokens,
          .dtype = input.dtype,
          .hidden = input.hidden,
          .topk_idx = tables.routing.topk_idx_i32(),
          .weights = tables.routing.weights(),
          .experts = tables.experts,
          .layout = tables.layout,
          .notify = tables.notify,
          .x = x,
          .prob_grad = input.gradients ? std::optional{room.prob_grad} : std::nullopt,
          .grad_out = gradients};
}

Result<void> run_layout(runtime::Communicator& comm, Offset counts, Tables& tables) {
  fill(comm.local<std::byte>(counts, static_cast<std::size_t>(tables.experts.experts()) * 4));
  return ops::layout(comm, {.routing = tables.routing, .experts = tables.experts, .num_tokens_per_expert = counts},
                     tables.layout);
}

Result<void> run_notify(runtime::Communicator& comm, const EpCase& input, Tables& tables) {
  return ops::notify(comm,
                     {.layout = tables.layout,
                      .experts = tables.experts,
                      .expert_alignment = input.problem.alignment,
                      .group_list = input.group_list},
                     tables.notify);
}

Result<void> run_dispatch(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                          Outcome& outcome, std::span<std::int64_t> wait_cost) {
  const std::span<std::byte> recv_x = guarded_rows(comm, room.recv_x, input.sent_row_bytes(), tables);
  const std::span<std::byte> scales =
      guarded_rows(comm, room.recv_scales, input.quant == ops::Quant::int8 ? 4 : 0, tables);
  fill(recv_x);
  fill(scales);
  const std::vector<std::byte> x = input.tokens_of(comm.rank().value());
  ops::DispatchArgs args = dispatch_args(input, room, tables, x);
  args.wait_cost = wait_cost;
  if (Result<void> sent = ops::dispatch_normal(comm, args); !sent) return sent;
  const auto counts =
      comm.local<std::int32_t>(tables.layout.num_tokens_per_expert, static_cast<std::size_t>(tables.experts.experts()));
  outcome = Outcome{.layout = tables.layout,
                    .notify = tables.notify,
                    .num_tokens_per_expert = {counts.begin(), counts.end()},
                    .received = {recv_x.begin(), recv_x.end()},
                    .capacity = tables.notify.total_recv_tokens,
                    .scales = {scales.begin(), scales.end()},
                    .combined = {},
                    .gradients = {}};
  return {};
}

Result<void> run_combine(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                         Outcome& outcome, std::span<std::int64_t> wait_cost) {
  run_experts(comm.rank(), input, tables, outcome, guarded_rows(comm, room.expert_out, input.row_bytes(), tables));
  const std::vector<std::byte> prob_grad = input.prob_grad_of(comm.rank().value(), tables.notify.total_recv_tokens);
  std::copy(prob_grad.begin(), prob_grad.end(), comm.local<std::byte>(room.prob_grad, prob_grad.size()).begin());
  const std::size_t size = static_cast<std::size_t>(tables.layout.tokens) * input.row_bytes();
  const std::size_t guard = kGuardRows * input.row_bytes();
  outcome.combined.assign(size + 2 * guard, kCanary);
  const auto x = std::span{outcome.combined}.subspan(guard, size);
  std::ranges::fill(x, kNoNumber);
  outcome.gradients.assign(input.gradients ? tables.routing.topk_idx().size() * input.element_bytes() : 0, kNoNumber);
  ops::CombineArgs args = combine_args(input, room, tables, x, outcome.gradients);
  args.wait_cost = wait_cost;
  Result<void> summed = ops::combine_normal(comm, args);
  return summed ? take_guards(outcome.combined, guard) : summed;
}

Result<Tables> run_tables(runtime::Communicator& comm, const EpCase& input, Offset counts) {
  Tables tables(input, comm.rank());
  if (Result<void> counted = run_layout(comm, counts, tables); !counted) return counted.error();
  if (Result<void> told = run_notify(comm, input, tables); !told) return told.error();
  return tables;
}

Result<Outcome> run_rows(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables) {
  Outcome outcome;
  if (Result<void> sent = run_dispatch(comm, input, room, tables, outcome); !sent) return sent.error();
  if (Result<void> summed = run_combine(comm, input, room, tables, outcome); !summed) return summed.error();
  return outcome;
}

Result<Outcome> run_step(runtime::Communicator& comm, const EpCase& input, const Room& room, std::int64_t step) {
  Result<Tables> tables = run_tables(comm, input, room.counts[step & 1]);
  if (!tables) return std::move(tables).error();
  return run_rows(comm, input, room, *tables);
}

runtime::Config config_for(const Setup& setup, Bytes heap) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = setup.cores;
  config.views = setup.views;
  config.weak_seed = setup.weak_seed;
  config.ipc_data = Bytes{0};
  config.communicators = 2;
  config.wait_limit = std::chrono::seconds(60);
  config.profile = setup.profile;
  config.heap = heap;
  return config;
}

std::string run_cases(std::span<const EpCase> cases, const Setup& setup) {
  std::vector<Expected> expected;
  for (const EpCase& input : cases) expected.push_back(expect(input));
  const auto ranks = cases.front().ranks();
  std::vector<std::string> found(static_cast<std::size_t>(ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    Result<Room> room = allocate_room(comm, cases);
    if (!room) return std::move(room).error();
    if (setup.before) setup.before(comm);
    std::string& own = found[comm.rank().index()];
    for (std::int64_t step = 0; step < setup.steps; ++step) {
      const std::size_t which = static_cast<std::size_t>(step) % cases.size();
      Result<Outcome> outcome = run_step(comm, cases[which], *room, step);
      if (!outcome) return std::move(outcome).error().within(fmt::format("step {}", step));
      if (own.empty()) own = difference(cases[which], expected[which], comm.rank().value(), *outcome);
    }
    return comm.barrier();
  };
  const Result<void> done =
      runtime::World::run_as_threads(ranks, config_for(setup, heap_for(cases)), body, setup.decorate);
  if (!done) return fmt::format("{} ({})", to_string(done.error()), cases.front().describe());
  return first_difference(found);
}

Result<std::vector<Outcome>> outcomes_of(const EpCase& input, const Setup& setup) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(input.ranks()));
  const std::span<const EpCase> cases{&input, 1};
  const Result<void> done = runtime::World::run_as_threads(
      input.ranks(), config_for(setup, heap_for(cases)),
      [&](runtime::World& world) -> Result<void> {
        runtime::Communicator& comm = world.all();
        Result<Room> room = allocate_room(comm, cases);
        if (!room) return std::move(room).error();
        Result<Outcome> outcome = run_step(comm, input, *room, 0);
        if (!outcome) return std::move(outcome).error();
        outcomes[comm.rank().index()] = *std::move(outcome);
        return comm.barrier();
      },
      setup.decorate);
  if (!done) return done.error();
  return outcomes;
}

}  // namespace shmoe::test
