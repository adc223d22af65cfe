// Contender: types say where rows lie, on both sides, and MPI does the packing or whatever it does instead.

#include "apps/bench/mpi_contenders.hpp"
#include "apps/bench/mpi_routes.hpp"
#include "apps/bench/mpi_type.hpp"
#include "apps/bench/token_sums.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kHindexedStages[] = {"sort",       "counts",         "types", "alltoallw",
                                           "types back", "alltoallw back", "sum"};

/// One side of an Alltoallw: a type a peer, empty where nothing goes.
class Side {
 public:
  explicit Side(std::size_t ranks)
      : own_(ranks), types_(ranks, MPI_BYTE), counts_(ranks, 0), displacements_(ranks, 0) {}

  /// Frees the type that stood there.
  void set(std::size_t rank, MPI_Datatype type) {
    own_[rank] = MpiType{type};
    types_[rank] = own_[rank].get();
    counts_[rank] = 1;
  }
  void clear(std::size_t rank) {
    own_[rank] = MpiType{};
    types_[rank] = MPI_BYTE;
    counts_[rank] = 0;
  }
  [[nodiscard]] const int* counts() const { return counts_.data(); }
  [[nodiscard]] const int* displacements() const { return displacements_.data(); }
  [[nodiscard]] const MPI_Datatype* types() const { return types_.data(); }

 private:
  std::vector<MpiType> own_;
  std::vector<MPI_Datatype> types_;
  std::vector<int> counts_;
  std::vector<int> displacements_;  // all zero: the types say where, in 64 bits
};

class MpiHindexed final : public Contender {
 public:
  explicit MpiHindexed(const Workload& workload)
      : workload_(&workload),
        routes_(workload),
        row_(row_type(workload.row_bytes())),
        sending_(static_cast<std::size_t>(workload.ranks())),
        receiving_(static_cast<std::size_t>(workload.ranks())),
        received_(workload.rows() * workload.row_bytes()),
        answers_(workload.rows() * workload.row_bytes()),
        returned_(workload.pairs() * workload.row_bytes()),
        sums_(workload) {}

  [[nodiscard]] std::string_view name() const override { return "MPI hindexed"; }
  [[nodiscard]] std::string_view key() const override { return "hindexed"; }
  [[nodiscard]] Stages stages() const override { return {kHindexedStages, 4}; }
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
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      pick_tokens(rank);
      place_runs(receiving_, rank);
    }
    watch.done(2);
    exchange(workload_->x().data(), received_.data());
    watch.done(3);
    return {};
  }

  Result<void> combine(StageTimes& times) override {
    StageWatch watch(times);
    watch.start();
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      place_runs(sending_, rank);
      place_returned(rank);
    }
    watch.done(4);
    exchange(answers_.data(), returned_.data());
    watch.done(5);
    const std::size_t bytes = workload_->row_bytes();
    sums_.write([&](std::size_t pair) {
      return returned_.bytes(static_cast<std::size_t>(routes_.place()[pair]) * bytes, bytes);
    });
    watch.done(6);
    return {};
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(workload_->ranks()); }
  [[nodiscard]] MPI_Aint bytes_of(std::int64_t rows) const {
    return static_cast<MPI_Aint>(rows) * static_cast<MPI_Aint>(workload_->row_bytes());
  }

  void exchange(const void* from, void* to) {
    MPI_Alltoallw(from, sending_.counts(), sending_.displacements(), sending_.types(), to, receiving_.counts(),
                  receiving_.displacements(), receiving_.types(), MPI_COMM_WORLD);
  }

  /// Tokens to `rank`, in the order of its experts.
  void pick_tokens(std::size_t rank) {
    if (routes_.send_counts()[rank] == 0) return sending_.clear(rank);
    places_.clear();
    const auto first = static_cast<std::size_t>(routes_.send_at()[rank]);
    for (const int pair : routes_.order().subspan(first, static_cast<std::size_t>(routes_.send_counts()[rank]))) {
      places_.push_back(bytes_of(pair / workload_->shape().topk));
    }
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed_block(static_cast<int>(places_.size()), 1, places_.data(), row_.get(), &type);
    sending_.set(rank, type);
  }

  /// The runs of `rank` where they lie expert-major.
  void place_runs(Side& side, std::size_t rank) {
    if (routes_.recv_counts()[rank] == 0) return side.clear(rank);
    places_.clear();
    lengths_.clear();
    for (const MpiRoutes::Run& run : routes_.runs_from(rank)) {
      if (run.rows == 0) continue;
      places_.push_back(bytes_of(run.expert_major));
      lengths_.push_back(run.rows);
    }
    side.set(rank, hindexed());
  }

  void place_returned(std::size_t rank) {
    if (routes_.send_counts()[rank] == 0) return receiving_.clear(rank);
    places_.assign(1, bytes_of(routes_.send_at()[rank]));
    lengths_.assign(1, routes_.send_counts()[rank]);
    receiving_.set(rank, hindexed());
  }

  [[nodiscard]] MPI_Datatype hindexed() const {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed(static_cast<int>(places_.size()), lengths_.data(), places_.data(), row_.get(), &type);
    return type;
  }

  const Workload* workload_;
  MpiRoutes routes_;
  MpiType row_;
  Side sending_, receiving_;
  std::vector<MPI_Aint> places_;
  std::vector<int> lengths_;
  RowBuffer received_;  // expert-major
  RowBuffer answers_;   // expert-major
  RowBuffer returned_;  // send order
  TokenSums sums_;
};

}  // namespace

std::unique_ptr<Contender> make_mpi_hindexed(const Workload& workload) {
  return std::make_unique<MpiHindexed>(workload);
}

}  // namespace shmoe::apps
