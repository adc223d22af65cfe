// Ranks as threads of one process.

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>

#include "runtime/job.hpp"
#include "runtime/world.hpp"
#include "shmem/thread_memory.hpp"

namespace shmoe::runtime {
namespace {

/// What the threads share.
class ThreadJob {
 public:
  /// Errors:  system.
  static Result<std::unique_ptr<ThreadJob>> make(const Config& config, const JobShape& shape,
                                                 const FabricDecorator& decorate) {
    const auto count = static_cast<std::size_t>(shape.ranks);
    Result<shmem::ThreadMemory> memory = shmem::ThreadMemory::allocate(count, shape.memory());
    if (!memory) return std::move(memory).error();
    Result<shmem::ThreadMemory> control = shmem::ThreadMemory::allocate(count, shape.control_memory());
    if (!control) return std::move(control).error();
    return std::unique_ptr<ThreadJob>(new ThreadJob(config, shape, decorate, *std::move(memory), *std::move(control)));
  }

  /// As one of the ranks is part of it.
  Job of_rank(Rank rank, std::unique_ptr<Grid> grid) {
    const std::shared_ptr<RankFaults> faults = faults_of(config_, rank);
    return {.config = config_,
            .shape = shape_,
            .rank = rank,
            .description = fmt::format("rank {} of {}, ranks are threads", rank, shape_.ranks),
            .log = Log::to_stderr(find_log_level(config_.log_level).value_or(LogLevel::warn), rank),
            .memory = places_of(memory_, Bytes{0}),
            .control = places_of(control_, Bytes{shmem::kControlHeaderBytes}),
            .commit = {},
            .commit_block = {},
            .grid = std::move(grid),
            .gone = [this](Rank peer) { return gone(peer); },
            .make_fabric = decorated(fabric_maker(config_, rank, true, faults), rank),
            .faults = faults,
            .copy = {.kind = config_.copy.value_or(shmem::CopyKind::cached)},
            .crowd = kCrowd,
            .backing = {}};
  }

  void end(Rank rank, const Result<void>& result) {
    const std::lock_guard lock(mutex_);
    ended_.insert(rank);
    if (!result) failures_.push_back(result.error());
  }

  /// When all have ended.
  Result<void> outcome() {
    if (failures_.empty()) return {};
    const auto consequence = [](const Error& e) { return e.code == Errc::aborted || e.code == Errc::peer_lost; };
    const auto cause = std::ranges::find_if_not(failures_, consequence);
    return std::move(cause == failures_.end() ? failures_.front() : *cause);
  }

  /// Nobody has a CPU for itself.
  static constexpr shmem::Crowd kCrowd{2};

 private:
  ThreadJob(const Config& config, const JobShape& shape, const FabricDecorator& decorate, shmem::ThreadMemory memory,
            shmem::ThreadMemory control)
      : config_(config), shape_(shape), decorate_(decorate), memory_(std::move(memory)), control_(std::move(control)) {}

  [[nodiscard]] std::vector<std::byte*> places_of(const shmem::ThreadMemory& memory, Bytes behind) const {
    std::vector<std::byte*> places;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape_.ranks); ++rank) {
      places.push_back(memory.at(rank) + behind.value());
    }
    return places;
  }
  [[nodiscard]] FabricMaker decorated(FabricMaker make, Rank rank) const {
    if (!decorate_) return make;
    return [this, make = std::move(make), rank](const shmem::Peers& peers, std::span<const Rank> members, Core core) {
      return decorate_(make(peers, members, core), rank, core);
    };
  }
  std::optional<std::string> gone(Rank rank) {
    const std::lock_guard lock(mutex_);
    if (!ended_.contains(rank)) return std::nullopt;
    return "its thread has ended";
  }

  const Config& config_;
  const JobShape& shape_;
  const FabricDecorator& decorate_;
  shmem::ThreadMemory memory_;
  shmem::ThreadMemory control_;
  std::mutex mutex_;
  std::set<Rank> ended_;
  std::vector<Error> failures_;
};

/// Whatever goes wrong in it, its peers are told.
Result<void> run_body(World& world, const std::function<Result<void>(World&)>& body) {
  Result<void> result;
  try {
    result = body(world);
  } catch (const std::exception& e) {
    result = Error{.code = Errc::broken_contract, .context = e.what(), .where = world.rank()};
  }
  if (!result) world.abort(result.error());
  return result;
}

}  // namespace

Result<void> World::run_as_threads(std::int32_t ranks, const Config& config,
                                   const std::function<Result<void>(World&)>& body, const FabricDecorator& decorate) {
  SHMOE_EXPECTS(ranks >= 1, "{} ranks", ranks);
  const JobShape shape(config, ranks);
  if (Result<void> possible = check_plans(config, shape, true); !possible) return possible;
  const Result<std::unique_ptr<ThreadJob>> job = ThreadJob::make(config, shape, decorate);
  if (!job) return Error(job.error());
  const auto run_rank = [&](Rank rank) -> Result<void> {
    Result<std::unique_ptr<Grid>> grid = Grid::start(config.cores, ThreadJob::kCrowd);
    if (!grid) return std::move(grid).error().within(fmt::format("rank {}", rank));
    const Result<std::unique_ptr<World>> world = start((*job)->of_rank(rank, *std::move(grid)));
    if (!world) return Error(world.error());
    return run_body(**world, body);
  };
  const Result<std::unique_ptr<Grid>> seats = Grid::start(ranks, ThreadJob::kCrowd);
  if (!seats) return Error(seats.error()).within("ranks as threads");
  (*seats)->run([&](Core seat) noexcept {
    const Rank rank{seat.value()};
    (*job)->end(rank, run_rank(rank));
  });
  return (*job)->outcome();
}

}  // namespace shmoe::runtime
