#include "apps/bench/workload.hpp"

#include <algorithm>

#include "apps/shmoe/moe_check.hpp"
#include "apps/shmoe/payload.hpp"
#include "apps/shmoe/synthetic_routing.hpp"
#include "ops/ep/rows.hpp"

namespace shmoe::apps {
namespace {

std::vector<Batch> batches_of(const EpShape& shape, std::int32_t ranks) {
  const SyntheticWorld world{shape.tokens, shape.topk, shape.experts, shape.seed};
  std::vector<Batch> batches;
  for (Rank rank{0}; rank.value() < ranks; ++rank) batches.push_back(draw_batch(world, 0, rank));
  return batches;
}

}  // namespace

Result<std::unique_ptr<Workload>> Workload::create(runtime::Communicator& comm, const EpShape& shape) {
  const std::size_t bytes = ops::row_bytes(shape.dtype, shape.hidden) * static_cast<std::size_t>(shape.tokens);
  auto tokens_at = comm.allocate(Bytes{std::max<std::size_t>(bytes, 1)});
  if (!tokens_at) return std::move(tokens_at).error().within("tokens to compare with");
  std::unique_ptr<Workload> workload{new Workload(comm, shape, *tokens_at)};
  workload->combine_by_reference();
  return workload;
}

Workload::Workload(runtime::Communicator& comm, const EpShape& shape, Offset tokens_at)
    : comm_(&comm),
      shape_(shape),
      tokens_at_(tokens_at),
      row_bytes_(ops::row_bytes(shape.dtype, shape.hidden)),
      experts_(ops::ExpertMap::even(shape.experts, comm.ranks())),
      problem_(problem_of(batches_of(shape, comm.ranks()), experts_)),
      answer_(ops::reference::solve(problem_)),
      routing_(shape.topk, problem_.ranks[comm.rank().index()].topk_idx, problem_.ranks[comm.rank().index()].weights),
      x_(row_bytes_ * static_cast<std::size_t>(shape.tokens)) {
  for (std::size_t t = 0; t < tokens(); ++t) {
    fill_token({shape_.seed, 0, rank(), static_cast<std::int64_t>(t)}, shape_.dtype,
               x_.bytes(t * row_bytes_, row_bytes_));
  }
  if (!x().empty()) std::ranges::copy(x(), comm.local<std::byte>(tokens_at_, x().size()).begin());
}

Rank Workload::owner_of(std::size_t pair) const { return experts_.owner(Expert{routing_.topk_idx()[pair]}); }

/// Before the first block every rank has passed a barrier, so the copies of the peers are there.
std::span<const std::byte> Workload::token_of(const ops::reference::Origin& origin) const {
  const auto token = Bytes{row_bytes_} * static_cast<std::uint64_t>(origin.token);
  return {comm_->mapped_at(Rank{origin.source}, tokens_at_ + token), row_bytes_};
}

void Workload::combine_by_reference() {
  std::vector<std::byte> token(row_bytes_);
  std::vector<std::byte> answered(row_bytes_);
  const auto output = [&](std::int64_t owner, std::int64_t row) -> std::span<const std::byte> {
    const auto& origin = answer_.rows[static_cast<std::size_t>(owner)][static_cast<std::size_t>(row)];
    fill_token({shape_.seed, 0, Rank{origin.source}, origin.token}, shape_.dtype, token);
    run_expert(Expert{origin.expert}, shape_.dtype, token, answered);
    return answered;
  };
  combined_ = ops::reference::combine(problem_, answer_, rank().value(), shape_.dtype, shape_.hidden, output);
}

void Workload::fill_answers(std::span<std::byte> answers) const {
  const auto& origins = answer_.rows[rank().index()];
  SHMOE_EXPECTS(answers.size() == origins.size() * row_bytes_, "{} bytes for {} rows", answers.size(), origins.size());
  for (std::size_t row = 0; row < origins.size(); ++row) {
    run_expert(Expert{origins[row].expert}, shape_.dtype, token_of(origins[row]),
               answers.subspan(row * row_bytes_, row_bytes_));
  }
}

bool Workload::are_received(std::span<const std::byte> rows, std::span<const float> scales) const {
  if (shape_.quant == ops::Quant::int8) return are_quantised(rows, scales);
  const auto& origins = answer_.rows[rank().index()];
  if (rows.size() != origins.size() * row_bytes_) return false;
  for (std::size_t row = 0; row < origins.size(); ++row) {
    if (!std::ranges::equal(rows.subspan(row * row_bytes_, row_bytes_), token_of(origins[row]))) return false;
  }
  return true;
}

bool Workload::are_quantised(std::span<const std::byte> rows, std::span<const float> scales) const {
  const auto& origins = answer_.rows[rank().index()];
  const auto size = static_cast<std::size_t>(shape_.hidden);
  if (rows.size() != origins.size() * size || scales.size() != origins.size()) return false;
  for (std::size_t row = 0; row < origins.size(); ++row) {
    const ops::reference::Quantised expected = ops::reference::quantise(shape_.dtype, token_of(origins[row]));
    if (!std::ranges::equal(rows.subspan(row * size, size), std::as_bytes(std::span{expected.q}))) return false;
    if (scales[row] != expected.scale) return false;
  }
  return true;
}

bool Workload::are_combined(std::span<const std::byte> tokens) const { return std::ranges::equal(tokens, combined_); }

}  // namespace shmoe::apps
