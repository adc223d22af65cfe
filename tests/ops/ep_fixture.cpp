#include "tests/ops/ep_fixture.hpp"

#include <algorithm>
#include <chrono>

namespace shmoe::test {

namespace reference = ops::reference;

namespace {

std::uint64_t scrambled(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58'476D'1CE4'E5B9U;
  value = (value ^ (value >> 27)) * 0x94D0'49BB'1331'11EBU;
  return value ^ (value >> 31);
}

template <class T>
std::string list_difference(const char* name, const std::vector<T>& expected, const std::vector<T>& seen) {
  if (expected.size() != seen.size()) {
    return fmt::format("{} has {} entries, expected {}", name, seen.size(), expected.size());
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != expected[i]) return fmt::format("{}[{}] is {}, expected {}", name, i, seen[i], expected[i]);
  }
  return {};
}

std::string bytes_difference(const char* name, std::size_t row, std::span<const std::byte> expected,
                             std::span<const std::byte> seen) {
  if (expected.size() != seen.size()) {
    return fmt::format("{} has {} bytes, expected {}", name, seen.size(), expected.size());
  }
  const auto at = std::mismatch(seen.begin(), seen.end(), expected.begin()).first - seen.begin();
  if (at == static_cast<std::ptrdiff_t>(seen.size())) return {};
  const auto place = static_cast<std::size_t>(at);
  return fmt::format("{} differs in row {}, byte {}: {:#x}, expected {:#x}", name, place / row, place % row,
                     std::to_integer<int>(seen[place]), std::to_integer<int>(expected[place]));
}

void fill(std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), kCanary); }

constexpr std::size_t kGuardRows = 2;

std::size_t largest_rows(std::span<const EpCase> cases) {
  std::size_t bytes = 0;
  for (const EpCase& input : cases) {
    const auto rows = static_cast<std::size_t>(reference::solve(input.problem).total_recv_tokens) + kGuardRows;
    bytes = std::max(bytes, rows * input.row_bytes());
  }
  return bytes;
}

std::size_t largest_counts(std::span<const EpCase> cases) {
  std::size_t experts = 0;
  for (const EpCase& input : cases) experts = std::max(experts, static_cast<std::size_t>(input.problem.experts));
  return experts * 4;
}

std::span<std::byte> guarded_rows(runtime::Communicator& comm, Offset at, const EpCase& input, const Tables& tables) {
  const std::size_t rows = static_cast<std::size_t>(tables.notify.total_recv_tokens) + kGuardRows;
  return comm.local<std::byte>(at, rows * input.row_bytes());
}

/// Peers have read the old answers: they have entered a later dispatch.
void run_experts(Rank rank, const EpCase& input, const Tables& tables, std::span<const std::byte> recv_x,
                 std::span<std::byte> expert_out) {
  const std::size_t row = input.row_bytes();
  fill(expert_out);
  std::size_t next = 0;
  for (const Expert expert : tables.experts.experts_of(rank)) {
    const auto local = static_cast<std::size_t>(tables.experts.local_index(expert));
    for (std::int64_t i = 0; i < tables.notify.recv_tokens_per_expert[local]; ++i, next += row) {
      apply_expert(input.dtype, expert.value(), recv_x.subspan(next, row), expert_out.subspan(next, row));
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

ops::ExpertMap EpCase::experts() const {
  std::vector<Rank> owners;
  for (const std::int32_t owner : problem.owner) owners.emplace_back(owner);
  return std::move(ops::ExpertMap::owned_by(std::move(owners), ranks())).value();
}

std::vector<std::byte> EpCase::tokens_of(std::int64_t rank) const {
  const std::int64_t tokens = problem.ranks[static_cast<std::size_t>(rank)].tokens;
  std::vector<std::byte> x(static_cast<std::size_t>(tokens) * row_bytes());
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto row = std::span{x}.subspan(static_cast<std::size_t>(t) * row_bytes(), row_bytes());
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto place = (static_cast<std::uint64_t>(rank) << 40) ^ (static_cast<std::uint64_t>(t) << 20) ^
                         static_cast<std::uint64_t>(j);
      const auto number = static_cast<float>(static_cast<int>(scrambled(seed * 0x9E37'79B9U + place) % 2001) - 1000);
      reference::store(dtype, row, j, number / 64.0F);
    }
  }
  return x;
}

ops::Routing EpCase::routing_of(std::int64_t rank) const {
  const reference::Input& input = problem.ranks[static_cast<std::size_t>(rank)];
  return {problem.topk, input.topk_idx, input.weights};
}

std::string EpCase::describe() const {
  std::string tokens;
  for (const reference::Input& input : problem.ranks) tokens += fmt::format(" {}", input.tokens);
  return fmt::format("seed {} R {} E {} K {} H {} {} T{}", seed, ranks(), problem.experts, problem.topk, hidden,
                     name_of(dtype), tokens);
}

EpCase make_case(std::uint64_t seed, const Shape& shape, const Choose& choose) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  EpCase input{.seed = seed, .dtype = shape.dtype, .hidden = shape.hidden, .problem = {}};
  reference::Problem& problem = input.problem;
  problem.experts = shape.experts;
  problem.topk = shape.topk;
  const auto ranks = static_cast<std::int32_t>(shape.tokens.size());
  const std::int32_t run = (shape.experts + ranks - 1) / ranks;
  for (std::int32_t e = 0; e < shape.experts; ++e) {
    problem.owner.push_back(shape.own_map ? static_cast<std::int32_t>(below(ranks)) : e / run);
  }
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    reference::Input own;
    own.tokens = shape.tokens[static_cast<std::size_t>(rank)];
    for (std::int64_t t = 0; t < own.tokens; ++t) {
      for (std::int64_t k = 0; k < shape.topk; ++k) {
        std::int64_t id = below(shape.experts);
        if (below(100) < shape.dropped_percent) id = -1;
        if (choose) id = choose(rank, t, k);
        own.topk_idx.push_back(id);
        if (shape.weights) own.weights.push_back(static_cast<float>(below(1000) + 1) / 1000.0F);
      }
    }
    problem.ranks.push_back(std::move(own));
  }
  return input;
}

void apply_expert(DType dtype, std::int64_t expert, std::span<const std::byte> x, std::span<std::byte> y) {
  const auto elements = static_cast<std::int64_t>(x.size()) / (dtype == DType::fp32 ? 4 : 2);
  const auto factor = static_cast<float>(expert + 1);
  for (std::int64_t j = 0; j < elements; ++j) reference::store(dtype, y, j, reference::load(dtype, x, j) * factor);
}

Expected expect(const EpCase& input) {
  Expected expected{.answer = reference::solve(input.problem), .received = {}, .combined = {}};
  std::vector<std::vector<std::byte>> tokens;
  for (std::int64_t rank = 0; rank < input.ranks(); ++rank) tokens.push_back(input.tokens_of(rank));
  const std::size_t row_size = input.row_bytes();
  std::vector<std::vector<std::byte>> answers;
  for (const std::vector<reference::Origin>& rows : expected.answer.rows) {
    std::vector<std::byte> received;
    std::vector<std::byte> answer(rows.size() * row_size);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto x = std::span<const std::byte>{tokens[static_cast<std::size_t>(rows[row].source)]}.subspan(
          static_cast<std::size_t>(rows[row].token) * row_size, row_size);
      received.insert(received.end(), x.begin(), x.end());
      apply_expert(input.dtype, rows[row].expert, x, std::span{answer}.subspan(row * row_size, row_size));
    }
    expected.received.push_back(std::move(received));
    answers.push_back(std::move(answer));
  }
  for (std::int64_t rank = 0; rank < input.ranks(); ++rank) {
    expected.combined.push_back(reference::combine(
        input.problem, expected.answer, rank, input.dtype, input.hidden, [&](std::int64_t owner, std::int64_t row) {
          return std::span<const std::byte>{answers[static_cast<std::size_t>(owner)]}.subspan(
              static_cast<std::size_t>(row) * row_size, row_size);
        }));
  }
  return expected;
}

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
  const auto own_rows = static_cast<std::int64_t>(answer.rows[r].size());
  found.push_back(list_difference<std::int64_t>(
      "{total_recv_tokens, max_bs, recv_rows}", {answer.total_recv_tokens, answer.max_bs, own_rows},
      {outcome.notify.total_recv_tokens, outcome.notify.max_bs, outcome.notify.recv_rows}));
  std::vector<std::byte> received = expected.received[r];
  received.resize(outcome.received.size(), kCanary);
  found.push_back(bytes_difference("recv_x", row, received, outcome.received));
  found.push_back(bytes_difference("combined", row, expected.combined[r], outcome.combined));
  for (const std::string& text : found) {
    if (!text.empty()) return fmt::format("rank {}: {} ({})", rank, text, input.describe());
  }
  return {};
}

Bytes heap_for(std::span<const EpCase> cases) {
  return Bytes{2 * largest_rows(cases) + 2 * largest_counts(cases) + (std::size_t{1} << 20)};
}

Result<Room> allocate_room(runtime::Communicator& comm, std::span<const EpCase> cases) {
  const Bytes rows{largest_rows(cases)};
  const Bytes counts{largest_counts(cases)};
  Room room;
  const std::pair<Offset*, Bytes> parts[] = {
      {&room.counts[0], counts}, {&room.counts[1], counts}, {&room.recv_x, rows}, {&room.expert_out, rows}};
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
          .capacity = tables.notify.total_recv_tokens};
}

ops::CombineArgs combine_args(const EpCase& input, const Room& room, const Tables& tables, std::span<std::byte> x) {
  return {.expert_out = room.expert_out,
          .capacity = tables.notify.total_recv_tokens,
          .dtype = input.dtype,
          .hidden = input.hidden,
          .topk_idx = tables.routing.topk_idx_i32(),
          .weights = tables.routing.weights(),
          .experts = tables.experts,
          .layout = tables.layout,
          .notify = tables.notify,
          .x = x};
}

Result<void> run_layout(runtime::Communicator& comm, Offset counts, Tables& tables) {
  fill(comm.local<std::byte>(counts, static_cast<std::size_t>(tables.experts.experts()) * 4));
  return ops::layout(comm, {.routing = tables.routing, .experts = tables.experts, .num_tokens_per_expert = counts},
                     tables.layout);
}

Result<void> run_notify(runtime::Communicator& comm, Tables& tables) {
  return ops::notify(comm, {.layout = tables.layout, .experts = tables.experts}, tables.notify);
}

Result<void> run_dispatch(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                          Outcome& outcome) {
  const std::span<std::byte> recv_x = guarded_rows(comm, room.recv_x, input, tables);
  fill(recv_x);
  const std::vector<std::byte> x = input.tokens_of(comm.rank().value());
  if (Result<void> sent = ops::dispatch_normal(comm, dispatch_args(input, room, tables, x)); !sent) return sent;
  const auto counts =
      comm.local<std::int32_t>(tables.layout.num_tokens_per_expert, static_cast<std::size_t>(tables.experts.experts()));
  outcome = Outcome{.layout = tables.layout,
                    .notify = tables.notify,
                    .num_tokens_per_expert = {counts.begin(), counts.end()},
                    .received = {recv_x.begin(), recv_x.end()},
                    .capacity = tables.notify.total_recv_tokens,
                    .combined = {}};
  return {};
}

Result<void> run_combine(runtime::Communicator& comm, const EpCase& input, const Room& room, const Tables& tables,
                         Outcome& outcome) {
  run_experts(comm.rank(), input, tables, guarded_rows(comm, room.recv_x, input, tables),
              guarded_rows(comm, room.expert_out, input, tables));
  const std::size_t size = static_cast<std::size_t>(tables.layout.tokens) * input.row_bytes();
  const std::size_t guard = kGuardRows * input.row_bytes();
  outcome.combined.assign(size + 2 * guard, kCanary);
  const auto x = std::span{outcome.combined}.subspan(guard, size);
  Result<void> summed = ops::combine_normal(comm, combine_args(input, room, tables, x));
  return summed ? take_guards(outcome.combined, guard) : summed;
}

Result<Tables> run_tables(runtime::Communicator& comm, const EpCase& input, Offset counts) {
  Tables tables(input, comm.rank());
  if (Result<void> counted = run_layout(comm, counts, tables); !counted) return counted.error();
  if (Result<void> told = run_notify(comm, tables); !told) return told.error();
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
  const auto first = std::find_if(found.begin(), found.end(), [](const std::string& text) { return !text.empty(); });
  return first == found.end() ? std::string{} : *first;
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
