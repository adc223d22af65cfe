// What a rank says of its job in the first page of its `.ctl`.

#include "runtime/control_header.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

Config config_with_families(int count) {
  Config config = Config::defaults();
  config.cores = 3;
  config.heap = Bytes{6U << 20};
  config.ipc_data = Bytes{4U << 20};
  config.communicators = 5;
  config.declare_slots = [count](shmem::SlotPlan& plan, const shmem::BlockMap&) {
    for (int i = 0; i < count; ++i) {
      plan.declare({.name = fmt::format("credit {}", i),
                    .base = Offset{32 * 8 * static_cast<std::uint64_t>(i)},
                    .buffers = 2,
                    .sources = 4,
                    .writers = shmem::Writers::source_rank,
                    .op = shmem::SignalOp::add});
    }
  };
  return config;
}

struct Written {
  explicit Written(const Config& config) : shape(config, 4), header(std::make_unique<shmem::ControlHeader>()) {
    write_header(*header, shape, Rank{2}, 0x1234);
  }
  JobShape shape;
  std::unique_ptr<shmem::ControlHeader> header;
};

}  // namespace

TEST_CASE("control header: an inspector finds the shape of the job, declared families included") {
  for (const Profile& profile : kProfiles) {
    Config config = config_with_families(2);
    config.profile = profile;
    const Written written(config);
    const Result<JobShape> read = shape_in(*written.header);
    REQUIRE(read.has_value());
    CHECK(read->ranks == 4);
    CHECK(read->communicators == 5);
    CHECK(read->profile == profile.id);
    CHECK(read->memory() == written.shape.memory());
    CHECK(read->control_memory() == written.shape.control_memory());
    CHECK(read->map.challenge() == written.shape.map.challenge());
    CHECK(read->slots.digest() == written.shape.slots.digest());
    CHECK(read->slots.describe(read->slots.family("credit 1").at(1, Rank{3})) == "credit 1[1] from rank 3");
    CHECK(written.header->rank == 2);
    CHECK(written.header->job == 0x1234);
  }
}

TEST_CASE("control header: of another build, of too many families, or wrong") {
  Written written(config_with_families(1));
  written.header->version = shmem::kLayoutVersion + 1;
  Result<JobShape> read = shape_in(*written.header);
  REQUIRE(!read.has_value());
  CHECK(read.error().code == Errc::version);
  CHECK(read.error().context == fmt::format("rank 2 has layout version {}, expected {}: use one build of shmoe for all "
                                            "ranks, and for looking at them",
                                            shmem::kLayoutVersion + 1, shmem::kLayoutVersion));
  written.header->version = shmem::kLayoutVersion;
  CHECK(shape_in(*written.header).has_value());
  written.header->heap += 2U << 20;
  read = shape_in(*written.header);
  REQUIRE(!read.has_value());
  CHECK(read.error().code == Errc::mismatch);
  written.header->heap -= 2U << 20;
  written.header->family[4].base = 7;
  read = shape_in(*written.header);
  REQUIRE(!read.has_value());
  CHECK(read.error().context.find("begins at 0x7, no multiple of 32") != std::string::npos);

  for (std::int32_t* number : {&written.header->ranks, &written.header->communicators, &written.header->cores}) {
    const std::int32_t right = *number;
    for (const std::int32_t wrong : {-1, 0, 2'000'000'000}) {
      *number = wrong;
      read = shape_in(*written.header);
      REQUIRE(!read.has_value());
      CHECK(read.error().context.find("contradicts itself: no such job") != std::string::npos);
    }
    *number = right;
  }

  CHECK(shape_in(*Written(config_with_families(76)).header).has_value());
  read = shape_in(*Written(config_with_families(77)).header);
  REQUIRE(!read.has_value());
  CHECK(read.error().code == Errc::capacity_exceeded);
  CHECK(read.error().context == "the job declares 81 slot families; only jobs with up to 80 can be looked at");
}
