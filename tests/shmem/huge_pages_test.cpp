// Huge pages are a matter of speed only: what is committed holds the same bytes with and without them.

#include "shmem/huge_pages.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <string>

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "shmem/layout.hpp"
#include "shmem/segment.hpp"
#include "tests/shmem/shm_names.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

constexpr Bytes kSize{8 * kMiB};

/// A segment at a place as World gives it.
struct Placed {
  ShmNames names;
  AddressWindow window;
  Segment segment;

  Placed()
      : window(AddressWindow::reserve(1, kSize).value()),
        segment(Segment::create(names.of("0.mem"), kSize, window.claim(0)).value()) {}

  [[nodiscard]] std::span<std::byte> bytes() const { return {segment.data(), kSize.value()}; }
  [[nodiscard]] std::uint64_t in_use() const {
    struct stat info {};
    return ::stat((kShm / names.of("0.mem")).c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512
                                                                  : 0;
  }
  /// Bytes of this mapping that lie on huge pages.
  [[nodiscard]] std::uint64_t on_huge_pages() const {
    std::ifstream maps{"/proc/self/smaps"};
    const std::string start = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(segment.data()));
    bool mine = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find('-') < line.find(' ')) mine = line.starts_with(start);
      constexpr std::string_view kField = "ShmemPmdMapped:";
      if (mine && line.starts_with(kField)) return std::stoull(line.substr(kField.size())) * kKiB;
    }
    return 0;
  }
};

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
}

}  // namespace

TEST_CASE("huge pages: the whole areas of a commit, where the system has them; the rest small") {
  Placed placed;
  REQUIRE(placed.segment.commit(Offset{kMiB}, Bytes{6 * kMiB}).has_value());  // areas 1 and 2 as a whole
  CHECK(placed.in_use() == 6 * kMiB);
  CHECK(all_are(placed.bytes(), std::byte{0}));
  if (why_no_huge_pages()) {
    MESSAGE("no huge pages here: " << *why_no_huge_pages());
  } else if (!placed.segment.no_huge_pages()) {
    CHECK(placed.on_huge_pages() == 4 * kMiB);
  }
}

TEST_CASE("huge pages: bytes that are there stay") {
  Placed placed;
  REQUIRE(placed.segment.commit(Offset{2 * kMiB + 4096}, Bytes{4096}).has_value());
  std::ranges::fill(placed.bytes().subspan(2 * kMiB + 4096, 4096), std::byte{7});
  REQUIRE(placed.segment.commit(Offset{2 * kMiB}, Bytes{4 * kMiB}).has_value());
  REQUIRE(placed.segment.commit(Offset{2 * kMiB}, Bytes{4 * kMiB}).has_value());
  CHECK(all_are(placed.bytes().subspan(2 * kMiB, 4096), std::byte{0}));
  CHECK(all_are(placed.bytes().subspan(2 * kMiB + 4096, 4096), std::byte{7}));
  CHECK(all_are(placed.bytes().subspan(2 * kMiB + 8192, 4 * kMiB - 8192), std::byte{0}));
}

TEST_CASE(
    "huge pages: what is spread lies on huge pages, and the little that was asked for is committed all the same") {
  Placed placed;
  placed.segment.spread(Offset{0}, Bytes{2 * kMiB}, 1);
  REQUIRE(placed.segment.commit(Offset{0}, Bytes{8192}).has_value());
  CHECK(all_are(placed.bytes().first(2 * kMiB), std::byte{0}));
  struct statvfs shm {};
  REQUIRE(::statvfs(kShm.c_str(), &shm) == 0);
  const bool room = shm.f_bavail * shm.f_frsize > 32 * kMiB;
  if (why_no_huge_pages() || placed.segment.no_huge_pages() || !room) {
    MESSAGE("no huge pages here");
  } else {
    CHECK(placed.in_use() == 2 * kMiB);
    CHECK(placed.on_huge_pages() == 2 * kMiB);
  }
}

TEST_CASE("huge pages: nothing is spread where all owners together would take much of the room") {
  Placed placed;
  struct statvfs shm {};
  REQUIRE(::statvfs(kShm.c_str(), &shm) == 0);
  const auto owners = static_cast<std::int32_t>(shm.f_blocks * shm.f_frsize / (8 * 2 * kMiB) + 1);
  placed.segment.spread(Offset{0}, Bytes{2 * kMiB}, owners);
  REQUIRE(placed.segment.commit(Offset{0}, Bytes{8192}).has_value());
  CHECK(placed.in_use() == 8192);
}

TEST_CASE("huge pages: a small commit takes small pages") {
  Placed placed;
  REQUIRE(placed.segment.commit(Offset{0}, Bytes{2 * kMiB - 4096}).has_value());
  REQUIRE(placed.segment.commit(Offset{3 * kMiB}, Bytes{2 * kMiB}).has_value());
  CHECK(placed.in_use() == 4 * kMiB - 4096);
  CHECK(placed.on_huge_pages() == 0);
  CHECK(!placed.segment.no_huge_pages());
}

TEST_CASE("huge pages: where the system refuses them, small ones do, and it can be told why") {
  const Ending ending = in_child([] {
    if (::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return 0;
    Placed placed;
    if (!why_no_huge_pages()) return 1;
    if (!placed.segment.commit(Offset{0}, kSize)) return 2;
    if (!placed.segment.no_huge_pages()) return 3;
    if (placed.in_use() != kSize.value()) return 4;
    std::ranges::fill(placed.bytes(), std::byte{1});
    placed.segment.unlink();
    return 0;
  });
  CHECK(ending.signal == 0);
  CHECK(ending.exit_code == 0);
}
