#include "tests/ops/ep_case.hpp"

#include <algorithm>
#include <utility>

#include "shmem/result.hpp"

namespace shmoe::test {

namespace reference = ops::reference;

namespace {

std::uint64_t scrambled(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58'476D'1CE4'E5B9U;
  value = (value ^ (value >> 27)) * 0x94D0'49BB'1331'11EBU;
  return value ^ (value >> 31);
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
    const std::int64_t named = payload_of.empty() ? t : payload_of[static_cast<std::size_t>(t)];
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto place = (static_cast<std::uint64_t>(rank) << 40) ^ (static_cast<std::uint64_t>(named) << 20) ^
                         static_cast<std::uint64_t>(j);
      const auto number = static_cast<float>(static_cast<int>(scrambled(seed * 0x9E37'79B9U + place) % 2001) - 1000);
      reference::store(dtype, row, j, number / 64.0F);
    }
  }
  return x;
}

std::vector<std::byte> EpCase::prob_grad_of(std::int64_t rank, std::int64_t rows) const {
  std::vector<std::byte> elements(static_cast<std::size_t>(rows) * element_bytes());
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto place = (static_cast<std::uint64_t>(rank) << 32) ^ static_cast<std::uint64_t>(row);
    const auto number = static_cast<float>(static_cast<int>(scrambled(seed * 0x9E37'79B9U + ~place) % 2001) - 1000);
    reference::store(dtype, elements, row, number / 64.0F);
  }
  return elements;
}

ops::Routing EpCase::routing_of(std::int64_t rank) const {
  const reference::Input& input = problem.ranks[static_cast<std::size_t>(rank)];
  return {problem.topk, input.topk_idx, input.weights};
}

std::string EpCase::describe() const {
  std::string tokens;
  for (const reference::Input& input : problem.ranks) tokens += fmt::format(" {}", input.tokens);
  return fmt::format("seed {} R {} E {} K {} H {} {} quant {} alignment {} gradients {} T{}", seed, ranks(),
                     problem.experts, problem.topk, hidden, name_of(dtype), name_of(quant), problem.alignment,
                     gradients, tokens);
}

EpCase make_case(std::uint64_t seed, const Shape& shape, const Choose& choose) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  EpCase input{.seed = seed,
               .dtype = shape.dtype,
               .hidden = shape.hidden,
               .quant = shape.quant,
               .group_list = shape.group_list,
               .gradients = shape.gradients,
               .problem = {}};
  reference::Problem& problem = input.problem;
  problem.alignment = shape.alignment;
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

EpCase rebatched(const EpCase& input, const std::vector<std::int64_t>& order) {
  EpCase batch = input;
  batch.payload_of = order;
  const auto topk = static_cast<std::size_t>(input.problem.topk);
  for (reference::Input& own : batch.problem.ranks) {
    const reference::Input before = std::exchange(own, {.tokens = std::ssize(order), .topk_idx = {}, .weights = {}});
    for (std::size_t pair = 0; pair < order.size() * topk; ++pair) {
      const std::size_t from = static_cast<std::size_t>(order[pair / topk]) * topk + pair % topk;
      own.topk_idx.push_back(before.topk_idx[from]);
      own.weights.push_back(before.weights[from]);
    }
  }
  return batch;
}

void apply_expert(DType dtype, std::int64_t expert, std::span<const std::byte> x, std::span<std::byte> y) {
  const auto elements = static_cast<std::int64_t>(x.size()) / (dtype == DType::fp32 ? 4 : 2);
  const auto factor = static_cast<float>(expert + 1);
  for (std::int64_t j = 0; j < elements; ++j) reference::store(dtype, y, j, reference::load(dtype, x, j) * factor);
}

std::vector<std::byte> opened(const EpCase& input, std::span<const std::byte> row, std::span<const std::byte> scale) {
  if (input.quant == ops::Quant::none) return {row.begin(), row.end()};
  std::vector<std::byte> x(input.row_bytes());
  for (std::int64_t j = 0; j < input.hidden; ++j) {
    const auto number = static_cast<float>(static_cast<std::int8_t>(row[static_cast<std::size_t>(j)]));
    reference::store(input.dtype, x, j, number * reference::load(DType::fp32, scale, 0));
  }
  return x;
}

namespace {

/// What stands in the buffers of the owner of these rows.
struct Filled {
  std::vector<std::byte> received, scales, answers;
};

Filled filled(const EpCase& input, const std::vector<reference::Origin>& rows,
              const std::vector<std::vector<std::byte>>& tokens) {
  const std::size_t row_size = input.row_bytes();
  const std::size_t sent_size = input.sent_row_bytes();
  Filled out{.received = std::vector<std::byte>(rows.size() * sent_size, kCanary),
             .scales = std::vector<std::byte>(input.quant == ops::Quant::int8 ? rows.size() * 4 : 0, kCanary),
             .answers = std::vector<std::byte>(rows.size() * row_size)};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].padding()) continue;
    const auto x = std::span<const std::byte>{tokens[static_cast<std::size_t>(rows[row].source)]}.subspan(
        static_cast<std::size_t>(rows[row].token) * row_size, row_size);
    const auto sent = std::span{out.received}.subspan(row * sent_size, sent_size);
    std::span<std::byte> scale;
    if (input.quant == ops::Quant::int8) {
      const reference::Quantised quantised = reference::quantise(input.dtype, x);
      scale = std::span{out.scales}.subspan(row * 4, 4);
      std::copy_n(std::as_bytes(std::span{quantised.q}).begin(), sent_size, sent.begin());
      reference::store(DType::fp32, scale, 0, quantised.scale);
    } else {
      std::copy(x.begin(), x.end(), sent.begin());
    }
    apply_expert(input.dtype, rows[row].expert, opened(input, sent, scale),
                 std::span{out.answers}.subspan(row * row_size, row_size));
  }
  return out;
}

}  // namespace

Expected expect(const EpCase& input) {
  Expected expected{
      .answer = reference::solve(input.problem), .received = {}, .scales = {}, .combined = {}, .gradients = {}};
  std::vector<std::vector<std::byte>> tokens;
  for (std::int64_t rank = 0; rank < input.ranks(); ++rank) tokens.push_back(input.tokens_of(rank));
  const std::size_t row_size = input.row_bytes();
  std::vector<std::vector<std::byte>> answers;
  std::vector<std::vector<std::byte>> prob_grads;
  for (const std::vector<reference::Origin>& rows : expected.answer.rows) {
    Filled buffers = filled(input, rows, tokens);
    expected.received.push_back(std::move(buffers.received));
    expected.scales.push_back(std::move(buffers.scales));
    answers.push_back(std::move(buffers.answers));
    prob_grads.push_back(input.prob_grad_of(std::ssize(prob_grads), std::ssize(rows)));
  }
  for (std::int64_t rank = 0; rank < input.ranks(); ++rank) {
    expected.combined.push_back(reference::combine(
        input.problem, expected.answer, rank, input.dtype, input.hidden, [&](std::int64_t owner, std::int64_t row) {
          return std::span<const std::byte>{answers[static_cast<std::size_t>(owner)]}.subspan(
              static_cast<std::size_t>(row) * row_size, row_size);
        }));
    const std::size_t element = input.element_bytes();
    const auto grad = [&](std::int64_t owner, std::int64_t row) {
      return std::span<const std::byte>{prob_grads[static_cast<std::size_t>(owner)]}.subspan(
          static_cast<std::size_t>(row) * element, element);
    };
    expected.gradients.emplace_back();
    if (input.gradients) {
      expected.gradients.back() = reference::gather(input.problem, expected.answer, rank, element, grad);
    }
  }
  return expected;
}

}  // namespace shmoe::test
