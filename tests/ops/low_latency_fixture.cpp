#include "tests/ops/low_latency_fixture.hpp"

#include <algorithm>
#include <numeric>

#include "tests/ops/difference.hpp"

namespace shmoe::test {

namespace reference = ops::reference;

namespace {

constexpr std::size_t kGuards = 2;  // rows

/// Which row of the smooth scales a column takes.
std::size_t smooth_row(const LowLatencyCase& input, std::int64_t column) {
  const std::int64_t behind = column - input.shared.ranks;
  if (behind >= 0) return static_cast<std::size_t>(input.shared.experts + behind);
  return static_cast<std::size_t>(column * input.shared.experts / input.shared.ranks);
}

reference::Quantised published_row(DType dtype, std::span<const std::byte> x) {
  reference::Quantised row = reference::quantise(dtype, x);
  const auto zero = [](std::int8_t q) { return q == 0; };
  if (std::all_of(row.q.begin(), row.q.end(), zero)) row.scale = 0;
  return row;
}

reference::Quantised quantised_row(const LowLatencyCase& input, std::int64_t column, std::span<const std::byte> x) {
  if (input.published_quant) return published_row(input.base.dtype, x);
  if (input.scales.empty() && !input.static_scale) return reference::quantise(input.base.dtype, x);
  const auto columns = static_cast<std::size_t>(input.base.hidden);
  const std::span<const float> factors =
      input.scales.empty() ? std::span<const float>{}
                           : std::span{input.scales}.subspan(smooth_row(input, column) * columns, columns);
  return reference::quantise(input.base.dtype, x, factors, input.static_scale);
}

void append(std::vector<std::byte>& to, std::span<const std::byte> from) {
  to.insert(to.end(), from.begin(), from.end());
}

void fill_owner(const LowLatencyCase& input, const std::vector<reference::Origin>& rows,
                const std::vector<std::vector<std::byte>>& tokens, LowLatencyExpected& expected) {
  const std::size_t row_size = input.base.row_bytes();
  std::vector<std::byte> received;
  std::vector<std::byte> scales;
  std::vector<std::byte> answers;
  for (const reference::Origin& row : rows) {
    const auto x = std::span<const std::byte>{tokens[static_cast<std::size_t>(row.source)]}.subspan(
        static_cast<std::size_t>(row.token) * row_size, row_size);
    std::vector<std::byte> sent(x.begin(), x.end());
    std::vector<std::byte> scale;
    if (input.base.quant == ops::Quant::int8) {
      const reference::Quantised made = quantised_row(input, row.expert, x);
      const auto q = std::as_bytes(std::span{made.q});
      sent.assign(q.begin(), q.end());
      scale.resize(4);
      reference::store(DType::fp32, scale, 0, made.scale);
    }
    append(received, sent);
    append(scales, scale);
    std::vector<std::byte> answer(row_size);
    apply_expert(input.base.dtype, row.expert, opened(input.base, sent, scale), answer);
    append(answers, answer);
  }
  expected.received.push_back(std::move(received));
  expected.scales.push_back(std::move(scales));
  expected.answers.push_back(std::move(answers));
}

std::size_t rows_with_guards(std::span<const LowLatencyCase> cases) {
  std::int64_t most = 0;
  for (const LowLatencyCase& input : cases) {
    most = std::max(most, reference::solve_places(reference::widened(input.problem())).total_recv_tokens);
  }
  return static_cast<std::size_t>(most) + kGuards;
}

std::size_t widest_row(std::span<const LowLatencyCase> cases) {
  std::size_t widest = 0;
  for (const LowLatencyCase& input : cases) widest = std::max(widest, input.base.row_bytes());
  return widest;
}

}  // namespace

std::string LowLatencyCase::describe() const {
  return fmt::format("{} shared {} on {} mask {} smooth {} static {} ori_x {} shared_x {}", base.describe(),
                     shared.experts, shared.ranks, mask.empty() ? 0 : mask.front().size(), !scales.empty(),
                     static_scale.value_or(0), copies_answers, adds_shared_x);
}

reference::LowLatencyProblem LowLatencyCase::problem() const {
  reference::LowLatencyProblem wide{
      .routed = base.problem, .shared_experts = shared.experts, .shared_ranks = shared.ranks, .active = {}};
  for (std::size_t rank = 0; rank < mask.size(); ++rank) {
    std::vector<std::uint8_t> pairs = mask[rank];
    const std::size_t ids = base.problem.ranks[rank].topk_idx.size();
    if (pairs.size() != ids) {
      pairs.clear();
      const auto topk = static_cast<std::size_t>(base.problem.topk);
      for (std::size_t pair = 0; pair < ids && !mask[rank].empty(); ++pair) pairs.push_back(mask[rank][pair / topk]);
    }
    wide.active.push_back(std::move(pairs));
  }
  return wide;
}

std::vector<std::byte> LowLatencyCase::shared_x_of(std::int64_t rank) const {
  EpCase other = base;
  other.seed = base.seed + 1000;
  return other.tokens_of(rank);
}

LowLatencyExpected expect(const LowLatencyCase& input) {
  LowLatencyExpected expected;
  expected.problem = reference::widened(input.problem());
  expected.answer = reference::solve(expected.problem);
  expected.ep_recv_count = reference::inclusive_prefix(expected.answer);
  std::vector<std::vector<std::byte>> tokens;
  for (std::int64_t rank = 0; rank < input.base.ranks(); ++rank) tokens.push_back(input.base.tokens_of(rank));
  for (const auto& rows : expected.answer.rows) fill_owner(input, rows, tokens, expected);
  const std::size_t row_size = input.base.row_bytes();
  for (std::int64_t rank = 0; rank < input.base.ranks(); ++rank) {
    const std::vector<std::byte> extra = input.adds_shared_x ? input.shared_x_of(rank) : std::vector<std::byte>{};
    expected.combined.push_back(reference::combine_with(
        expected.problem, expected.answer, rank, input.base.dtype, input.base.hidden,
        [&](std::int64_t owner, std::int64_t row) {
          return std::span<const std::byte>{expected.answers[static_cast<std::size_t>(owner)]}.subspan(
              static_cast<std::size_t>(row) * row_size, row_size);
        },
        extra));
  }
  return expected;
}

Result<LowLatencyRoom> allocate_low_latency_room(runtime::Communicator& comm, std::span<const LowLatencyCase> cases) {
  const std::size_t rows = rows_with_guards(cases);
  LowLatencyRoom room;
  const std::pair<Offset*, std::size_t> parts[] = {
      {&room.expand_x, widest_row(cases)}, {&room.expert_out, widest_row(cases)}, {&room.dynamic_scales, 4}};
  for (const auto& [place, size] : parts) {
    Result<Offset> at = comm.allocate(Bytes{rows * size});
    if (!at) return std::move(at).error();
    *place = *at;
  }
  return room;
}

LowLatencyStep::LowLatencyStep(runtime::Communicator& comm, const LowLatencyCase& input,
                               const LowLatencyExpected& expected, const LowLatencyRoom& room,
                               ops::LowLatencyTables& tables)
    : comm_(&comm),
      input_(&input),
      expected_(&expected),
      room_(room),
      tables_(&tables),
      routing_(input.base.routing_of(comm.rank().value())),
      experts_(input.base.experts()),
      x_(input.base.tokens_of(comm.rank().value())) {
  if (input.adds_shared_x) shared_x_ = input.shared_x_of(comm.rank().value());
}

ops::DispatchLowLatencyArgs LowLatencyStep::dispatch_args() const {
  return {.x = x_,
          .dtype = input_->base.dtype,
          .hidden = input_->base.hidden,
          .expert_ids = routing_.topk_idx_i32(),
          .topk = input_->base.problem.topk,
          .experts = experts_,
          .active_mask = input_->mask.empty() ? std::span<const std::uint8_t>{} : input_->mask[me()],
          .shared = input_->shared,
          .expand_x = room_.expand_x,
          .capacity = capacity(),
          .quant = input_->base.quant,
          .dynamic_scales = room_.dynamic_scales,
          .scales = input_->scales,
          .static_scale = input_->static_scale,
          .expert_token_nums = input_->expert_token_nums};
}

ops::CombineLowLatencyArgs LowLatencyStep::combine_args() {
  const std::size_t guard = kGuards * input_->base.row_bytes();
  return {.expert_out = room_.expert_out,
          .capacity = capacity(),
          .tables = *tables_,
          .expert_scales = routing_.weights(),
          .ori_x = answers_,
          .shared_expert_x = shared_x_,
          .x = std::span{sums_}.subspan(guard, sums_.size() - 2 * guard)};
}

void LowLatencyStep::clear_rows() {
  const std::size_t rows = static_cast<std::size_t>(capacity()) + kGuards;
  std::ranges::fill(comm_->local<std::byte>(room_.expand_x, rows * input_->base.sent_row_bytes()), kCanary);
  std::ranges::fill(comm_->local<std::byte>(room_.dynamic_scales, rows * 4), kCanary);
}

std::string LowLatencyStep::received_difference() const {
  const reference::Answer& answer = expected_->answer;
  const std::size_t rows = static_cast<std::size_t>(capacity()) + kGuards;
  std::vector<std::byte> received = expected_->received[me()];
  received.resize(rows * input_->base.sent_row_bytes(), kCanary);
  std::vector<std::byte> scales = expected_->scales[me()];
  scales.resize(rows * 4, kCanary);
  std::vector<std::int64_t> nums = answer.recv_tokens_per_expert[me()];
  if (input_->expert_token_nums == ops::GroupList::cumulative) {
    std::partial_sum(nums.begin(), nums.end(), nums.begin());
  }
  std::vector<std::int64_t> rows_of;
  for (const auto& list : answer.rows) rows_of.push_back(std::ssize(list));
  const std::string found[] = {
      list_difference("recv_data", answer.recv_data, tables_->recv_data),
      list_difference("ep_recv_count", expected_->ep_recv_count, tables_->ep_recv_count),
      list_difference("rows_of", rows_of, tables_->rows_of),
      list_difference("expand_idx", answer.send_token_idx[me()], tables_->expand_idx),
      list_difference("expert_token_nums", nums, tables_->expert_token_nums),
      list_difference<std::int64_t>("recv_rows", {rows_of[me()]}, {tables_->recv_rows}),
      bytes_difference("expand_x", input_->base.sent_row_bytes(), received,
                       comm_->local<std::byte>(room_.expand_x, received.size())),
      bytes_difference("dynamic_scales", 4, scales, comm_->local<std::byte>(room_.dynamic_scales, scales.size()))};
  const std::string text = first_difference(found);
  return text.empty() ? text : fmt::format("rank {}: {} ({})", comm_->rank(), text, input_->describe());
}

void LowLatencyStep::run_experts() {
  const std::vector<std::byte>& answers = expected_->answers[me()];
  if (input_->copies_answers) {
    answers_ = answers;
  } else {
    std::ranges::copy(answers, comm_->local<std::byte>(room_.expert_out, answers.size()).begin());
  }
}

void LowLatencyStep::clear_sums() {
  const std::size_t guard = kGuards * input_->base.row_bytes();
  sums_.assign(x_.size() + 2 * guard, kCanary);
  std::fill_n(sums_.begin() + static_cast<std::ptrdiff_t>(guard), x_.size(), kNoNumber);
}

std::string LowLatencyStep::sums_difference() const {
  const std::size_t guard = kGuards * input_->base.row_bytes();
  std::vector<std::byte> expected(guard, kCanary);
  append(expected, expected_->combined[me()]);
  expected.resize(expected.size() + guard, kCanary);
  const std::string text = bytes_difference("x", input_->base.row_bytes(), expected, sums_);
  return text.empty() ? text : fmt::format("rank {}: {} ({})", comm_->rank(), text, input_->describe());
}

Result<void> LowLatencyStep::run(std::string& difference) {
  clear_rows();
  if (Result<void> sent = ops::dispatch_low_latency(*comm_, dispatch_args(), *tables_); !sent) return sent;
  if (difference.empty()) difference = received_difference();
  run_experts();
  clear_sums();
  if (Result<void> summed = ops::combine_low_latency(*comm_, combine_args()); !summed) return summed;
  if (difference.empty()) difference = sums_difference();
  return {};
}

runtime::Config low_latency_config(const Setup& setup, std::span<const LowLatencyCase> cases) {
  const std::size_t row = 2 * widest_row(cases) + 8;
  runtime::Config config = config_for(setup, Bytes{4 * rows_with_guards(cases) * row + (1U << 20)});
  // As published, the flags of combine lie over the magic slots, where strict mode finds the rounds of earlier barriers.
  config.strict = setup.profile.handshake;
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_low_latency(plan, map); };
  return config;
}

std::string run_low_latency(std::span<const LowLatencyCase> cases, const Setup& setup) {
  std::vector<LowLatencyExpected> expected;
  for (const LowLatencyCase& input : cases) expected.push_back(expect(input));
  const std::int32_t ranks = cases.front().base.ranks();
  std::vector<std::string> found(static_cast<std::size_t>(ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    // By turns, since peers may still read the answers of the step before.
    LowLatencyRoom rooms[2];
    for (LowLatencyRoom& room : rooms) {
      Result<LowLatencyRoom> made = allocate_low_latency_room(comm, cases);
      if (!made) return std::move(made).error();
      room = *made;
    }
    if (setup.before) setup.before(comm);
    ops::LowLatencyTables tables;
    for (std::int64_t step = 0; step < setup.steps; ++step) {
      const std::size_t which = static_cast<std::size_t>(step) % cases.size();
      LowLatencyStep own(comm, cases[which], expected[which], rooms[step & 1], tables);
      Result<void> done = own.run(found[comm.rank().index()]);
      if (!done) return std::move(done).error().within(fmt::format("step {}", step));
    }
    return comm.profile().handshake ? comm.barrier() : Result<void>{};
  };
  const Result<void> done =
      runtime::World::run_as_threads(ranks, low_latency_config(setup, cases), body, setup.decorate);
  if (!done) return fmt::format("{} ({})", to_string(done.error()), cases.front().describe());
  const auto first = std::find_if(found.begin(), found.end(), [](const std::string& text) { return !text.empty(); });
  return first == found.end() ? std::string{} : *first;
}

std::string on_low_latency_ranks(const LowLatencyCase& input, const Setup& setup,
                                 const std::function<Result<void>(LowLatencyBench&)>& part) {
  const auto body = [&](runtime::World& world) -> Result<void> {
    LowLatencyBench bench{.comm = world.all(), .rooms = {}};
    for (LowLatencyRoom& room : bench.rooms) {
      const auto made = allocate_low_latency_room(bench.comm, {&input, 1});
      if (!made) return made.error();
      room = *made;
    }
    if (Result<void> done = part(bench); !done) return done;
    return setup.profile.handshake ? bench.comm.barrier() : Result<void>{};
  };
  const auto done =
      runtime::World::run_as_threads(input.base.ranks(), low_latency_config(setup, {&input, 1}), body, setup.decorate);
  return done ? std::string{} : to_string(done.error());
}

LowLatencyCase plain_low_latency(std::uint64_t seed, std::vector<std::int64_t> tokens, std::int32_t experts,
                                 std::int32_t topk) {
  return {.base = make_case(seed, {.experts = experts, .topk = topk, .hidden = 9, .tokens = std::move(tokens)})};
}

LowLatencyCase draw_low_latency(std::uint64_t seed, std::int32_t ranks) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  Shape shape;
  shape.experts = static_cast<std::int32_t>(1 + below(3 * ranks + 4));
  shape.topk = static_cast<std::int32_t>(1 + below(std::min<std::int64_t>(shape.experts, 5)));
  shape.hidden = 1 + below(70);
  shape.dtype = static_cast<DType>(below(3));
  shape.quant = below(2) == 0 ? ops::Quant::none : ops::Quant::int8;
  shape.dropped_percent = below(3) == 0 ? 30 : 0;
  shape.weights = below(4) != 0;
  shape.own_map = below(3) == 0;
  shape.tokens.clear();
  for (std::int32_t rank = 0; rank < ranks; ++rank) shape.tokens.push_back(below(7));
  LowLatencyCase input{.base = make_case(seed, shape)};
  if (ranks >= 3 && below(2) == 0) {
    input.shared.experts = static_cast<std::int32_t>(1 + below(ranks >= 5 ? 2 : 1));
    input.shared.ranks =
        input.shared.experts * static_cast<std::int32_t>(1 + below((ranks - 1) / input.shared.experts));
  }
  const std::int64_t masked = below(3);
  for (std::int32_t rank = 0; masked > 0 && rank < ranks; ++rank) {
    const auto tokens = static_cast<std::size_t>(shape.tokens[static_cast<std::size_t>(rank)]);
    std::vector<std::uint8_t> mask(masked == 1 ? tokens : tokens * static_cast<std::size_t>(shape.topk));
    for (std::uint8_t& entry : mask) entry = static_cast<std::uint8_t>(below(2));
    input.mask.push_back(std::move(mask));
  }
  if (shape.quant == ops::Quant::int8) {
    if (below(2) == 0) {
      input.scales.resize(static_cast<std::size_t>((input.shared.experts + shape.experts) * shape.hidden));
      for (float& factor : input.scales) factor = static_cast<float>(below(16) + 1) / 8.0F;
    }
    if (below(2) == 0) input.static_scale = 0.05F;
  }
  input.expert_token_nums = below(2) == 0 ? ops::GroupList::counts : ops::GroupList::cumulative;
  input.copies_answers = below(2) == 0;
  input.adds_shared_x = below(3) == 0;
  return input;
}

}  // namespace shmoe::test
