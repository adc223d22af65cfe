#pragma once
// The end of combine for contenders whose K rows of a token lie anywhere in this process: our own weighted sum, so that
// no baseline is slower than it must be.

#include <span>
#include <vector>

#include "apps/bench/workload.hpp"
#include "shmem/copy.hpp"

namespace shmoe::apps {

class TokenSums {
 public:
  explicit TokenSums(const Workload& workload)
      : workload_(&workload), rows_(static_cast<std::size_t>(workload.shape().topk)), combined_(workload.x().size()) {}

  /// row_of(pair): the bytes of the answer to a pair.
  template <class RowOf>
  void write(const RowOf& row_of) {
    const std::size_t topk = rows_.size();
    const std::size_t bytes = workload_->row_bytes();
    for (std::size_t token = 0; token < workload_->tokens(); ++token) {
      for (std::size_t k = 0; k < topk; ++k) rows_[k] = row_of(token * topk + k);
      shmem::weighted_row_sum(workload_->shape().dtype, rows_,
                              workload_->routing().weights().subspan(token * topk, topk),
                              combined_.bytes(token * bytes, bytes));
    }
  }
  [[nodiscard]] std::span<std::byte> combined() const { return combined_.bytes(); }

 private:
  const Workload* workload_;
  std::vector<std::span<const std::byte>> rows_;
  RowBuffer combined_;
};

}  // namespace shmoe::apps
