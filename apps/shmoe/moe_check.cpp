#include "apps/shmoe/moe_check.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "apps/shmoe/compare_rows.hpp"
#include "apps/shmoe/payload.hpp"
#include "ops/ep/rows.hpp"
#include "ops/low_latency/reference.hpp"

namespace shmoe::apps {
namespace {

using ops::reference::Answer;
using ops::reference::Origin;
using ops::reference::Problem;

/// What a step has left on a rank, in whichever mode.
struct Left {
  std::int64_t step = 0;
  Rank rank;
  Received received;
  std::span<const std::byte> combined;  // [T, H]
};

class Check {
 public:
  Check(const Left& left, const MoeShape& shape, const Problem& problem)
      : left_(left),
        shape_(shape),
        problem_(problem),
        answer_(ops::reference::solve_places(problem)),
        row_bytes_(ops::row_bytes(shape.dtype, shape.hidden)),
        sent_bytes_(ops::row_bytes(shape.dtype, shape.hidden, shape.quant)),
        token_(row_bytes_),
        expected_(row_bytes_) {}

  [[nodiscard]] std::optional<Error> tables(const ops::LayoutTables& layout, const ops::NotifyTables& notify) const {
    const auto me = left_.rank.index();
    auto error = table("send_token_idx", layout.send_token_idx, answer_.send_token_idx[me]);
    if (!error) error = table("put_offset", notify.put_offset, answer_.put_offset);
    if (!error) {
      error = table("recv_tokens_per_expert", notify.recv_tokens_per_expert, answer_.recv_tokens_per_expert[me]);
    }
    if (!error && notify.total_recv_tokens != answer_.total_recv_tokens) {
      error =
          wrong(fmt::format("total_recv_tokens is {}, not {}", notify.total_recv_tokens, answer_.total_recv_tokens));
    }
    return error;
  }

  [[nodiscard]] std::optional<Error> tables(const ops::LowLatencyTables& found) const {
    const auto me = left_.rank.index();
    auto error = table("expand_idx", found.expand_idx, answer_.send_token_idx[me]);
    if (!error) error = table("ep_recv_count", found.ep_recv_count, ops::reference::inclusive_prefix(answer_));
    if (!error) error = table("expert_token_nums", found.expert_token_nums, answer_.recv_tokens_per_expert[me]);
    return error;
  }

  std::optional<Error> rows_and_tokens() {
    std::optional<Error> wrong = rows();
    return wrong ? wrong : tokens();
  }

 private:
  [[nodiscard]] std::optional<Error> table(const char* name, const auto& found, const auto& expected) const {
    if (std::ranges::equal(found, expected)) return std::nullopt;
    return wrong(fmt::format("table {} differs from the reference", name));
  }

  std::optional<Error> rows() {
    const std::vector<Origin>& origins = answer_.rows[left_.rank.index()];
    if (left_.received.rows.size() != origins.size() * sent_bytes_) {
      return wrong(fmt::format("{} bytes of rows, not {} rows", left_.received.rows.size(), origins.size()));
    }
    for (std::size_t row = 0; row < origins.size(); ++row) {
      const Origin& origin = origins[row];
      fill_token({shape_.seed, left_.step, Rank{origin.source}, origin.token}, shape_.dtype, token_);
      if (auto difference = compare_received(row)) {
        return wrong(fmt::format("received row {} (expert {}, from rank {} token {} k {}) {}", row, origin.expert,
                                 origin.source, origin.token, origin.k, *difference));
      }
    }
    return std::nullopt;
  }

  std::optional<Error> tokens() {
    const auto expert_output = [&](std::int64_t owner, std::int64_t row) -> std::span<const std::byte> {
      const Origin& origin = answer_.rows[static_cast<std::size_t>(owner)][static_cast<std::size_t>(row)];
      fill_token({shape_.seed, left_.step, Rank{origin.source}, origin.token}, shape_.dtype, token_);
      open_token();
      run_expert(Expert{origin.expert}, shape_.dtype, token_, expected_);
      return expected_;
    };
    const std::vector<std::byte> combined =
        ops::reference::combine(problem_, answer_, left_.rank.value(), shape_.dtype, shape_.hidden, expert_output);
    if (combined.size() != left_.combined.size()) return wrong("another number of combined tokens");
    for (std::size_t at = 0; at < combined.size(); at += row_bytes_) {
      const auto found = left_.combined.subspan(at, row_bytes_);
      if (auto difference = compare(found, std::span{combined}.subspan(at, row_bytes_))) {
        return wrong(fmt::format("combined token {} {}", at / row_bytes_, *difference));
      }
    }
    return std::nullopt;
  }

  /// A received row with token_.
  [[nodiscard]] std::optional<std::string> compare_received(std::size_t row) const {
    const auto found = left_.received.rows.subspan(row * sent_bytes_, sent_bytes_);
    if (shape_.quant == ops::Quant::none) return compare(found, token_);
    const ops::reference::Quantised expected = ops::reference::quantise(shape_.dtype, token_);
    for (std::size_t column = 0; column < sent_bytes_; ++column) {
      const auto here = static_cast<std::int8_t>(found[column]);
      if (here != expected.q[column])
        return fmt::format("has {} in column {}, not {}", here, column, expected.q[column]);
    }
    if (left_.received.scales[row] == expected.scale) return std::nullopt;
    return fmt::format("has scale {}, not {}", left_.received.scales[row], expected.scale);
  }

  /// Makes token_ what its experts compute with.
  void open_token() {
    if (shape_.quant == ops::Quant::none) return;
    const ops::reference::Quantised sent = ops::reference::quantise(shape_.dtype, token_);
    for (std::size_t column = 0; column < sent_bytes_; ++column) {
      const float value = static_cast<float>(sent.q[column]) * sent.scale;
      ops::reference::store(shape_.dtype, token_, static_cast<std::int64_t>(column), value);
    }
  }

  [[nodiscard]] std::optional<std::string> compare(std::span<const std::byte> found,
                                                   std::span<const std::byte> expected) const {
    return row_difference(shape_.dtype, found, expected);
  }

  [[nodiscard]] Error wrong(std::string_view what) const { return wrong_result_of(left_.rank, left_.step, what); }

  Left left_;
  const MoeShape& shape_;
  const Problem& problem_;
  Answer answer_;
  std::size_t row_bytes_, sent_bytes_;
  std::vector<std::byte> token_, expected_;  // scratch
};

}  // namespace

Problem problem_of(const std::vector<Batch>& batches, const ops::ExpertMap& experts) {
  Problem problem{.experts = experts.experts(), .topk = batches.front().topk, .owner = {}, .ranks = {}};
  for (Expert expert{0}; expert.value() < experts.experts(); ++expert) {
    problem.owner.push_back(experts.owner(expert).value());
  }
  for (const Batch& batch : batches) problem.ranks.push_back({batch.tokens, batch.topk_ids, batch.weights});
  return problem;
}

std::optional<Error> wrong_result(const MoeStep& step, const MoeShape& shape, const Problem& problem,
                                  const Received& received) {
  Check check{
      {.step = step.number, .rank = step.rank, .received = received, .combined = step.combined}, shape, problem};
  std::optional<Error> wrong = check.tables(step.layout, step.notify);
  return wrong ? wrong : check.rows_and_tokens();
}

std::optional<Error> wrong_result(const LowLatencyStep& step, const MoeShape& shape, const Problem& problem) {
  const Received received{.rows = step.received, .scales = step.scales};
  Check check{
      {.step = step.number, .rank = step.rank, .received = received, .combined = step.combined}, shape, problem};
  std::optional<Error> wrong = check.tables(*step.tables);
  return wrong ? wrong : check.rows_and_tokens();
}

}  // namespace shmoe::apps
