#pragma once
// The input of all ranks for one step of the normal path, and what must come of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/quant.hpp"
#include "ops/ep/reference.hpp"
#include "ops/ep/routing.hpp"

namespace shmoe::test {

/// What no operator may leave or touch.
inline constexpr std::byte kCanary{0xA5};
/// What outputs hold before: of every type no number, so that whoever adds to it is found out.
inline constexpr std::byte kNoNumber{0xFF};

/// The input of all ranks for one step. Payloads follow from the seed.
struct EpCase {
  std::uint64_t seed = 1;
  DType dtype = DType::bf16;
  std::int64_t hidden = 1;
  ops::Quant quant = ops::Quant::none;
  ops::GroupList group_list = ops::GroupList::counts;
  bool gradients = false;
  std::vector<std::int64_t> payload_of = {};  // token t of each rank holds what token payload_of[t] would; none: itself
  ops::reference::Problem problem;

  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(problem.ranks.size()); }
  [[nodiscard]] std::size_t row_bytes() const {
    return static_cast<std::size_t>(hidden) * (dtype == DType::fp32 ? 4 : 2);
  }
  /// Of a row of recv_x.
  [[nodiscard]] std::size_t sent_row_bytes() const {
    return quant == ops::Quant::int8 ? static_cast<std::size_t>(hidden) : row_bytes();
  }
  [[nodiscard]] std::size_t element_bytes() const { return dtype == DType::fp32 ? 4 : 2; }
  [[nodiscard]] ops::ExpertMap experts() const;
  [[nodiscard]] std::vector<std::byte> tokens_of(std::int64_t rank) const;
  [[nodiscard]] ops::Routing routing_of(std::int64_t rank) const;
  /// [rows, 1] of dtype: what stands in a rank's prob_grad.
  [[nodiscard]] std::vector<std::byte> prob_grad_of(std::int64_t rank, std::int64_t rows) const;
  /// Seed and shape, to repeat it.
  [[nodiscard]] std::string describe() const;
};

struct Shape {
  std::int32_t experts = 16;
  std::int32_t topk = 2;
  std::int64_t hidden = 64;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> tokens = {5, 5, 5, 5};  // of each rank
  int dropped_percent = 0;
  bool weights = true;
  bool own_map = false;  // an owner table drawn at random instead of the even split
  ops::Quant quant = ops::Quant::none;
  std::int64_t alignment = 1;
  ops::GroupList group_list = ops::GroupList::counts;
  bool gradients = false;
};

/// Draws ids and weights; `choose` overrules the ids.
using Choose = std::function<std::int64_t(std::int64_t rank, std::int64_t token, std::int64_t k)>;
EpCase make_case(std::uint64_t seed, const Shape& shape, const Choose& choose = {});

/// Another batch of the same tokens: token t of each rank is what token order[t] of it was.
EpCase rebatched(const EpCase& input, const std::vector<std::int64_t>& order);

/// y = x * (expert + 1), rounded to the row's type: exact, and so different for each expert, in fp32.
void apply_expert(DType dtype, std::int64_t expert, std::span<const std::byte> x, std::span<std::byte> y);

/// A received row as the expert computes with it.
std::vector<std::byte> opened(const EpCase& input, std::span<const std::byte> row, std::span<const std::byte> scale);

/// What each rank must end with.
struct Expected {
  ops::reference::Answer answer;
  std::vector<std::vector<std::byte>> received;  // rows of each rank, the canary in padding
  std::vector<std::vector<std::byte>> scales;    // of each row, where rows are int8; the canary in padding
  std::vector<std::vector<std::byte>> combined;
  std::vector<std::vector<std::byte>> gradients;  // of each pair, where asked for
};
Expected expect(const EpCase& input);

}  // namespace shmoe::test
