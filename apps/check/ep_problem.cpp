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

void solve(EpRound& round, const reference::Problem& problem, std::int32_t ranks) {
  round.answer = reference::solve(problem);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    std::vector<std::byte> received;
    std::vector<std::byte> answers;
    for (const reference::Origin& origin : round.answer.rows[rank]) {
      const auto x = row_of(round.x[static_cast<std::size_t>(origin.source)], origin.token);
      received.insert(received.end(), x.begin(), x.end());
      std::vector<std::byte> answer(kCheckedRow);
      for (std::int64_t j = 0; j < kCheckedHidden; ++j) {
        const float value = reference::load(kCheckedType, x, j) + static_cast<float>(1 + origin.expert);
        reference::store(kCheckedType, answer, j, value);
      }
      answers.insert(answers.end(), answer.begin(), answer.end());
    }
    round.received.push_back(std::move(received));
    round.answers.push_back(std::move(answers));
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    round.combined.push_back(reference::combine(problem, round.answer, rank, kCheckedType, kCheckedHidden,
                                                [&](std::int64_t owner, std::int64_t row) {
                                                  return row_of(round.answers[static_cast<std::size_t>(owner)], row);
                                                }));
  }
}

}  // namespace

EpProblem make_ep_problem(const runtime::check::Setting& setting, Load load, Tables tables) {
  const std::int32_t experts = setting.ranks + 1;  // not divisible: one rank owns two, the last maybe none
  EpProblem all{.experts = ops::ExpertMap::even(experts, setting.ranks), .rounds = {}};
  for (std::int64_t number = 0; number < setting.rounds; ++number) {
    EpRound round;
    reference::Problem problem{.experts = experts, .topk = kCheckedTopk, .owner = {}, .ranks = {}};
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
    solve(round, problem, setting.ranks);
    all.rounds.push_back(std::move(round));
  }
  return all;
}

}  // namespace shmoe::apps
