#include "apps/bench/slow_link.hpp"

#include <vector>

#include "apps/bench/samples.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/collective.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/choose.hpp"
#include "ops/detour/window.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {
namespace {

constexpr std::int32_t kThreadRanks = 4;
constexpr double kSlow = 5e6;                 // bytes a second: so slow that sleeping, not copying, is the time
constexpr std::int64_t kExchanged = 600'000;  // elements of a rank's input
constexpr int kTurns = 5;
const std::vector<Rank> kPair{Rank{0}, Rank{1}};

/// Every link is equally slow.
runtime::LinkSpeeds slow_links() {
  runtime::LinkSpeeds links(kThreadRanks);
  for (Rank from{0}; from.value() < kThreadRanks; ++from) {
    for (Rank to{0}; to.value() < kThreadRanks; ++to) links.set(from, to, kSlow);
  }
  return links;
}

struct SlowLinkFigures {
  std::vector<double> direct_us;
  std::vector<double> detour_us;
  bool right = true;
};

struct SlowLinkRank {
  runtime::Communicator& comm;
  shmem::Region window;
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;

  /// A call on ranks 0 and 1 of `comm`.
  Result<void> exchange() {
    const bool member = comm.rank().value() < 2;
    return ops::all_to_all_detour(
        comm, {.shape = {.members = kPair, .type = ops::Element::int32, .elements = kExchanged, .window = window},
               .x = std::as_bytes(std::span{x}),
               .y = member ? std::as_writable_bytes(std::span{y}) : std::span<std::byte>{}});
  }
  [[nodiscard]] bool right() const {
    const std::int32_t me = comm.rank().value();
    for (std::int32_t i = 0; i < kExchanged; ++i) {
      const std::int32_t half = kExchanged / 2;
      if (y[static_cast<std::size_t>(i)] != input(i / half, me * half + i % half)) return false;
    }
    return true;
  }
  static std::int32_t input(std::int32_t rank, std::int32_t i) { return rank * 10'000'000 + i; }
};

Result<SlowLinkRank> slow_link_rank(runtime::Communicator& comm) {
  const auto window = ops::allocate_window(comm);
  if (!window) return window.error();
  std::vector<std::int32_t> x;
  for (std::int32_t i = 0; i < kExchanged; ++i) x.push_back(SlowLinkRank::input(comm.rank().value(), i));
  return SlowLinkRank{comm, *window, x, std::vector<std::int32_t>(x.size())};
}

Result<double> timed_us(SlowLinkRank& rank) {
  std::ranges::fill(rank.y, -1);
  if (auto together = rank.comm.barrier(); !together) return together.error();
  Result<void> done;
  const Lap lap = lap_of([&] { done = rank.exchange(); });
  if (!done) return done.error();
  return static_cast<double>(lap.end - lap.start) / 1e3;
}

/// Ranks 0 and 1 by themselves, then with the memory of ranks 2 and 3, by turns.
Result<void> measure(runtime::World& world, SlowLinkFigures& figures) {
  auto all = slow_link_rank(world.all());
  if (!all) return std::move(all).error();
  if (world.rank().value() >= 2) {
    for (int turn = 0; turn < kTurns; ++turn) {
      if (auto lent = timed_us(*all); !lent) return std::move(lent).error();
    }
    return world.all().barrier();
  }
  const auto two = world.communicator(runtime::CommunicatorId{1}, kPair);
  if (!two) return two.error();
  auto pair = slow_link_rank(**two);
  if (!pair) return std::move(pair).error();
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto direct = timed_us(*pair);
    if (!direct) return direct.error();
    const auto detour = timed_us(*all);
    if (!detour) return detour.error();
    if (world.rank() != Rank{0}) continue;
    figures.direct_us.push_back(*direct);
    figures.detour_us.push_back(*detour);
    figures.right = figures.right && pair->right() && all->right();
  }
  return world.all().barrier();
}

Result<SlowLinkFigures> slow_link_figures(const runtime::LinkSpeeds& links) {
  runtime::Config config = runtime::Config::defaults();
  config.heap = Bytes{16 * shmem::kMiB};
  config.ipc_data = Bytes{8 * shmem::kMiB};
  config.communicators = 2;
  config.links = links;
  SlowLinkFigures figures;
  auto done = runtime::World::run_as_threads(kThreadRanks, config,
                                             [&](runtime::World& world) { return measure(world, figures); });
  if (!done) return std::move(done).error();
  return figures;
}

}  // namespace

Result<void> add_slow_link(BenchReport& report, BenchPlace& place) {
  const runtime::LinkSpeeds links = slow_links();
  const double predicted =
      ops::predicted_gain(links, ops::DetourGroup(kPair, kThreadRanks), kExchanged, ops::Element::int32);
  std::optional<Error> fault;
  BenchRow row{.name = "detour.slow_link", .ranks = kThreadRanks, .verified = true};
  if (place.world.rank() == Rank{0}) {
    const auto figures = slow_link_figures(links);
    if (!figures) fault = figures.error();
    if (figures) {
      row.ours_us = estimate(figures->detour_us).median;
      row.peer_us = estimate(figures->direct_us).median;
      row.ratio = estimate(ratios(figures->direct_us, figures->detour_us)).median;
      row.value = *row.ratio / predicted;
      row.verified = figures->right;
      report.text += fmt::format("  {:<24}{:>12.2f}{:>12.2f}{:>8.2f}  direct over detour; the shards predict {:.2f}\n",
                                 row.name, *row.ours_us, *row.peer_us, *row.ratio, predicted);
    }
  }
  if (auto measured = agree(place.world.all(), "the slow link", fault); !measured) return measured;
  report.rows.push_back(row);
  return {};
}

}  // namespace shmoe::apps
