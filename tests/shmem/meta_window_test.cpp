// The meta window is a second way to the same bytes: nothing else may tell it from the first.

#include "shmem/meta_window.hpp"

#include <array>
#include <fstream>

#include <doctest/doctest.h>

#include "shmem/layout.hpp"
#include "shmem/peers.hpp"
#include "shmem/segment.hpp"
#include "tests/shmem/shm_names.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

constexpr Bytes kBlock{8 * kMiB};
constexpr Bytes kWindow{2 * kMiB};

struct TwoBlocks {
  ShmNames names;
  AddressWindow window;
  Segment first, second;
  std::array<std::byte*, 2> places;

  TwoBlocks()
      : window(AddressWindow::reserve(2, kBlock).value()),
        first(Segment::create(names.of("0.mem"), kBlock, window.claim(0)).value()),
        second(Segment::create(names.of("1.mem"), kBlock, window.claim(1)).value()),
        places{first.data(), second.data()} {}
};

std::size_t mappings_of_this_process() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

}  // namespace

TEST_CASE("meta window: the same bytes by both ways, side by side") {
  const TwoBlocks blocks;
  const auto window = MetaWindow::map(blocks.places, kWindow);
  REQUIRE(window.has_value());
  CHECK(window->of(Rank{1}) - window->of(Rank{0}) == static_cast<std::ptrdiff_t>(kWindow.value()));
  CHECK(reinterpret_cast<std::uintptr_t>(window->of(Rank{0})) % kPageGranule == 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::byte* block = blocks.places[static_cast<std::size_t>(rank)];
    block[0] = std::byte{1};
    block[kWindow.value() - 1] = static_cast<std::byte>(2 + rank);
    CHECK(window->of(Rank{rank})[0] == std::byte{1});
    CHECK(window->of(Rank{rank})[kWindow.value() - 1] == static_cast<std::byte>(2 + rank));
    window->of(Rank{rank})[64] = static_cast<std::byte>(4 + rank);
    CHECK(block[64] == static_cast<std::byte>(4 + rank));
  }
}

TEST_CASE("meta window: peers go through it for what lies in it as a whole, and around it for the rest") {
  const TwoBlocks blocks;
  auto window = MetaWindow::map(blocks.places, kWindow);
  REQUIRE(window.has_value());
  Peers peers;
  peers.mem.assign(blocks.places.begin(), blocks.places.end());
  CHECK(peers.place(Rank{1}, Offset{64}, Bytes{8}) == blocks.places[1] + 64);
  peers.meta = std::make_shared<const MetaWindow>(*std::move(window));
  const Offset last{kWindow.value() - 8};
  CHECK(peers.place(Rank{1}, Offset{64}, Bytes{8}) == peers.meta->of(Rank{1}) + 64);
  CHECK(peers.place(Rank{0}, last, Bytes{8}) == peers.meta->of(Rank{0}) + last.value());
  CHECK(peers.place(Rank{0}, last, Bytes{9}) == blocks.places[0] + last.value());
}

TEST_CASE("meta window: it goes with its holder and leaves the blocks") {
  const TwoBlocks blocks;
  const std::size_t before = mappings_of_this_process();
  {
    const auto window = MetaWindow::map(blocks.places, kWindow);
    REQUIRE(window.has_value());
    CHECK(mappings_of_this_process() > before);
  }
  CHECK(mappings_of_this_process() == before);
  blocks.places[1][0] = std::byte{1};
}

TEST_CASE("meta window: an error where there are no addresses") {
  const std::array<std::byte*, 1> nowhere{nullptr};
  const auto window = MetaWindow::map(nowhere, Bytes{std::uint64_t{1} << 50});
  REQUIRE(!window.has_value());
  CHECK(window.error().code == Errc::system);
  CHECK(window.error().context ==
        "reserving addresses for the flags of 1 ranks: raise `ulimit -v` or vm.max_map_count");
}
