// The operators of tokens through C, compared to the byte with the sequential references that those of C++ are held to.

#include <map>
#include <mutex>

#include "tests/capi/support.hpp"
#include "tests/ops/ep_case.hpp"
#include "tests/ops/low_latency_fixture.hpp"

using namespace shmoe;
using namespace shmoe::capi_test;

namespace {

/// What a rank of a step has come to.
struct Seen {
  std::vector<std::byte> received, scales, combined, gradients;
  std::vector<std::int64_t> counts;
};

struct Step {
  const test::EpCase& input;
  const test::Expected& expected;
  std::size_t rank;

  [[nodiscard]] shmoe_ep_shape shape(const std::vector<std::int32_t>& owners) const {
    return {.size = sizeof(shmoe_ep_shape),
            .experts = static_cast<std::int32_t>(input.problem.experts),
            .topk = static_cast<std::int32_t>(input.problem.topk),
            .hidden = input.hidden,
            .type = static_cast<std::int32_t>(input.dtype),
            .quant = static_cast<std::int32_t>(input.quant),
            .owners = owners.data(),
            .expert_alignment = 0,
            .group_list = SHMOE_GROUPS_COUNTED};
  }

  /// Each expert's answers, where combine looks for them.
  void run_experts(const shmoe_rows& rows, const Seen& seen) const {
    std::size_t row = 0;
    for (std::int32_t group = 0; group < rows.groups; ++group) {
      for (std::int64_t i = 0; i < rows.rows_of_expert[group]; ++i, ++row) {
        const auto sent = std::span{seen.received}.subspan(row * input.sent_row_bytes(), input.sent_row_bytes());
        const auto scale =
            seen.scales.empty() ? std::span<const std::byte>{} : std::span{seen.scales}.subspan(row * 4, 4);
        const std::span answer(static_cast<std::byte*>(rows.answers) + row * input.row_bytes(), input.row_bytes());
        test::apply_expert(input.dtype, rows.experts[group], test::opened(input, sent, scale), answer);
      }
    }
  }

  shmoe_status run(RankOfTest& own, shmoe_ep* ep, Seen& seen) const {
    const ops::reference::Input& mine = input.problem.ranks[rank];
    const std::vector<std::byte> x = input.tokens_of(own.rank);
    well(shmoe_ep_layout(ep, mine.topk_idx.data(), mine.weights.empty() ? nullptr : mine.weights.data(), mine.tokens));
    well(shmoe_ep_notify(ep));
    std::vector<std::int64_t> cost(input.problem.ranks.size(), 0);
    const shmoe_ep_dispatch_args sent = {
        .size = sizeof sent, .x = x.data(), .x_bytes = x.size(), .wait_cost = cost.data()};
    well(shmoe_ep_dispatch(ep, &sent));
    shmoe_rows rows = {.size = sizeof rows};
    well(shmoe_ep_rows(ep, &rows));
    const auto count = static_cast<std::size_t>(rows.rows);
    seen.received = copy_of(rows.x, count * input.sent_row_bytes());
    seen.scales = copy_of(rows.scales, rows.scales == nullptr ? 0 : count * 4);
    seen.counts.assign(rows.rows_of_expert, rows.rows_of_expert + rows.groups);
    run_experts(rows, seen);
    return combine(own, ep, rows, x.size(), seen);
  }

  shmoe_status combine(RankOfTest& own, shmoe_ep* ep, const shmoe_rows& rows, std::size_t size, Seen& seen) const {
    std::uint64_t gradients = 0;
    well(shmoe_memory_allocate(own.all, static_cast<std::uint64_t>(rows.capacity) * 4 + 64, &gradients));
    void* place = nullptr;
    const std::vector<std::byte> given = input.prob_grad_of(own.rank, rows.rows);
    well(shmoe_memory_local(own.all, gradients, given.size(), &place));
    std::ranges::copy(given, static_cast<std::byte*>(place));
    seen.combined.assign(size, test::kNoNumber);
    seen.gradients.assign(input.problem.ranks[rank].topk_idx.size() * input.element_bytes(), test::kNoNumber);
    const shmoe_ep_combine_args summed = {.size = sizeof summed,
                                          .x = seen.combined.data(),
                                          .x_bytes = size,
                                          .wait_cost = nullptr,
                                          .prob_grad = &gradients,
                                          .grad_out = seen.gradients.data(),
                                          .grad_out_bytes = seen.gradients.size()};
    return shmoe_ep_combine(ep, &summed);
  }
};

void check_step(const Step& step, const Seen& seen) {
  const test::Expected& expected = step.expected;
  CHECK(seen.received == expected.received[step.rank]);
  CHECK(seen.scales == expected.scales[step.rank]);
  CHECK(seen.counts == expected.answer.recv_tokens_per_expert[step.rank]);
  CHECK(seen.combined == expected.combined[step.rank]);
  CHECK(seen.gradients == expected.gradients[step.rank]);
}

}  // namespace

TEST_CASE("layout, notify, dispatch and combine give what the reference says") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const ops::Quant quant : {ops::Quant::none, ops::Quant::int8}) {
      test::EpCase input = test::make_case(41, {.experts = 7,
                                                .topk = 3,
                                                .hidden = 37,
                                                .dtype = dtype,
                                                .tokens = {9, 0, 14},
                                                .dropped_percent = 20,
                                                .own_map = true,
                                                .quant = quant,
                                                .gradients = true});
      const test::Expected expected = test::expect(input);
      const std::vector<std::int32_t> owners(input.problem.owner.begin(), input.problem.owner.end());
      INFO(input.describe());
      well(on_ranks(input.ranks(), 0, [&](RankOfTest& own) {
        const Step step{input, expected, static_cast<std::size_t>(own.rank)};
        const shmoe_ep_shape shape = step.shape(owners);
        shmoe_ep* ep = nullptr;
        well(shmoe_ep_create(own.all, &shape, &ep));
        for (int turn = 0; turn < 3; ++turn) {
          Seen seen;
          well(step.run(own, ep, seen));
          check_step(step, seen);
        }
        well(shmoe_communicator_barrier(own.all));
        return shmoe_ep_destroy(ep);
      }));
    }
  }
}

TEST_CASE("what is wrong with the tensor of one rank all ranks are told alike, and can go on") {
  std::mutex mutex;
  std::map<std::int32_t, std::string> told;
  well(on_ranks(2, 0, [&](RankOfTest& own) {
    const shmoe_ep_shape shape = {.size = sizeof shape, .experts = 2, .topk = 1, .hidden = 2, .type = SHMOE_FP32};
    shmoe_ep* ep = nullptr;
    well(shmoe_ep_create(own.all, &shape, &ep));
    const std::int64_t expert = 1 - own.rank;
    well(shmoe_ep_layout(ep, &expert, nullptr, 1));
    well(shmoe_ep_notify(ep));
    const float x[] = {1, 2};
    shmoe_ep_dispatch_args sent = {.size = sizeof sent, .x = own.rank == 1 ? nullptr : x, .x_bytes = sizeof x};
    CHECK(shmoe_ep_dispatch(ep, &sent) == SHMOE_INVALID_ARGUMENT);
    {
      const std::lock_guard lock(mutex);
      told[own.rank] = shmoe_last_error();
    }
    sent.x = x;
    well(shmoe_ep_dispatch(ep, &sent));
    well(shmoe_communicator_barrier(own.all));
    return shmoe_ep_destroy(ep);
  }));
  CHECK(told[0] == told[1]);
  CHECK(told[0].starts_with("invalid argument: shmoe_ep_dispatch: dispatch_normal: rank 1: "));
}

TEST_CASE("low latency, whole and in halves with two calls in flight") {
  for (const std::uint64_t seed : {3U, 4U, 5U, 6U}) {
    const test::LowLatencyCase input = test::draw_low_latency(seed, 3);
    const test::LowLatencyExpected expected = test::expect(input);
    INFO(input.describe());
    const test::EpCase& base = input.base;
    well(on_ranks(3, SHMOE_USES_LOW_LATENCY, [&](RankOfTest& own) {
      const auto me = static_cast<std::size_t>(own.rank);
      const ops::reference::Input& mine = base.problem.ranks[me];
      const ops::Routing routing = base.routing_of(own.rank);
      const std::vector<std::int32_t> owners(base.problem.owner.begin(), base.problem.owner.end());
      const std::vector<std::byte> x = base.tokens_of(own.rank);
      const shmoe_ll_shape shape = {.size = sizeof shape,
                                    .experts = static_cast<std::int32_t>(base.problem.experts),
                                    .topk = static_cast<std::int32_t>(base.problem.topk),
                                    .hidden = base.hidden,
                                    .type = static_cast<std::int32_t>(base.dtype),
                                    .quant = static_cast<std::int32_t>(base.quant),
                                    .owners = owners.data(),
                                    .most_tokens = 0,
                                    .capacity = std::max<std::int64_t>(expected.answer.total_recv_tokens, 1),
                                    .shared_experts = input.shared.experts,
                                    .shared_ranks = input.shared.ranks,
                                    .group_list = static_cast<std::int32_t>(input.expert_token_nums)};
      shmoe_ll* ll = nullptr;
      well(shmoe_ll_create(own.all, &shape, &ll));
      const std::vector<std::uint8_t> mask = input.mask.empty() ? std::vector<std::uint8_t>{} : input.mask[me];
      const float static_scale = input.static_scale.value_or(0);
      const shmoe_ll_dispatch_args sent = {.size = sizeof sent,
                                           .tokens = mine.tokens,
                                           .x = x.data(),
                                           .x_bytes = x.size(),
                                           .expert_ids = routing.topk_idx_i32().data(),
                                           .active_mask = mask.empty() ? nullptr : mask.data(),
                                           .active_mask_count = mask.size(),
                                           .scales = input.scales.empty() ? nullptr : input.scales.data(),
                                           .static_scale = input.static_scale ? &static_scale : nullptr};
      const std::vector<std::byte> shared_x =
          input.adds_shared_x ? input.shared_x_of(own.rank) : std::vector<std::byte>{};
      std::vector<std::byte> y(x.size());
      const shmoe_ll_combine_args summed = {.size = sizeof summed,
                                            .x = y.data(),
                                            .x_bytes = y.size(),
                                            .expert_scales = mine.weights.empty() ? nullptr : mine.weights.data(),
                                            .ori_x = input.copies_answers ? expected.answers[me].data() : nullptr,
                                            .ori_x_bytes = input.copies_answers ? expected.answers[me].size() : 0,
                                            .shared_expert_x = shared_x.empty() ? nullptr : shared_x.data(),
                                            .shared_expert_x_bytes = shared_x.size()};
      const auto check_rows = [&](std::int32_t half) {
        shmoe_rows rows = {.size = sizeof rows};
        well(shmoe_ll_rows(ll, half, &rows));
        const auto count = static_cast<std::size_t>(rows.rows);
        CHECK(copy_of(rows.x, count * base.sent_row_bytes()) == expected.received[me]);
        CHECK(copy_of(rows.scales, rows.scales == nullptr ? 0 : count * 4) == expected.scales[me]);
        if (!input.copies_answers) std::ranges::copy(expected.answers[me], static_cast<std::byte*>(rows.answers));
      };
      const auto check_sums = [&] {
        CHECK(y == expected.combined[me]);
        std::ranges::fill(y, test::kNoNumber);
      };

      std::int32_t half = -1;
      well(shmoe_ll_dispatch(ll, &sent, &half));
      CHECK(half == 0);
      check_rows(half);
      well(shmoe_ll_combine(ll, half, &summed));
      check_sums();

      std::int32_t first = -1;
      std::int32_t second = -1;
      well(shmoe_ll_dispatch_begin(ll, &sent, &first));
      well(shmoe_ll_dispatch_begin(ll, &sent, &second));
      CHECK(first == 1);
      CHECK(second == 0);
      for (const std::int32_t each : {first, second}) {
        well(shmoe_ll_dispatch_finish(ll, each));
        check_rows(each);
      }
      for (const std::int32_t each : {first, second}) {
        well(shmoe_ll_combine_begin(ll, each, &summed));
        well(shmoe_ll_combine_finish(ll, each));
        check_sums();
      }
      well(shmoe_communicator_barrier(own.all));
      return shmoe_ll_destroy(ll);
    }));
  }
}
