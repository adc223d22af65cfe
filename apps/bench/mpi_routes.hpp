#pragma once
// The tables of a pipeline over MPI: who sends how many rows to whom, and where they lie on the way.
//
//   send order     this rank's pairs by (owner, expert, pair)                 what Alltoallv sends
//   source-major   received rows by (source, expert, pair)                    what Alltoallv delivers
//   expert-major   received rows by (expert, source, pair)                    what the experts want
//   run            rows of one (source, expert): contiguous in both of the last two

#include <cstddef>
#include <span>
#include <vector>

#include "apps/bench/workload.hpp"

namespace shmoe::apps {

/// Sized once; a step allocates nothing. No pair of the workload is dropped.
///
/// Units:   rows
class MpiRoutes {
 public:
  struct Run {
    int source_major = 0;  // first row
    int expert_major = 0;  // first row
    int rows = 0;
  };

  explicit MpiRoutes(const Workload& workload);

  /// This rank's pairs into send order.
  void sort();
  /// Collective: MPI_Alltoall of the counts of each expert; then the runs.
  void exchange_counts();

  [[nodiscard]] std::span<const int> order() const { return order_; }  // [T*K] the pair at each place
  [[nodiscard]] std::span<const int> place() const { return place_; }  // [T*K] the place of each pair
  [[nodiscard]] std::span<const int> send_counts() const { return send_counts_; }
  [[nodiscard]] std::span<const int> send_at() const { return send_at_; }
  [[nodiscard]] std::span<const int> recv_counts() const { return recv_counts_; }
  [[nodiscard]] std::span<const int> recv_at() const { return recv_at_; }
  /// Of one source, in the order of the experts.
  [[nodiscard]] std::span<const Run> runs_from(std::size_t source) const {
    return std::span{runs_}.subspan(source * experts_a_rank_, experts_a_rank_);
  }
  [[nodiscard]] std::span<const Run> runs() const { return runs_; }

 private:
  void count_sends();
  void lay_out_runs();

  const Workload* workload_;
  std::size_t ranks_;
  std::size_t experts_a_rank_;   // most of any rank
  std::vector<int> key_;         // [E] owner * experts_a_rank + place among those of the owner
  std::vector<int> counts_out_;  // [R, L] by key
  std::vector<int> counts_in_;   // [R, L] by source and own expert
  std::vector<int> next_;        // [R, L] next place in send order
  std::vector<int> order_, place_;
  std::vector<int> send_counts_, send_at_, recv_counts_, recv_at_;  // [R]
  std::vector<Run> runs_;                                           // [R, L]
};

}  // namespace shmoe::apps
