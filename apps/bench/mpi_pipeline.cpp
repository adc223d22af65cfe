// Contender: the pipeline that one writes with two-sided collectives.

#include <cstring>

#include "apps/bench/mpi_contenders.hpp"
#include "apps/bench/mpi_routes.hpp"
#include "apps/bench/mpi_type.hpp"
#include "apps/bench/token_sums.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kPipelineStages[] = {"sort",    "counts",       "pack",           "alltoallv",
                                           "permute", "permute back", "alltoallv back", "sum"};

class MpiPipeline final : public Contender {
 public:
  explicit MpiPipeline(const Workload& workload)
      : workload_(&workload),
        routes_(workload),
        row_(row_type(workload.row_bytes())),
        packed_(workload.pairs() * workload.row_bytes()),
        arrived_(workload.rows() * workload.row_bytes()),
        received_(workload.rows() * workload.row_bytes()),
        answers_(workload.rows() * workload.row_bytes()),
        sums_(workload) {}

  [[nodiscard]] std::string_view name() const override { return "MPI pipeline"; }
  [[nodiscard]] std::string_view key() const override { return "pipeline"; }
  [[nodiscard]] Stages stages() const override { return {kPipelineStages, 5}; }
  [[nodiscard]] std::span<std::byte> received() override { return received_.bytes(); }
  [[nodiscard]] std::span<std::byte> answers() override { return answers_.bytes(); }
  [[nodiscard]] std::span<std::byte> combined() override { return sums_.combined(); }

  Result<void> dispatch(StageTimes& times) override {
    StageWatch watch(times);
    watch.start();
    routes_.sort();
    watch.done(0);
    routes_.exchange_counts();
    watch.done(1);
    pack();
    watch.done(2);
    MPI_Alltoallv(packed_.data(), routes_.send_counts().data(), routes_.send_at().data(), row_.get(), arrived_.data(),
                  routes_.recv_counts().data(), routes_.recv_at().data(), row_.get(), MPI_COMM_WORLD);
    watch.done(3);
    for (const MpiRoutes::Run& run : routes_.runs()) {
      copy_rows(received_, run.expert_major, arrived_, run.source_major, run.rows);
    }
    watch.done(4);
    return {};
  }

  Result<void> combine(StageTimes& times) override {
    StageWatch watch(times);
    watch.start();
    for (const MpiRoutes::Run& run : routes_.runs()) {
      copy_rows(arrived_, run.source_major, answers_, run.expert_major, run.rows);
    }
    watch.done(5);
    MPI_Alltoallv(arrived_.data(), routes_.recv_counts().data(), routes_.recv_at().data(), row_.get(), packed_.data(),
                  routes_.send_counts().data(), routes_.send_at().data(), row_.get(), MPI_COMM_WORLD);
    watch.done(6);
    const std::size_t bytes = workload_->row_bytes();
    sums_.write([&](std::size_t pair) {
      return packed_.bytes(static_cast<std::size_t>(routes_.place()[pair]) * bytes, bytes);
    });
    watch.done(7);
    return {};
  }

 private:
  void pack() {
    const std::size_t bytes = workload_->row_bytes();
    const auto topk = static_cast<std::size_t>(workload_->shape().topk);
    std::byte* to = packed_.data();
    for (const int pair : routes_.order()) {
      std::memcpy(to, workload_->token(static_cast<std::size_t>(pair) / topk).data(), bytes);
      to += bytes;
    }
  }

  void copy_rows(const RowBuffer& to, int to_row, const RowBuffer& from, int from_row, int rows) const {
    const std::size_t bytes = workload_->row_bytes();
    if (rows == 0) return;
    std::memcpy(to.data() + static_cast<std::size_t>(to_row) * bytes,
                from.data() + static_cast<std::size_t>(from_row) * bytes, static_cast<std::size_t>(rows) * bytes);
  }

  const Workload* workload_;
  MpiRoutes routes_;
  MpiType row_;
  RowBuffer packed_;    // send order, there and back
  RowBuffer arrived_;   // source-major, there and back
  RowBuffer received_;  // expert-major
  RowBuffer answers_;   // expert-major
  TokenSums sums_;
};

}  // namespace

std::unique_ptr<Contender> make_mpi_pipeline(const Workload& workload) {
  return std::make_unique<MpiPipeline>(workload);
}

}  // namespace shmoe::apps
