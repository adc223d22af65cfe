#include "apps/bench/slow_link.hpp"

#include <array>
#include <vector>

#include "apps/bench/samples.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/collective.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/choose.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/window.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {
namespace {

constexpr std::int32_t kThreadRanks = 4;
constexpr double kSlow = 80;             // bytes a second: so slow that sleeping, not copying, is the time
constexpr std::int32_t kExchanged = 10;  // of a rank's input: chunks of 5, shards of 2, 2 and 1
constexpr std::int32_t kChunk = kExchanged / 2;
constexpr int kTurns = 5;
const std::vector<Rank> kPair{Rank{0}, Rank{1}};

/// From rank 0 to rank 1 slow, all others four times as fast.
runtime::LinkSpeeds one_slow_link() {
  runtime::LinkSpeeds links(kThreadRanks);
  for (Rank from{0}; from.value() < kThreadRanks; ++from) {
    for (Rank to{0}; to.value() < kThreadRanks; ++to) links.set(from, to, 4 * kSlow);
  }
  links.set(Rank{0}, Rank{1}, kSlow);
  return links;
}

enum class Kind : std::uint8_t { all_to_all, reduce_scatter };
constexpr std::array kKinds{Kind::all_to_all, Kind::reduce_scatter};

struct SlowLinkFigures {
  std::vector<double> direct_us;
  std::vector<double> detour_us;
  bool right = true;
};
using BothFigures = std::array<SlowLinkFigures, kKinds.size()>;

class SlowLinkRank {
 public:
  static Result<SlowLinkRank> of(runtime::Communicator& comm) {
    const auto window = ops::allocate_window(comm);
    if (!window) return window.error();
    return SlowLinkRank(comm, *window);
  }

  /// One call on ranks 0 and 1 of the communicator.
  Result<double> timed_us(Kind kind) {
    y_.assign(position() < 2 ? static_cast<std::size_t>(length(kind)) : 0, -1);
    if (auto together = comm_->barrier(); !together) return together.error();
    Result<void> done;
    const Lap lap = lap_of([&] { done = call(kind); });
    if (!done) return done.error();
    return static_cast<double>(lap.end - lap.start) / 1e3;
  }

  [[nodiscard]] bool right(Kind kind) const {
    for (std::int32_t i = 0; i < length(kind); ++i) {
      const std::int32_t mine = position() * kChunk + i % kChunk;
      const std::int32_t expected =
          kind == Kind::all_to_all ? input(i / kChunk, mine) : input(0, mine) + input(1, mine);
      if (y_[static_cast<std::size_t>(i)] != expected) return false;
    }
    return true;
  }

 private:
  SlowLinkRank(runtime::Communicator& comm, const shmem::Region& window) : comm_(&comm), window_(window) {
    for (std::int32_t i = 0; i < kExchanged; ++i) x_.push_back(input(position(), i));
  }

  static std::int32_t input(std::int32_t rank, std::int32_t i) { return 100 * rank + i; }
  static std::int32_t length(Kind kind) { return kind == Kind::all_to_all ? kExchanged : kChunk; }
  [[nodiscard]] std::int32_t position() const { return comm_->rank().value(); }

  Result<void> call(Kind kind) {
    const ops::DetourShape shape{
        .members = kPair, .type = ops::Element::int32, .elements = kExchanged, .window = window_};
    const auto x = std::as_bytes(std::span{x_});
    const auto y = std::as_writable_bytes(std::span{y_});
    if (kind == Kind::all_to_all) return ops::all_to_all_detour(*comm_, {.shape = shape, .x = x, .y = y});
    return ops::reduce_scatter_detour(*comm_, {.shape = shape, .x = x, .y = y});
  }

  runtime::Communicator* comm_;
  shmem::Region window_;
  std::vector<std::int32_t> x_, y_;
};

/// A call of ranks 0 and 1 by themselves, and one with the memory of ranks 2 and 3.
Result<void> take_turn(Kind kind, SlowLinkRank& pair, SlowLinkRank& all, SlowLinkFigures* figures) {
  const auto direct = pair.timed_us(kind);
  if (!direct) return direct.error();
  const auto detour = all.timed_us(kind);
  if (!detour) return detour.error();
  if (figures == nullptr) return {};
  figures->direct_us.push_back(*direct);
  figures->detour_us.push_back(*detour);
  figures->right = figures->right && pair.right(kind) && all.right(kind);
  return {};
}

Result<void> communicate(runtime::World& world, SlowLinkRank& all, BothFigures& figures) {
  const auto two = world.communicator(runtime::CommunicatorId{1}, kPair);
  if (!two) return two.error();
  auto pair = SlowLinkRank::of(**two);
  if (!pair) return std::move(pair).error();
  for (const Kind kind : kKinds) {
    SlowLinkFigures* mine = world.rank() == Rank{0} ? &figures[static_cast<std::size_t>(kind)] : nullptr;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (auto done = take_turn(kind, *pair, all, mine); !done) return done;
    }
  }
  return {};
}

Result<void> lend(SlowLinkRank& all) {
  for (const Kind kind : kKinds) {
    for (int turn = 0; turn < kTurns; ++turn) {
      if (auto lent = all.timed_us(kind); !lent) return std::move(lent).error();
    }
  }
  return {};
}

/// As rank 0 sees it, whose link is the slow one.
Result<BothFigures> slow_link_figures(const runtime::LinkSpeeds& links) {
  runtime::Config config = runtime::Config::defaults();
  config.heap = Bytes{4 * shmem::kMiB};
  config.ipc_data = Bytes{shmem::kMiB};
  config.communicators = 2;
  config.links = links;
  BothFigures figures;
  auto done = runtime::World::run_as_threads(kThreadRanks, config, [&](runtime::World& world) -> Result<void> {
    auto all = SlowLinkRank::of(world.all());
    if (!all) return std::move(all).error();
    auto part = world.rank().value() < 2 ? communicate(world, *all, figures) : lend(*all);
    return part ? world.all().barrier() : part;
  });
  if (!done) return std::move(done).error();
  return figures;
}

void fill_row(BenchRow& row, BenchReport& report, const SlowLinkFigures& figures, double predicted) {
  row.ours_us = estimate(figures.detour_us).median;
  row.peer_us = estimate(figures.direct_us).median;
  row.ratio = estimate(ratios(figures.direct_us, figures.detour_us)).median;
  row.value = *row.ratio / predicted;
  const bool expected = is_as_predicted(*row.ratio, predicted);
  row.verified = figures.right && expected;
  report.text +=
      fmt::format("  {:<32}{:>12.2f}{:>12.2f}{:>8.2f}  direct over detour; the shards predict {:.2f}{}\n", row.name,
                  *row.ours_us, *row.peer_us, *row.ratio, predicted, expected ? "" : ": off by more than 15 %");
}

}  // namespace

Result<void> add_slow_link(BenchReport& report, BenchPlace& place) {
  const runtime::LinkSpeeds links = one_slow_link();
  const double predicted =
      ops::predicted_gain(links, ops::DetourGroup(kPair, kThreadRanks), kExchanged, ops::Element::int32);
  std::array rows{BenchRow{.name = "detour.slow_link", .ranks = kThreadRanks, .verified = true},
                  BenchRow{.name = "detour.slow_link.reduce_scatter", .ranks = kThreadRanks, .verified = true}};
  std::optional<Error> fault;
  if (place.world.rank() == Rank{0}) {
    const auto figures = slow_link_figures(links);
    if (!figures) fault = figures.error();
    for (std::size_t i = 0; figures && i < rows.size(); ++i) fill_row(rows[i], report, (*figures)[i], predicted);
  }
  if (auto measured = agree(place.world.all(), "the slow link", fault); !measured) return measured;
  report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  return {};
}

}  // namespace shmoe::apps
