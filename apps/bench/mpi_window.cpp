// Contender: the best that MPI-3 shared memory gives, one store a row and no copy in combine, as ours.

#include <algorithm>
#include <numeric>

#include <mpi.h>

#include "apps/bench/mpi_contenders.hpp"
#include "apps/bench/token_sums.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kWindowStages[] = {"count", "allgather", "store", "sync", "sync back", "sum"};

/// A part of each rank in memory that all of them map.
class SharedWindow {
 public:
  explicit SharedWindow(std::size_t bytes) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");  // each part on pages of its own
    void* own = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, info, MPI_COMM_WORLD, &own, &window_);
    MPI_Info_free(&info);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  }
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  /// MPI_Finalize frees the window: MPI_Win_free waits for all ranks, and one that fails would wait for ever.
  ~SharedWindow() { MPI_Win_unlock_all(window_); }

  [[nodiscard]] std::byte* part_of(int rank) const {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* base = nullptr;
    MPI_Win_shared_query(window_, rank, &bytes, &unit, &base);
    return static_cast<std::byte*>(base);
  }

  /// What any rank stored before is readable by all of them afterwards.
  void synchronise() {
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window_);
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
};

class MpiWindow final : public Contender {
 public:
  MpiWindow(const Workload& workload, CopyKind copy)
      : workload_(&workload),
        copy_(copy),
        room_(round_up(std::max<std::size_t>(workload.most_rows() * workload.row_bytes(), 1), kPage)),
        window_(2 * room_),
        counts_(static_cast<std::size_t>(workload.shape().experts)),
        all_counts_(counts_.size() * static_cast<std::size_t>(workload.ranks())),
        next_(counts_.size()),
        place_(workload.pairs()),
        sums_(workload) {
    for (int rank = 0; rank < workload.ranks(); ++rank) parts_.push_back(window_.part_of(rank));
  }

  [[nodiscard]] std::string_view name() const override { return "MPI window"; }
  [[nodiscard]] std::string_view key() const override { return "window"; }
  [[nodiscard]] Stages stages() const override { return {kWindowStages, 4}; }
  [[nodiscard]] std::span<std::byte> received() override { return {own(), bytes_received()}; }
  [[nodiscard]] std::span<std::byte> answers() override { return {own() + room_, bytes_received()}; }
  [[nodiscard]] std::span<std::byte> combined() override { return sums_.combined(); }

  Result<void> dispatch(StageTimes& times) override {
    StageWatch watch(times);
    watch.start();
    std::ranges::fill(counts_, 0);
    for (const std::int32_t id : ids()) ++counts_[static_cast<std::size_t>(id)];
    watch.done(0);
    // Nobody has the counts of all before all have come, so no row is stored while a peer still reads old ones.
    const int each = static_cast<int>(counts_.size());
    MPI_Allgather(counts_.data(), each, MPI_INT, all_counts_.data(), each, MPI_INT, MPI_COMM_WORLD);
    place_rows();
    watch.done(1);
    store_rows();
    watch.done(2);
    window_.synchronise();
    watch.done(3);
    return {};
  }

  Result<void> combine(StageTimes& times) override {
    StageWatch watch(times);
    watch.start();
    window_.synchronise();
    watch.done(4);
    sums_.write([&](std::size_t pair) {
      return std::span<const std::byte>{part_of_owner(pair) + room_ + place_of(pair), workload_->row_bytes()};
    });
    watch.done(5);
    return {};
  }

 private:
  static constexpr std::size_t kPage = 4096;

  [[nodiscard]] std::byte* own() const { return parts_[workload_->rank().index()]; }
  [[nodiscard]] std::size_t bytes_received() const { return workload_->rows() * workload_->row_bytes(); }
  [[nodiscard]] std::span<const std::int32_t> ids() const { return workload_->routing().topk_idx_i32(); }
  [[nodiscard]] std::byte* part_of_owner(std::size_t pair) const {
    return parts_[workload_->experts().owner(Expert{ids()[pair]}).index()];
  }
  [[nodiscard]] std::size_t place_of(std::size_t pair) const {
    return static_cast<std::size_t>(place_[pair]) * workload_->row_bytes();
  }

  [[nodiscard]] std::int64_t rows_for(Expert expert, std::int32_t sources) const {
    std::int64_t rows = 0;
    for (std::int32_t source = 0; source < sources; ++source) {
      rows += all_counts_[static_cast<std::size_t>(source) * counts_.size() + expert.index()];
    }
    return rows;
  }

  void place_rows() {
    for (Rank owner{0}; owner.value() < workload_->ranks(); ++owner) {
      std::int64_t at = 0;
      for (const Expert expert : workload_->experts().experts_of(owner)) {
        next_[expert.index()] = at + rows_for(expert, workload_->rank().value());
        at += rows_for(expert, workload_->ranks());
      }
    }
    for (std::size_t pair = 0; pair < place_.size(); ++pair)
      place_[pair] = next_[static_cast<std::size_t>(ids()[pair])]++;
  }

  void store_rows() {
    const std::size_t bytes = workload_->row_bytes();
    const auto topk = static_cast<std::size_t>(workload_->shape().topk);
    for (std::size_t pair = 0; pair < place_.size(); ++pair) {
      copy_by(copy_, {part_of_owner(pair) + place_of(pair), bytes}, workload_->token(pair / topk));
    }
    finish_copies();
  }

  const Workload* workload_;
  CopyKind copy_;
  std::size_t room_;
  SharedWindow window_;  // of each rank: received rows | answers
  std::vector<std::byte*> parts_;
  std::vector<int> counts_;          // [E]
  std::vector<int> all_counts_;      // [R, E]
  std::vector<std::int64_t> next_;   // [E]
  std::vector<std::int64_t> place_;  // [T, K] row on the owner
  TokenSums sums_;
};

}  // namespace

std::unique_ptr<Contender> make_mpi_window(const Workload& workload, CopyKind copy) {
  return std::make_unique<MpiWindow>(workload, copy);
}

}  // namespace shmoe::apps
