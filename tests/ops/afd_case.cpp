#include "tests/ops/afd_case.hpp"

#include <algorithm>
#include <chrono>
#include <random>

#include "ops/ep/reference.hpp"
#include "tests/ops/difference.hpp"
#include "tests/ops/ep_case.hpp"

namespace shmoe::test {

namespace reference = ops::reference;

namespace {

std::vector<std::byte> drawn_rows(std::mt19937_64& random, DType dtype, std::int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size_of(dtype).value());
  for (std::int64_t j = 0; j < elements; ++j) {
    reference::store(dtype, bytes, j, static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64.0F);
  }
  return bytes;
}

std::string difference(const AfdCase& input, const reference::AfdReceived& expected, const ops::A2eTables& tables,
                       std::span<const std::byte> expand_x) {
  const std::size_t sent = expected.expand_x.size();
  const std::string found[] = {
      list_difference("atten_batch_size", expected.atten_batch_size, tables.atten_batch_size),
      list_difference("x_active_mask", expected.x_active_mask, tables.x_active_mask),
      list_difference("expert_ids", expected.expert_ids, tables.expert_ids),
      list_difference("expert_scales", expected.expert_scales, tables.expert_scales),
      list_difference("row_scales", expected.row_scales, tables.row_scales),
      bytes_difference("expand_x", input.shape().sent_row_bytes(), expected.expand_x, expand_x.first(sent))};
  for (std::size_t i = sent; i < expand_x.size(); ++i) {
    if (expand_x[i] != kCanary) return fmt::format("expand_x was written behind its rows, at byte {} of {}", i, sent);
  }
  return first_difference(found);
}

/// One rank's calls.
class AfdRank {
 public:
  AfdRank(runtime::Communicator& comm, const AfdCase& input, Offset window)
      : comm_(comm),
        input_(input),
        shape_(input.shape()),
        signals_(ops::afd_signals(comm.slots())),
        place_{.shape = shape_, .window = window, .signals = signals_},
        expected_(reference::received(input.problem)),
        answers_(afd_answers(input)),
        returned_(reference::returned(input.problem, answers_, input.sizes.summed)) {}

  Result<std::string> call(bool with_e2a) {
    const Rank me = comm_.rank();
    const bool expert = shape_.ranks.is_expert(me);
    std::vector<std::byte> expand_x;
    if (expert) {
      expand_x.assign(static_cast<std::size_t>(shape_.capacity(me) + 2) * shape_.sent_row_bytes(), kCanary);
    }
    if (auto done = ops::a2e(comm_, a2e_args(input_, place_, me, expand_x), tables_); !done) {
      return std::move(done).error();
    }
    if (expert) {
      std::string found = difference(input_, expected_[me.index()], tables_, expand_x);
      if (!found.empty()) return found;
    }
    return with_e2a ? answer() : std::string{};
  }

 private:
  Result<std::string> answer() {
    const Rank me = comm_.rank();
    const bool expert = shape_.ranks.is_expert(me);
    const std::size_t index = me.index() - (expert ? 0 : static_cast<std::size_t>(input_.sizes.experts));
    const std::size_t bytes = expert ? 0 : returned_[index].size();
    std::vector<std::byte> x(bytes, kNoNumber);
    const std::vector<std::byte> none;
    const ops::E2aArgs args = e2a_args(input_, place_, tables_, me, expert ? answers_[index] : none, x);
    if (auto done = ops::e2a(comm_, args); !done) return std::move(done).error();
    return expert ? std::string{} : bytes_difference("x", input_.row_bytes(), returned_[index], x);
  }

  runtime::Communicator& comm_;
  const AfdCase& input_;
  ops::AfdShape shape_;
  ops::AfdSignals signals_;
  ops::AfdPlace place_;
  std::vector<reference::AfdReceived> expected_;
  std::vector<std::vector<std::byte>> answers_;
  std::vector<std::vector<std::byte>> returned_;
  ops::A2eTables tables_;
};

}  // namespace

ops::AfdShape AfdCase::shape() const {
  const std::int64_t largest =
      std::max<std::int64_t>(1, sizes.batches.empty() ? 1 : *std::ranges::max_element(sizes.batches));
  return {.ranks = ops::Assignment::of(sizes.experts, static_cast<std::int32_t>(sizes.batches.size())).value(),
          .max_batch = sizes.max_batch == 0 ? largest : sizes.max_batch,
          .hidden = sizes.hidden,
          .topk = sizes.topk,
          .dtype = sizes.dtype,
          .quant = sizes.quant,
          .compute_gate = sizes.gate,
          .published = {.half = Bytes{1U << 20}, .flags = Bytes{4096}}};
}

std::string AfdCase::describe() const {
  std::string text =
      fmt::format("seed {} E {} H {} K {} {} quant {} gate {} summed {} batches", seed, sizes.experts, sizes.hidden,
                  sizes.topk, name_of(sizes.dtype), name_of(sizes.quant), sizes.gate, sizes.summed);
  for (const std::int64_t batch : sizes.batches) text += fmt::format(" {}", batch);
  return text;
}

AfdCase make_afd_case(std::uint64_t seed, const AfdSizes& sizes) {
  std::mt19937_64 random(seed);
  AfdCase input{.seed = seed, .sizes = sizes, .problem = {}};
  input.problem = {.experts = sizes.experts,
                   .hidden = sizes.hidden,
                   .topk = sizes.topk,
                   .dtype = sizes.dtype,
                   .int8 = sizes.quant == ops::Quant::int8,
                   .gate = sizes.gate,
                   .attention = {}};
  const auto percent = [&](int of) { return static_cast<int>(random() % 100) < of; };
  for (const std::int64_t rows : sizes.batches) {
    reference::AfdBatch& batch = input.problem.attention.emplace_back();
    batch.x = drawn_rows(random, sizes.dtype, rows * sizes.hidden);
    for (std::int64_t pair = 0; sizes.gate && pair < rows * sizes.topk; ++pair) {
      batch.expert_ids.push_back(percent(sizes.dropped_percent) ? -1 : static_cast<std::int32_t>(random() % 64));
      batch.scales.push_back(static_cast<float>(1 + random() % 1000) / 1000.0F);
    }
    for (std::int64_t row = 0; sizes.inactive_percent > 0 && row < rows; ++row) {
      batch.active_mask.push_back(percent(sizes.inactive_percent) ? 0 : 1);
    }
  }
  return input;
}

std::vector<std::vector<std::byte>> afd_answers(const AfdCase& input) {
  std::mt19937_64 random(input.seed + 1);
  std::vector<std::vector<std::byte>> answers;
  for (const reference::AfdReceived& expert : reference::received(input.problem)) {
    const std::int64_t a_row = input.sizes.summed ? input.sizes.topk : 1;
    answers.push_back(
        drawn_rows(random, input.sizes.dtype, std::ssize(expert.x_active_mask) * a_row * input.sizes.hidden));
    std::vector<std::byte>& own = answers.back();
    if (!own.empty()) reference::store(input.sizes.dtype, own, 0, -0.0F);  // a sum of nothing else is +0
  }
  return answers;
}

runtime::Config afd_config(const AfdCase& input, const AfdSetup& setup) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = setup.cores;
  config.views = setup.views;
  config.weak_seed = setup.weak_seed;
  config.profile = setup.profile;
  config.heap = Bytes{ops::afd_window_bytes(input.shape(), setup.profile).value() + (2U << 20)};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); };
  return config;
}

ops::A2eArgs a2e_args(const AfdCase& input, const ops::AfdPlace& place, Rank rank, std::span<std::byte> expand_x) {
  if (place.shape.ranks.is_expert(rank)) return {.place = place, .expand_x = expand_x};
  const reference::AfdBatch& batch =
      input.problem.attention[rank.index() - static_cast<std::size_t>(input.sizes.experts)];
  return {.place = place,
          .x = batch.x,
          .expert_ids = batch.expert_ids,
          .scales = batch.scales,
          .active_mask = batch.active_mask};
}

ops::E2aArgs e2a_args(const AfdCase& input, const ops::AfdPlace& place, const ops::A2eTables& tables, Rank rank,
                      std::span<const std::byte> answers, std::span<std::byte> x) {
  ops::E2aArgs args{
      .place = place, .a2e = tables, .kind = input.sizes.summed ? ops::Answers::one_each_k : ops::Answers::one};
  if (place.shape.ranks.is_expert(rank)) {
    args.answers = answers;
  } else {
    args.x = x;
  }
  return args;
}

std::string run_afd(const AfdCase& input, const AfdSetup& setup) {
  std::vector<std::string> found(static_cast<std::size_t>(input.ranks()), "not run");
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    std::string& text = found[comm.rank().index()];
    const Result<Offset> window = comm.allocate(ops::afd_window_bytes(input.shape(), setup.profile));
    if (!window) return window.error();
    AfdRank rank(comm, input, *window);
    text.clear();
    if (setup.before) setup.before(comm);
    for (int call = 1; call <= setup.calls && text.empty(); ++call) {
      Result<std::string> done = rank.call(!setup.only_a2e || call == setup.calls);
      if (!done) return std::move(done).error();
      if (!done->empty()) text = fmt::format("{}: rank {}, call {}: {}", input.describe(), comm.rank(), call, *done);
    }
    return comm.barrier();
  };
  const Result<void> done =
      runtime::World::run_as_threads(input.ranks(), afd_config(input, setup), body, setup.decorate);
  if (!done) return input.describe() + ": " + to_string(done.error());
  return first_difference(found);
}

}  // namespace shmoe::test
