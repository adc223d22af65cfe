#include "apps/check/ep_problem.hpp"

#include <span>

namespace shmoe::apps {
namespace {

namespace reference = ops::reference;

constexpr std::int64_t kMostTokens = 4;

std::span<const std::byte> row_of(const std::vector<std::byte>& rows, std::int64_t row) {
  return std::span{rows}.subspan(static_cast<std::size_t>(row) * kCheckedRow, kCheckedRow);
}

/// Small whole numbers, exact in every element type; rows differ from each other and from those of other rounds.
std::vector<std::byte> payload(std::int64_t round, std::int64_t rank, const reference::Input& input,
                               std::int64_t ranks) {
  std::vector<std::byte> x(static_cast<std::size_t>(input.tokens) * kCheckedRow);
  for (std::int64_t token = 0; token < input.tokens; ++token) {
    const auto row = std::span{x}.subspan(static_cast<std::size_t>(token) * kCheckedRow, kCheckedRow);
    const std::int64_t number = ((round * ranks + rank) * kMostTokens + token) % 63;
    for (std::int64_t j = 0; j < kCheckedHidden; ++j) {
      reference::store(kCheckedType, row, j, static_cast<float>(1 + 4 * number + j % 4));
    }
  }
  return x;
}

/// Who is asked, and how many tokens ask.
struct Draw {
  std::int64_t round;
  std::int64_t rank;
  std::int64_t ranks;
  std::int32_t experts;
  Load load;

  [[nodiscard]] std::int64_t tokens() const {
    if (load == Load::even) return 2;
    return round % 3 == 0 && rank == 0 ? kMostTokens : (rank + round) % 3;
  }
  [[nodiscard]] std::int64_t expert(std::int64_t token) const {
    if (load == Load::even)
      return round % 2 == 1 && token == 1 && rank == 0 ? -1 : (rank + 1 + token + round) % experts;
    // One expert for neighbouring tokens; in every third round the first expert of the last rank that owns any.
    return round % 3 == 1 ? experts - 1 : (token / 2 + rank) % experts;
  }
};

reference::Input input_of(const Draw& draw) {
  reference::Input input{.tokens = draw.tokens(), .topk_idx = {}, .weights = {}};
  for (std::int64_t token = 0; token < input.tokens; ++token) {
    input.topk_idx.push_back(draw.expert(token));
    input.weights.push_back(0.5F + static_cast<float>(token));
  }
  return input;
}

/// A token as its expert gets it, and as dispatch sends it.
struct Sent {
  std::vector<std::byte> row, opened;
  float scale = 0;
};

Sent sent_row(std::span<const std::byte> x, ops::Quant quant) {
  if (quant == ops::Quant::none) return {.row = {x.begin(), x.end()}, .opened = {x.begin(), x.end()}};
  const reference::Quantised made = reference::quantise(kCheckedType, x);
  const auto bytes = std::as_bytes(std::span{made.q});
  Sent sent{.row = {bytes.begin(), bytes.end()}, .opened = std::vector<std::byte>(kCheckedRow), .scale = made.scale};
  for (std::int64_t j = 0; j < kCheckedHidden; ++j) {
    const auto number = static_cast<float>(made.q[static_cast<std::size_t>(j)]);
    reference::store(kCheckedType, sent.opened, j, number * made.scale);
  }
  return sent;
}

void fill_row(EpRound& round, std::size_t rank, const reference::Origin& origin, ops::Quant quant) {
  const Sent sent = sent_row(row_of(round.x[static_cast<std::size_t>(origin.source)], origin.token), quant);
  std::vector<std::byte> answer(kCheckedRow);
  for (std::int64_t j = 0; j < kCheckedHidden; ++j) {
    const float value = reference::load(kCheckedType, sent.opened, j) + static_cast<float>(1 + origin.expert);
    reference::store(kCheckedType, answer, j, value);
  }
  std::byte gradient[kCheckedElement];
  const float first = reference::load(kCheckedType, sent.opened, 0);
  reference::store(kCheckedType, gradient, 0, first + static_cast<float>(3 * origin.expert));
  const auto append = [](std::vector<std::byte>& to, std::span<const std::byte> from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(round.received[rank], sent.row);
  append(round.answers[rank], answer);
  append(round.prob_grad[rank], gradient);
  round.scales[rank].push_back(sent.scale);
}

/// Nothing is sent to it, and nobody looks at it.
void fill_padding(EpRound& round, std::size_t rank, ops::Quant quant) {
  std::vector<std::byte>& received = round.received[rank];
  received.resize(received.size() + ops::row_bytes(kCheckedType, kCheckedHidden, quant));
  round.answers[rank].resize(round.answers[rank].size() + kCheckedRow);
  round.prob_grad[rank].resize(round.prob_grad[rank].size() + kCheckedElement);
  round.scales[rank].push_back(0);
}

void solve(EpRound& round, const reference::Problem& problem, std::int32_t ranks, ops::Quant quant) {
  round.answer = reference::solve(problem);
  const auto count = static_cast<std::size_t>(ranks);
  round.received.resize(count);
  round.scales.resize(count);
  round.answers.resize(count);
  round.prob_grad.resize(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    for (const reference::Origin& origin : round.answer.rows[rank]) {
      origin.padding() ? fill_padding(round, rank, quant) : fill_row(round, rank, origin, quant);
    }
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    round.combined.push_back(reference::combine(problem, round.answer, rank, kCheckedType, kCheckedHidden,
                                                [&](std::int64_t owner, std::int64_t row) {
                                                  return row_of(round.answers[static_cast<std::size_t>(owner)], row);
                                                }));
    round.grad_out.push_back(
        reference::gather(problem, round.answer, rank, kCheckedElement, [&](std::int64_t owner, std::int64_t row) {
          return std::span<const std::byte>{round.prob_grad[static_cast<std::size_t>(owner)]}.subspan(
              static_cast<std::size_t>(row) * kCheckedElement, kCheckedElement);
        }));
  }
}

}  // namespace

EpProblem make_ep_problem(const runtime::check::Setting& setting, Load load, Tables tables, const Extras& extras) {
  const std::int32_t experts = setting.ranks + 1;  // not divisible: one rank owns two, the last maybe none
  EpProblem all{.experts = ops::ExpertMap::even(experts, setting.ranks), .extras = extras, .rounds = {}};
  for (std::int64_t number = 0; number < setting.rounds; ++number) {
    EpRound round;
    reference::Problem problem{
        .experts = experts, .topk = kCheckedTopk, .owner = {}, .ranks = {}, .alignment = extras.alignment};
    for (Expert expert{0}; expert.value() < experts; ++expert) {
      problem.owner.push_back(all.experts.owner(expert).value());
    }
    const std::int64_t drawn = tables == Tables::new_every_round ? number : 0;
    for (std::int64_t rank = 0; rank < setting.ranks; ++rank) {
      problem.ranks.push_back(input_of({drawn, rank, setting.ranks, experts, load}));
      const reference::Input& input = problem.ranks.back();
      round.routing.emplace_back(kCheckedTopk, input.topk_idx, input.weights);
      round.x.push_back(payload(number, rank, input, setting.ranks));
    }
    solve(round, problem, setting.ranks, extras.quant);
    all.rounds.push_back(std::move(round));
  }
  return all;
}

}  // namespace shmoe::apps
