// Every word of the tile language, between neighbours in a ring, and what each promises about the words behind it.

#include <array>
#include <optional>

#include "apps/check/kernels.hpp"
#include "apps/check/operators.hpp"
#include "ops/tile/credits.hpp"
#include "ops/tile/tile.hpp"

namespace shmoe::apps {
namespace {

using ops::tile::Cmp;
using ops::tile::Signal;
using ops::tile::Signals;
using ops::tile::Symmetric;
using ops::tile::Tile;
using runtime::Communicator;
using runtime::CoreContext;
using runtime::check::Program;
using runtime::check::Setting;
using runtime::check::Shape;
using shmem::Witness;

constexpr std::uint32_t kEvents = 12;
constexpr std::size_t kMostPeers = 64;
constexpr Symmetric<std::int64_t> kCells{Offset{32 * 1024}};

void declare_word_slots(shmem::SlotPlan& plan, const shmem::BlockMap& /*map*/) {
  const auto ranks = static_cast<std::uint32_t>(plan.ranks());
  plan.declare({.name = "word", .base = Offset{0}, .sources = ranks, .events = kEvents});
  plan.declare({.name = "peer", .base = Offset{24 * 1024}, .sources = ranks});
  ops::tile::declare_credits(plan, "token", Offset{26 * 1024}, 1);
  ops::tile::declare_credits(plan, "door", Offset{28 * 1024}, 1);
}

/// One round on one core. Core 0 plays the ring, core 1 the other side of a door within the rank.
class TileWords {
 public:
  TileWords(CoreContext& context, std::int64_t round)
      : context_(context),
        tile_(context),
        word_(context.slots().family("word")),
        peer_(context.slots().family("peer")),
        token_(context.slots().family("token")),
        door_(context.slots().family("door")),
        round_(round) {}

  void run() {
    if (tile_.num_ranks() == 1 || context_.core() > Core{1}) return;
    if (context_.core() == Core{1}) return answer_doors();
    credits();
    transfers();
    fences();
    comparisons();
    if (context_.cores() > 1) doors();
    gets();
    from_everybody();
    from_all();
    from_some();
  }

 private:
  [[nodiscard]] Rank right() const { return Rank{(tile_.rank().value() + 1) % tile_.num_ranks()}; }
  [[nodiscard]] Rank left() const { return Rank{(tile_.rank().value() + tile_.num_ranks() - 1) % tile_.num_ranks()}; }
  [[nodiscard]] std::int64_t step(std::int64_t n) const { return 100 * (round_ + 1) + n; }
  /// What a rank writes into a cell.
  [[nodiscard]] std::int64_t content(Rank from, std::int64_t cell) const {
    return 1'000'000 * from.value() + 1000 * round_ + cell;
  }
  /// This rank's event at another one, which is a slot of it.
  [[nodiscard]] Signal<std::int64_t> event(std::int64_t n) const { return word_.at(0, tile_.rank(), n); }
  [[nodiscard]] Signal<std::int64_t> event_of_left(std::int64_t n) const { return word_.at(0, left(), n); }

  void store(Rank to, std::int64_t cell) {
    const std::int64_t value = content(tile_.rank(), cell);
    tile_.store(tile_.symm_at(kCells + cell, to), {&value, 1});
  }
  void store_and_notify(std::int64_t cell, std::int64_t n, std::int64_t value) {
    store(right(), cell);
    tile_.fence();
    tile_.notify(event(n), right(), step(value));
  }
  void expect(Rank from, std::int64_t cell, const Witness& ordered) {
    std::int64_t value = 0;
    tile_.load(ops::tile::Ready<std::int64_t>{tile_.symm_at(kCells + cell, tile_.rank()), ordered}, {&value, 1});
    if (value != content(from, cell)) wrong(context_, "a cell that should have arrived");
  }
  Witness await(std::int64_t n, std::int64_t value) {
    return consume_token(tile_.wait(event_of_left(n), 1, step(value)));
  }

  /// A put with its signal is a signal too: a peer's slot is looked at only once it has landed.
  void credits() {
    const Signal<std::int64_t> mine = token_.at(0, tile_.rank(), 0);
    const Signal<std::int64_t> lefts = token_.at(0, left(), 0);
    for (std::int64_t cell = 0; cell < 2; ++cell) {
      const std::int64_t value = content(tile_.rank(), cell);
      tile_.wait(tile_.symm_at(mine, right()), 1, 0).ordering_only();
      tile_.putmem_signal_nbi(kCells, {&value, 1}, mine, 1, right());
      const Witness full = consume_token(tile_.wait(lefts, 1, 1));
      std::int64_t seen = 0;
      tile_.getmem({&seen, 1}, kCells, tile_.rank(), full);
      if (seen != content(left(), cell)) wrong(context_, "what came with a signal");
      tile_.notify(lefts, tile_.rank(), 0);
    }
  }

  void transfers() {
    const auto value = [&](std::int64_t cell) { return content(tile_.rank(), cell); };
    const std::array values{value(2), value(3), value(4), value(5), value(6)};
    tile_.putmem(kCells + 2, {values.data(), 1}, right());
    tile_.notify(event(0), right(), step(1));
    tile_.putmem_signal(kCells + 3, {&values[1], 1}, event(1), step(1), right());
    tile_.notify(event(2), right(), step(1));
    tile_.putmem_signal_nbi(kCells + 4, {&values[2], 1}, event(3), step(1), right());
    tile_.putmem_nbi(kCells + 5, {&values[3], 1}, right());
    tile_.quiet();
    tile_.notify(event(4), right(), step(1));
    tile_.putmem((kCells + 6).at, std::as_bytes(std::span(&values[4], 1)), right());
    tile_.notify(event(5), right(), step(1));
    // In the order in which they were sent: what comes later is no help.
    expect(left(), 2, await(0, 1));
    expect(left(), 3, await(2, 1));
    tile_.wait(event_of_left(1), 1, step(1)).ordering_only();
    expect(left(), 4, await(3, 1));
    expect(left(), 5, await(4, 1));
    expect(left(), 6, await(5, 1));
  }

  /// One fence for stores to several ranks, before the notify of each.
  void fences() {
    for (Rank to{0}; to.value() < tile_.num_ranks(); ++to) store(to, 100 + tile_.rank().value());
    tile_.fence();
    for (Rank to{0}; to.value() < tile_.num_ranks(); ++to) tile_.notify(event(6), to, step(1));
    for (Rank from{0}; from.value() < tile_.num_ranks(); ++from) {
      expect(from, 100 + from.value(), consume_token(tile_.wait(word_.at(0, from, 6), 1, step(1))));
    }
  }

  /// A value that is not the one, then that.
  void comparisons() {
    for (const std::int64_t n : {7, 8, 9}) {
      store_and_notify(2 * n, n, 1);
      store_and_notify(2 * n + 1, n, 2);
    }
    expect(left(), 15, consume_token(tile_.signal_wait_until(event_of_left(7), Cmp::gt, step(1))));
    expect(left(), 17, consume_token(tile_.signal_wait_until(event_of_left(8), Cmp::ge, step(2))));
    std::optional<shmem::Token> seen;
    while (!seen) {
      std::optional<shmem::Token> token = tile_.test(event_of_left(9), Cmp::ge, step(2));
      if (token) seen.emplace(std::move(*token));
    }
    expect(left(), 19, consume_token(std::move(*seen)));
    store_and_notify(20, 10, 2);
    const std::int64_t before = round_ == 0 ? 0 : step(2) - 100;
    expect(left(), 20, consume_token(tile_.signal_wait_until(event_of_left(10), Cmp::ne, before)));
  }

  struct Closed {
    Cmp cmp;
    std::int64_t value;
  };
  static constexpr std::array kClosed{Closed{Cmp::lt, 1}, Closed{Cmp::le, 0}, Closed{Cmp::eq, 0}};

  /// Opens a door, and waits until the other core has closed it.
  void doors() {
    const Signal<std::int64_t> door = door_.at(0, tile_.rank(), 0);
    for (std::size_t i = 0; i < kClosed.size(); ++i) {
      tile_.notify(door, tile_.rank(), 1);
      const auto closed = consume_token(tile_.signal_wait_until(door, kClosed[i].cmp, kClosed[i].value));
      expect(tile_.rank(), 21 + static_cast<std::int64_t>(i), closed);
    }
  }
  void answer_doors() {
    const Signal<std::int64_t> door = door_.at(0, tile_.rank(), 0);
    for (std::size_t i = 0; i < kClosed.size(); ++i) {
      tile_.signal_wait_until(door, Cmp::eq, 1).ordering_only();
      store(tile_.rank(), 21 + static_cast<std::int64_t>(i));
      tile_.fence();
      tile_.notify(door, tile_.rank(), 0);
    }
  }

  void gets() {
    store(tile_.rank(), 24);
    tile_.fence();
    tile_.notify(event(11), right(), step(1));
    std::int64_t value = 0;
    tile_.getmem({&value, 1}, kCells + 24, left(), await(11, 1));
    if (value != content(left(), 24)) wrong(context_, "a cell of the left rank");
  }

  [[nodiscard]] Signal<std::int64_t> peer_of(Rank source) const { return peer_.at(0, source, 0); }
  [[nodiscard]] std::array<int, kMostPeers> all_but_own() const {
    std::array<int, kMostPeers> mask{};
    mask[tile_.rank().index()] = 1;
    return mask;
  }
  template <class Act>
  void each_peer(Act act) const {
    for (Rank peer{0}; peer.value() < tile_.num_ranks(); ++peer) {
      if (peer != tile_.rank()) act(peer);
    }
  }

  /// Slots in a row.
  void from_everybody() {
    for (Rank to{0}; to.value() < tile_.num_ranks(); ++to) store(to, 400 + tile_.rank().value());
    tile_.fence();
    for (Rank to{0}; to.value() < tile_.num_ranks(); ++to) tile_.notify(peer_of(tile_.rank()), to, step(0));
    const auto ranks = static_cast<std::uint32_t>(tile_.num_ranks());
    const auto everybody = consume_token(tile_.wait(peer_of(Rank{0}), ranks, step(0), Compare::at_least));
    for (Rank from{0}; from.value() < tile_.num_ranks(); ++from) expect(from, 400 + from.value(), everybody);
  }

  void from_all() {
    const auto ranks = static_cast<std::uint32_t>(tile_.num_ranks());
    const std::array<int, kMostPeers> own = all_but_own();
    const std::span<const int> mask = std::span(own).first(ranks);
    const auto tell = [&](std::int64_t cell, std::int64_t value) {
      each_peer([&](Rank peer) { store(peer, cell + tile_.rank().value()); });
      tile_.fence();
      each_peer([&](Rank peer) { tile_.notify(peer_of(tile_.rank()), peer, value); });
    };
    tell(200, step(1));
    const Witness first = tile_.wait_until_all(peer_of(Rank{0}), ranks, Cmp::ge, step(1), mask);
    each_peer([&](Rank peer) { expect(peer, 200 + peer.value(), first); });
    tell(300, step(10 + tile_.rank().value()));
    std::array<std::int64_t, kMostPeers> values{};
    for (std::size_t i = 0; i < ranks; ++i) values[i] = step(10 + static_cast<std::int64_t>(i));
    const Witness second =
        tile_.wait_until_all(peer_of(Rank{0}), Cmp::ge, std::span<const std::int64_t>(values).first(ranks), mask);
    each_peer([&](Rank peer) { expect(peer, 300 + peer.value(), second); });
  }

  /// 80 from the left and 79 from everybody else.
  void from_some() {
    const auto ranks = static_cast<std::uint32_t>(tile_.num_ranks());
    const std::array<int, kMostPeers> own = all_but_own();
    const std::span<const int> mask = std::span(own).first(ranks);
    const Signal<std::int64_t> first = peer_of(Rank{0});
    store(right(), 35);
    tile_.fence();
    each_peer([&](Rank peer) { tile_.notify(peer_of(tile_.rank()), peer, step(peer == right() ? 80 : 79)); });
    const Tile::Found found = tile_.wait_until_any(first, ranks, Cmp::ge, step(80), mask);
    if (found.index != left().index()) wrong(context_, "which one has come");
    expect(left(), 35, found.ordered);
    tile_.wait_until_all(first, ranks, Cmp::ge, step(79), mask);
    std::array<std::size_t, kMostPeers> indices{};
    const auto some = [&](std::int64_t value) {
      return tile_.wait_until_some(first, ranks, indices, Cmp::ge, step(value), mask).count;
    };
    if (some(79) != ranks - 1) wrong(context_, "how many have come");
    std::size_t at = 0;
    each_peer([&](Rank peer) {
      if (indices[at++] != peer.index()) wrong(context_, "which have come");
    });
    if (some(80) != 1 || indices[0] != left().index()) wrong(context_, "the one that has come");
  }

  CoreContext& context_;
  Tile tile_;
  Signals<std::int64_t> word_;
  Signals<std::int64_t> peer_;
  Signals<std::int64_t> token_;
  Signals<std::int64_t> door_;
  std::int64_t round_;
};

}  // namespace

std::vector<Program> tile_word_programs() {
  return {{.name = "tile_words",
           .what = "every word of the tile language between neighbours, with what it promises",
           .shape = [](const Setting&, Shape& shape) { shape.declare_slots = declare_word_slots; },
           .make =
               [](const Setting& setting) {
                 return [rounds = setting.rounds](Communicator& comm) -> Result<void> {
                   for (std::int64_t round = 0; round < rounds; ++round) {
                     Result<void> done = comm.launch("tile_words", [&](CoreContext& context) {
                       runtime::ZeroBufferSync sync(context);
                       TileWords(context, round).run();
                       sync.barrier_all();
                     });
                     if (!done) return done;
                   }
                   return {};
                 };
               },
           .usual = {.ranks = 3, .cores = 2, .rounds = 2}}};
}

}  // namespace shmoe::apps
