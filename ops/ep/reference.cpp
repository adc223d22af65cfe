#include "ops/ep/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

namespace shmoe::ops::reference {

namespace {

/// The source of a row that comes from nowhere: after all others.
constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max();

void pad(const Problem& problem, std::vector<Origin>& list) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(problem.experts), 0);
  for (const Origin& row : list) ++rows.at(static_cast<std::size_t>(row.expert));
  for (std::int64_t expert = 0; expert < problem.experts; ++expert) {
    for (std::int64_t i = rows[static_cast<std::size_t>(expert)]; i % problem.alignment != 0; ++i) {
      list.push_back({expert, kNowhere, -1, -1});
    }
  }
}

std::vector<std::vector<Origin>> sorted_rows(const Problem& problem) {
  std::vector<std::vector<Origin>> rows(problem.ranks.size());
  for (std::size_t source = 0; source < problem.ranks.size(); ++source) {
    const Input& input = problem.ranks[source];
    for (std::int64_t t = 0; t < input.tokens; ++t) {
      for (std::int64_t k = 0; k < problem.topk; ++k) {
        const std::int64_t expert = input.topk_idx.at(static_cast<std::size_t>(t * problem.topk + k));
        if (expert == -1) continue;
        const auto owner = static_cast<std::size_t>(problem.owner.at(static_cast<std::size_t>(expert)));
        rows.at(owner).push_back({expert, static_cast<std::int64_t>(source), t, k});
      }
    }
  }
  for (std::vector<Origin>& list : rows) {
    pad(problem, list);
    std::sort(list.begin(), list.end(), [](const Origin& a, const Origin& b) {
      return std::tie(a.expert, a.source, a.token, a.k) < std::tie(b.expert, b.source, b.token, b.k);
    });
  }
  return rows;
}

/// First place at or after (expert, source) in its owner's list.
std::int64_t first_place(const std::vector<Origin>& list, std::int64_t expert, std::int64_t source) {
  const auto at = std::partition_point(list.begin(), list.end(), [&](const Origin& row) {
    return std::tie(row.expert, row.source) < std::tie(expert, source);
  });
  return at - list.begin();
}

void count_pairs(const Problem& problem, Answer& answer) {
  const std::size_t ranks = problem.ranks.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    const Input& input = problem.ranks[r];
    std::vector<std::int32_t> per_expert(static_cast<std::size_t>(problem.experts), 0);
    std::vector<std::int32_t> per_rank(ranks, 0);
    std::vector<std::int32_t> in_rank(static_cast<std::size_t>(input.tokens) * ranks, 0);
    for (std::size_t i = 0; i < input.topk_idx.size(); ++i) {
      const std::int64_t expert = input.topk_idx[i];
      if (expert == -1) continue;
      per_expert.at(static_cast<std::size_t>(expert)) += 1;
      const auto owner = static_cast<std::size_t>(problem.owner[static_cast<std::size_t>(expert)]);
      in_rank.at(i / static_cast<std::size_t>(problem.topk) * ranks + owner) = 1;
    }
    for (std::size_t i = 0; i < in_rank.size(); ++i) per_rank[i % ranks] += in_rank[i];
    answer.recv_data.insert(answer.recv_data.end(), per_expert.begin(), per_expert.end());
    const std::int64_t pairs =
        std::count_if(input.topk_idx.begin(), input.topk_idx.end(), [](std::int64_t expert) { return expert != -1; });
    answer.max_bs = std::max(answer.max_bs, pairs / problem.topk);
    answer.num_tokens_per_expert.push_back(std::move(per_expert));
    answer.num_tokens_per_rank.push_back(std::move(per_rank));
    answer.is_token_in_rank.push_back(std::move(in_rank));
  }
}

void place_rows(const Problem& problem, Answer& answer) {
  for (const Input& input : problem.ranks) {
    answer.row_of.emplace_back(input.topk_idx.size(), -1);
    answer.send_token_idx.emplace_back(input.topk_idx.size(), -1);
  }
  for (const std::vector<Origin>& list : answer.rows) {
    answer.total_recv_tokens = std::max(answer.total_recv_tokens, static_cast<std::int64_t>(list.size()));
    for (std::size_t row = 0; row < list.size(); ++row) {
      const Origin& from = list[row];
      if (from.padding()) continue;
      const auto source = static_cast<std::size_t>(from.source);
      const auto pair = static_cast<std::size_t>(from.token * problem.topk + from.k);
      const auto place = static_cast<std::int64_t>(row);
      answer.row_of[source][pair] = place;
      answer.send_token_idx[source][pair] =
          static_cast<std::int32_t>(place - first_place(list, from.expert, from.source));
    }
  }
}

/// Rounds to a format with `precision` significant bits and smallest normal exponent `lowest`; exact in double.
double rounded(double value, int precision, int lowest) {
  if (value == 0.0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int step = std::max(exponent - 1, lowest) - (precision - 1);
  return std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
}

/// Sign, exponent and fraction of a value that the format holds exactly.
std::uint16_t packed(double value, int precision, int lowest, std::uint16_t infinity) {
  const double magnitude = std::fabs(value);
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int scale = magnitude == 0.0 ? lowest : std::max(exponent - 1, lowest);
  const double units = std::ldexp(magnitude, precision - 1 - scale);
  const double above_lowest = std::ldexp(static_cast<double>(scale - lowest), precision - 1);
  const double bits = above_lowest + units;
  if (!(bits < static_cast<double>(infinity))) return static_cast<std::uint16_t>(sign | infinity);
  return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(bits));
}

std::uint16_t to_half_width(float value, int precision, int lowest, std::uint16_t infinity) {
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (infinity >> 1));
  if (std::isinf(value)) return static_cast<std::uint16_t>((std::signbit(value) ? 0x8000U : 0U) | infinity);
  return packed(rounded(static_cast<double>(value), precision, lowest), precision, lowest, infinity);
}

float from_fp16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
  if (exponent == 31) {
    magnitude = fraction > 0.0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

}  // namespace

Answer solve(const Problem& problem) {
  Answer answer = solve_places(problem);
  count_pairs(problem, answer);
  return answer;
}

Answer solve_places(const Problem& problem) {
  Answer answer;
  answer.rows = sorted_rows(problem);
  place_rows(problem, answer);
  const auto ranks = static_cast<std::int64_t>(problem.ranks.size());
  answer.recv_tokens_per_expert.resize(problem.ranks.size());
  answer.group_counts.resize(problem.ranks.size());
  answer.put_offset.reserve(static_cast<std::size_t>(problem.experts) * problem.ranks.size());
  for (std::int64_t expert = 0; expert < problem.experts; ++expert) {
    const auto owner = static_cast<std::size_t>(problem.owner.at(static_cast<std::size_t>(expert)));
    const std::vector<Origin>& list = answer.rows[owner];
    const std::int64_t first = first_place(list, expert, 0);
    auto row = list.begin() + first;
    for (std::int64_t source = 0; source < ranks; ++source) {
      while (row != list.end() && row->expert == expert && row->source < source) ++row;
      answer.put_offset.push_back(row - list.begin());
    }
    answer.recv_tokens_per_expert[owner].push_back(first_place(list, expert, kNowhere) - first);
    answer.group_counts[owner].push_back(first_place(list, expert + 1, 0) - first);
  }
  return answer;
}

Quantised quantise(DType dtype, std::span<const std::byte> x) {
  const std::int64_t columns = static_cast<std::int64_t>(x.size()) / (dtype == DType::fp32 ? 4 : 2);
  Quantised row{.q = std::vector<std::int8_t>(static_cast<std::size_t>(columns), 0), .scale = 0};
  float largest = 0;
  bool number = true;
  for (std::int64_t j = 0; j < columns; ++j) {
    const float value = load(dtype, x, j);
    number = number && !std::isnan(value);
    if (std::fabs(value) > largest) largest = std::fabs(value);
  }
  if (!number || std::isinf(largest)) {
    row.scale = number ? largest : std::numeric_limits<float>::quiet_NaN();
    return row;
  }
  const float divisor = largest + 1e-12F;
  const float mult = 127.0F / divisor;
  for (std::int64_t j = 0; j < columns; ++j) {
    const float product = load(dtype, x, j) * mult;
    const double below = std::floor(static_cast<double>(product));
    const double rest = static_cast<double>(product) - below;
    const bool odd = std::fmod(below, 2.0) != 0.0;
    const bool up = rest > 0.5 || (rest == 0.5 && odd);
    row.q[static_cast<std::size_t>(j)] = static_cast<std::int8_t>(up ? below + 1 : below);
  }
  row.scale = 1.0F / mult;
  return row;
}

float load(DType dtype, std::span<const std::byte> row, std::int64_t index) {
  if (dtype == DType::fp32) {
    float value = 0;
    std::memcpy(&value, row.data() + index * 4, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, row.data() + index * 2, 2);
  return dtype == DType::fp16 ? from_fp16(bits) : std::bit_cast<float>(std::uint32_t{bits} * 65536U);
}

void store(DType dtype, std::span<std::byte> row, std::int64_t index, float value) {
  if (dtype == DType::fp32) {
    std::memcpy(row.data() + index * 4, &value, 4);
    return;
  }
  const std::uint16_t bits =
      dtype == DType::fp16 ? to_half_width(value, 11, -14, 0x7C00) : to_half_width(value, 8, -126, 0x7F80);
  std::memcpy(row.data() + index * 2, &bits, 2);
}

std::vector<std::byte> gather(const Problem& problem, const Answer& answer, std::int64_t rank, std::size_t element_size,
                              const ExpertOutput& elements) {
  const Input& input = problem.ranks.at(static_cast<std::size_t>(rank));
  std::vector<std::byte> out(input.topk_idx.size() * element_size);
  for (std::size_t pair = 0; pair < input.topk_idx.size(); ++pair) {
    if (input.topk_idx[pair] == -1) continue;
    const std::int32_t owner = problem.owner[static_cast<std::size_t>(input.topk_idx[pair])];
    const auto element = elements(owner, answer.row_of[static_cast<std::size_t>(rank)][pair]);
    std::copy(element.begin(), element.end(), out.begin() + static_cast<std::ptrdiff_t>(pair * element_size));
  }
  return out;
}

std::vector<std::byte> combine(const Problem& problem, const Answer& answer, std::int64_t rank, DType dtype,
                               std::int64_t hidden, const ExpertOutput& output) {
  const Input& input = problem.ranks.at(static_cast<std::size_t>(rank));
  const std::size_t row_size = static_cast<std::size_t>(hidden) * (dtype == DType::fp32 ? 4 : 2);
  std::vector<std::byte> out(static_cast<std::size_t>(input.tokens) * row_size);
  std::vector<float> sum(static_cast<std::size_t>(hidden));
  for (std::int64_t t = 0; t < input.tokens; ++t) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::int64_t k = 0; k < problem.topk; ++k) {
      const auto pair = static_cast<std::size_t>(t * problem.topk + k);
      if (input.topk_idx[pair] == -1) continue;
      const float weight = input.weights.empty() ? 1.0F : input.weights[pair];
      const std::int32_t owner = problem.owner[static_cast<std::size_t>(input.topk_idx[pair])];
      const std::span<const std::byte> row = output(owner, answer.row_of[static_cast<std::size_t>(rank)][pair]);
      for (std::int64_t j = 0; j < hidden; ++j) {
        const float product = load(dtype, row, j) * weight;
        sum[static_cast<std::size_t>(j)] += product;
      }
    }
    const std::span<std::byte> place = std::span{out}.subspan(static_cast<std::size_t>(t) * row_size, row_size);
    for (std::int64_t j = 0; j < hidden; ++j) store(dtype, place, j, sum[static_cast<std::size_t>(j)]);
  }
  return out;
}

}  // namespace shmoe::ops::reference
