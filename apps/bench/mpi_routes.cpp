#include "apps/bench/mpi_routes.hpp"

#include <algorithm>
#include <numeric>

#include <mpi.h>

namespace shmoe::apps {
namespace {

std::size_t most_experts(const ops::ExpertMap& experts) {
  std::size_t most = 1;
  for (Rank rank{0}; rank.value() < experts.ranks(); ++rank) most = std::max(most, experts.experts_of(rank).size());
  return most;
}

int sum_of(std::span<const int> counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

}  // namespace

MpiRoutes::MpiRoutes(const Workload& workload)
    : workload_(&workload),
      ranks_(static_cast<std::size_t>(workload.ranks())),
      experts_a_rank_(most_experts(workload.experts())),
      counts_out_(ranks_ * experts_a_rank_),
      counts_in_(ranks_ * experts_a_rank_),
      next_(ranks_ * experts_a_rank_),
      order_(workload.pairs()),
      place_(workload.pairs()),
      send_counts_(ranks_),
      send_at_(ranks_),
      recv_counts_(ranks_),
      recv_at_(ranks_),
      runs_(ranks_ * experts_a_rank_) {
  const ops::ExpertMap& experts = workload.experts();
  for (Expert expert{0}; expert.value() < experts.experts(); ++expert) {
    const std::size_t first = experts.owner(expert).index() * experts_a_rank_;
    key_.push_back(static_cast<int>(first) + experts.local_index(expert));
  }
}

void MpiRoutes::count_sends() {
  std::ranges::fill(counts_out_, 0);
  for (const std::int32_t id : workload_->routing().topk_idx_i32()) {
    ++counts_out_[static_cast<std::size_t>(key_[static_cast<std::size_t>(id)])];
  }
  std::exclusive_scan(counts_out_.begin(), counts_out_.end(), next_.begin(), 0);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    send_at_[rank] = next_[rank * experts_a_rank_];
    send_counts_[rank] = sum_of(std::span{counts_out_}.subspan(rank * experts_a_rank_, experts_a_rank_));
  }
}

void MpiRoutes::sort() {
  count_sends();
  const auto ids = workload_->routing().topk_idx_i32();
  for (std::size_t pair = 0; pair < ids.size(); ++pair) {
    const int place = next_[static_cast<std::size_t>(key_[static_cast<std::size_t>(ids[pair])])]++;
    place_[pair] = place;
    order_[static_cast<std::size_t>(place)] = static_cast<int>(pair);
  }
}

void MpiRoutes::exchange_counts() {
  const int each = static_cast<int>(experts_a_rank_);
  MPI_Alltoall(counts_out_.data(), each, MPI_INT, counts_in_.data(), each, MPI_INT, MPI_COMM_WORLD);
  for (std::size_t source = 0; source < ranks_; ++source) {
    recv_counts_[source] = sum_of(std::span{counts_in_}.subspan(source * experts_a_rank_, experts_a_rank_));
  }
  std::exclusive_scan(recv_counts_.begin(), recv_counts_.end(), recv_at_.begin(), 0);
  lay_out_runs();
}

void MpiRoutes::lay_out_runs() {
  for (std::size_t source = 0; source < ranks_; ++source) {
    int at = recv_at_[source];
    for (std::size_t l = 0; l < experts_a_rank_; ++l) {
      const std::size_t run = source * experts_a_rank_ + l;
      runs_[run] = {.source_major = at, .expert_major = 0, .rows = counts_in_[run]};
      at += counts_in_[run];
    }
  }
  int at = 0;
  for (std::size_t l = 0; l < experts_a_rank_; ++l) {
    for (std::size_t source = 0; source < ranks_; ++source) {
      Run& run = runs_[source * experts_a_rank_ + l];
      run.expert_major = at;
      at += run.rows;
    }
  }
}

}  // namespace shmoe::apps
