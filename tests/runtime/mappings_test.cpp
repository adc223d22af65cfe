// What a rank finds under the names of its peer.

#include "runtime/mappings.hpp"

#include <filesystem>
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/control_header.hpp"
#include "tests/shmem/shm_names.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using shmem::test::kShm;
using shmem::test::ShmNames;

namespace {

Config small() {
  Config config = Config::defaults();
  config.heap = Bytes{2U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  return config;
}

/// Two ranks before they have mapped one another.
struct TwoRanks {
  ShmNames names;
  JobShape shape{small(), 2};
  std::string peer = names.of("1");
  std::shared_ptr<Mappings> own = made(Rank{0}, names.of("0"));
  std::shared_ptr<Mappings> other = made(Rank{1}, peer);

  [[nodiscard]] std::shared_ptr<Mappings> made(Rank rank, const std::string& name) const {
    auto mappings = Mappings::create(shape, rank, name, 7);
    REQUIRE_MESSAGE(mappings.has_value(), to_string(mappings.error()));
    return *mappings;
  }
  [[nodiscard]] std::string path(const std::string& end) const { return (kShm / (peer + end)).native(); }
  /// Changes the first bytes of the peer's control segment.
  template <class Change>
  void change_header(Change change) const {
    const int fd = ::open(path(".ctl").c_str(), O_RDWR | O_CLOEXEC);
    auto header = std::make_unique<shmem::ControlHeader>();
    REQUIRE(::pread(fd, header.get(), sizeof *header, 0) == static_cast<ssize_t>(sizeof *header));
    change(*header);
    REQUIRE(::pwrite(fd, header.get(), sizeof *header, 0) == static_cast<ssize_t>(sizeof *header));
    ::close(fd);
  }
  [[nodiscard]] std::string refusal() const {
    const Result<void> attached = own->attach(Rank{1}, peer);
    REQUIRE(!attached.has_value());
    return to_string(attached.error());
  }
};

}  // namespace

TEST_CASE("mappings: two ranks of one build map one another") {
  const TwoRanks pair;
  const Result<void> attached = pair.own->attach(Rank{1}, pair.peer);
  REQUIRE_MESSAGE(attached.has_value(), to_string(attached.error()));
  *pair.own->memory_of(Rank{1}) = std::byte{5};
  CHECK(*pair.other->memory_of(Rank{1}) == std::byte{5});
}

TEST_CASE("mappings: a segment of another build names rank, found and expected version") {
  for (const std::uint32_t version : {0U, shmem::kLayoutVersion - 1, shmem::kLayoutVersion + 1, ~0U}) {
    const TwoRanks pair;
    pair.change_header([&](shmem::ControlHeader& header) { header.version.store(version); });
    CHECK(pair.refusal() == fmt::format("version: rank 1 has layout version {}, expected {}: use one build of shmoe "
                                        "for all ranks, and for looking at them",
                                        version, shmem::kLayoutVersion));
  }
}

TEST_CASE("mappings: a segment of another rank or job is refused") {
  const TwoRanks first;
  first.change_header([](shmem::ControlHeader& header) { header.rank = 3; });
  CHECK(first.refusal() == "mismatch: the segment of rank 1 says rank 3 of 2: give each job its own SHMOE_JOB");
  const TwoRanks second;
  second.change_header([](shmem::ControlHeader& header) { header.ranks = -1; });
  CHECK(second.refusal() == "mismatch: the segment of rank 1 says rank 1 of -1: give each job its own SHMOE_JOB");
}

TEST_CASE("mappings: a segment that is too short or too long names rank, object and both sizes") {
  for (const std::string end : {".mem", ".ctl"}) {
    const JobShape shape(small(), 2);
    const std::uint64_t size = (end == ".mem" ? shape.memory() : shape.control_memory()).value();
    for (const std::uint64_t found : {std::uint64_t{0}, std::uint64_t{1}, size - 1, size + 1, 2 * size}) {
      const TwoRanks pair;
      REQUIRE(::truncate(pair.path(end).c_str(), static_cast<off_t>(found)) == 0);
      CHECK(pair.refusal() == fmt::format("mismatch: rank 1: segment {}{} has {} bytes, expected {}: every rank must "
                                          "run the same build with the same settings",
                                          pair.peer, end, found, size));
    }
  }
}

TEST_CASE("mappings: what is no segment, or is gone, names the rank and holds nobody") {
  for (const std::string end : {".mem", ".ctl"}) {
    const TwoRanks pair;
    REQUIRE(std::filesystem::remove(pair.path(end)));
    CHECK(
        pair.refusal().starts_with(fmt::format("not found: rank 1: segment {}{} is not in /dev/shm", pair.peer, end)));
    const TwoRanks piped;
    REQUIRE(std::filesystem::remove(piped.path(end)));
    REQUIRE(::mkfifo(piped.path(end).c_str(), 0600) == 0);
    CHECK(piped.refusal().starts_with(fmt::format("permission: rank 1: segment {}{} is a pipe", piped.peer, end)));
  }
}
