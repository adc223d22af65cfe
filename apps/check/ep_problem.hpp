#pragma once
// A few tokens over a few rounds for the checker, and what must come out. New routing and new payload in every round, so
// that whatever is left over from the round before is wrong.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/quant.hpp"
#include "ops/ep/reference.hpp"
#include "ops/ep/routing.hpp"
#include "runtime/check/program.hpp"

namespace shmoe::apps {

inline constexpr std::int32_t kCheckedTopk = 1;
inline constexpr std::int64_t kCheckedHidden = 8;
inline constexpr DType kCheckedType = DType::bf16;
inline constexpr std::size_t kCheckedRow = 16;     // bytes
inline constexpr std::size_t kCheckedElement = 2;  // bytes

/// One round of all ranks.
struct EpRound {
  ops::reference::Answer answer;
  std::vector<ops::Routing> routing;              // of each rank
  std::vector<std::vector<std::byte>> x;          // [T, H] of each rank
  std::vector<std::vector<std::byte>> received;   // rows of each rank, bf16 or int8
  std::vector<std::vector<float>> scales;         // of each row, where they are int8
  std::vector<std::vector<std::byte>> answers;    // what the experts make of them
  std::vector<std::vector<std::byte>> prob_grad;  // the gradient of each row's weight
  std::vector<std::vector<std::byte>> combined;   // [T, H] of each rank
  std::vector<std::vector<std::byte>> grad_out;   // [T, K] of each rank
};

/// What the steps ask for beyond the plain way.
struct Extras {
  ops::Quant quant = ops::Quant::none;
  std::int64_t alignment = 1;
  bool gradients = false;
  bool wait_costs = false;
};

struct EpProblem {
  ops::ExpertMap experts;
  Extras extras;
  std::vector<EpRound> rounds;
};

/// even: two tokens on every rank, to experts by turns; the last token of rank 0 is dropped in every second round.
/// uneven: by turns rank 0 has most tokens, the last rank receives most rows, and the tokens of a core have one expert.
enum class Load : std::uint8_t { even, uneven };
enum class Tables : std::uint8_t { new_every_round, of_the_first_round };

/// The same for the same setting.
EpProblem make_ep_problem(const runtime::check::Setting& setting, Load load, Tables tables, const Extras& extras = {});

}  // namespace shmoe::apps
