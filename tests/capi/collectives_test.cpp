// The collectives, and a2e and e2a, through C, compared to the byte with the sequential references.

#include "ops/detour/reference.hpp"
#include "ops/ep/reference.hpp"
#include "tests/capi/support.hpp"
#include "tests/ops/afd_case.hpp"
#include "tests/ops/ep_case.hpp"

using namespace shmoe;
using namespace shmoe::capi_test;

namespace {

/// Small whole numbers, so that no sum is rounded away.
std::vector<std::byte> numbers_of(ops::Element type, std::int32_t rank, std::int64_t elements) {
  std::vector<std::byte> x(static_cast<std::size_t>(elements * ops::bytes_of_element(type)));
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t number = (i * 7 + rank * 3) % 50 - 20;
    if (type == ops::Element::int32) {
      reinterpret_cast<std::int32_t*>(x.data())[i] = static_cast<std::int32_t>(number);
      continue;
    }
    const DType dtype = type == ops::Element::bf16   ? DType::bf16
                        : type == ops::Element::fp16 ? DType::fp16
                                                     : DType::fp32;
    ops::reference::store(dtype, x, i, static_cast<float>(number));
  }
  return x;
}

struct Collective {
  std::int32_t number;  // in C
  ops::Element type;
  std::vector<std::int32_t> members;
};

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all = {{SHMOE_BF16, ops::Element::bf16, {}},
                                              {SHMOE_FP16, ops::Element::fp16, {2, 0}},
                                              {SHMOE_FP32, ops::Element::fp32, {1, 2}},
                                              {SHMOE_INT32, ops::Element::int32, {}}};
  return all;
}

constexpr std::int32_t kRanks = 3;
constexpr std::int64_t kElements = 101;

std::vector<std::int32_t> group_of(const Collective& collective) {
  return collective.members.empty() ? std::vector<std::int32_t>{0, 1, 2} : collective.members;
}

std::vector<std::vector<std::byte>> inputs_of(const Collective& collective) {
  std::vector<std::vector<std::byte>> inputs;
  for (const std::int32_t member : group_of(collective))
    inputs.push_back(numbers_of(collective.type, member, kElements));
  return inputs;
}

/// The place of a rank in the group; nothing where it only lends memory.
std::optional<std::size_t> position_of(const Collective& collective, std::int32_t rank) {
  const std::vector<std::int32_t> group = group_of(collective);
  const auto found = std::ranges::find(group, rank);
  if (found == group.end()) return std::nullopt;
  return static_cast<std::size_t>(found - group.begin());
}

}  // namespace

TEST_CASE("an all-to-all of all ranks and of some") {
  for (const Collective& collective : collectives()) {
    const auto expected = ops::all_to_all_reference(collective.type, inputs_of(collective));
    well(on_ranks(kRanks, 0, [&](RankOfTest& own) {
      shmoe_all_to_all_args args = {.size = sizeof args,
                                    .members = collective.members.empty() ? nullptr : collective.members.data(),
                                    .members_count = collective.members.size(),
                                    .type = collective.number,
                                    .elements = kElements};
      well(shmoe_window_allocate(own.all, &args.window, &args.window_bytes));
      CHECK(args.window_bytes == 1U << 20);
      const auto position = position_of(collective, own.rank);
      const std::vector<std::byte> x = numbers_of(collective.type, own.rank, kElements);
      std::vector<std::byte> y(position ? expected[*position].size() : 0);
      if (position) {
        args.x = x.data();
        args.x_bytes = x.size();
        args.y = y.data();
        args.y_bytes = y.size();
      }
      well(shmoe_all_to_all(own.all, &args));
      if (position) CHECK(y == expected[*position]);
      well(shmoe_communicator_barrier(own.all));
      return shmoe_memory_free(own.all, args.window);
    }));
  }
}

TEST_CASE("a reduce-scatter of all ranks and of some") {
  for (const Collective& collective : collectives()) {
    for (const std::int32_t reduction : {SHMOE_SUM, SHMOE_MAX, SHMOE_MIN}) {
      const auto expected =
          ops::reduce_scatter_reference(collective.type, static_cast<ops::Reduction>(reduction), inputs_of(collective));
      well(on_ranks(kRanks, 0, [&](RankOfTest& own) {
        shmoe_reduce_scatter_args args = {.size = sizeof args,
                                          .members = collective.members.empty() ? nullptr : collective.members.data(),
                                          .members_count = collective.members.size(),
                                          .type = collective.number,
                                          .reduction = reduction,
                                          .elements = kElements};
        well(shmoe_window_allocate(own.all, &args.window, &args.window_bytes));
        const auto position = position_of(collective, own.rank);
        const std::vector<std::byte> x = numbers_of(collective.type, own.rank, kElements);
        std::vector<std::byte> y(position ? expected[*position].size() : 0);
        if (position) {
          args.x = x.data();
          args.x_bytes = x.size();
          args.y = y.data();
          args.y_bytes = y.size();
        }
        const shmoe_status status = shmoe_reduce_scatter(own.all, &args);
        if (position) CHECK(y == expected[*position]);
        return status;
      }));
    }
  }
}

TEST_CASE("a collective with a number that names no choice") {
  well(on_ranks(1, 0, [](RankOfTest& own) {
    const shmoe_all_to_all_args moved = {.size = sizeof moved, .type = 4};
    refused(shmoe_all_to_all(own.all, &moved), SHMOE_INVALID_ARGUMENT, "args->type is 4: it goes from 0 to 3");
    const shmoe_reduce_scatter_args reduced = {.size = sizeof reduced, .reduction = 3};
    refused(shmoe_reduce_scatter(own.all, &reduced), SHMOE_INVALID_ARGUMENT,
            "args->reduction is 3: it goes from 0 to 2");
    const shmoe_all_to_all_args short_of = {.size = sizeof short_of, .type = SHMOE_FP32, .elements = 5};
    refused(shmoe_all_to_all(own.all, &short_of), SHMOE_INVALID_ARGUMENT, "shmoe_all_to_all: all_to_all_detour: ");
    return SHMOE_OK;
  }));
}

TEST_CASE("a2e and e2a give what the reference says") {
  for (const bool summed : {false, true}) {
    const test::AfdCase input = test::make_afd_case(
        17, {.experts = 2, .batches = {3, 0, 2}, .hidden = 24, .topk = 2, .inactive_percent = 20, .summed = summed});
    const auto received = ops::reference::received(input.problem);
    const auto answers = test::afd_answers(input);
    const auto returned = ops::reference::returned(input.problem, answers, summed);
    INFO(input.describe());
    well(on_ranks(input.ranks(), SHMOE_USES_AFD, [&](RankOfTest& own) {
      const ops::AfdShape wanted = input.shape();
      const shmoe_afd_shape shape = {.size = sizeof shape,
                                     .expert_ranks = input.sizes.experts,
                                     .attention_ranks = static_cast<std::int32_t>(input.sizes.batches.size()),
                                     .max_batch = wanted.max_batch,
                                     .hidden = wanted.hidden,
                                     .topk = wanted.topk,
                                     .type = static_cast<std::int32_t>(wanted.dtype)};
      shmoe_afd* afd = nullptr;
      well(shmoe_afd_create(own.all, &shape, &afd));
      const bool expert = own.rank < input.sizes.experts;
      const auto at = static_cast<std::size_t>(expert ? own.rank : own.rank - input.sizes.experts);
      std::vector<std::byte> rows(static_cast<std::size_t>(wanted.capacity(Rank{expert ? own.rank : 0})) *
                                  input.row_bytes());
      shmoe_a2e_args sent = {.size = sizeof sent};
      if (expert) {
        sent.expand_x = rows.data();
        sent.expand_x_bytes = rows.size();
      } else {
        const ops::reference::AfdBatch& batch = input.problem.attention[at];
        sent.tokens = input.sizes.batches[at];
        sent.x = batch.x.data();
        sent.x_bytes = batch.x.size();
        sent.expert_ids = batch.expert_ids.data();
        sent.scales = batch.scales.data();
        sent.active_mask = batch.active_mask.empty() ? nullptr : batch.active_mask.data();
      }
      well(shmoe_a2e(afd, &sent));
      shmoe_a2e_tables tables = {.size = sizeof tables};
      well(shmoe_afd_tables(afd, &tables));
      shmoe_e2a_args back = {.size = sizeof back, .kind = summed ? SHMOE_ANSWER_EACH_EXPERT : SHMOE_ANSWER_EACH_ROW};
      std::vector<std::byte> y;
      if (expert) {
        const ops::reference::AfdReceived& right = received[at];
        CHECK(std::vector(tables.batch_sizes, tables.batch_sizes + tables.batches) == right.atten_batch_size);
        CHECK(std::vector(tables.active_mask, tables.active_mask + tables.rows) == right.x_active_mask);
        CHECK(std::vector(tables.expert_ids, tables.expert_ids + tables.rows * shape.topk) == right.expert_ids);
        CHECK(std::vector(tables.expert_scales, tables.expert_scales + tables.rows * shape.topk) ==
              right.expert_scales);
        rows.resize(right.expand_x.size());
        CHECK(rows == right.expand_x);
        back.answers = answers[at].data();
        back.answers_bytes = answers[at].size();
      } else {
        CHECK(tables.rows == input.sizes.batches[at]);
        y.assign(returned[at].size(), test::kNoNumber);
        back.x = y.data();
        back.x_bytes = y.size();
      }
      well(shmoe_e2a(afd, &back));
      if (!expert) CHECK(y == returned[at]);
      well(shmoe_communicator_barrier(own.all));
      return shmoe_afd_destroy(afd);
    }));
  }
}
