#pragma once
// What the tests of the C interface share: jobs of threads, and what a refused call says.

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/shmoe.h"

namespace shmoe::capi_test {

/// A call that must succeed.
inline void well(shmoe_status status) { CHECK_MESSAGE(status == SHMOE_OK, shmoe_last_error()); }

/// A call that must fail so, with a text that has this in it.
inline void refused(shmoe_status status, shmoe_status wanted, std::string_view text) {
  CHECK_MESSAGE(status == wanted, shmoe_last_error());
  CHECK_MESSAGE(std::string_view(shmoe_last_error()).find(text) != std::string_view::npos, shmoe_last_error(),
                " lacks: ", text);
}

/// A small world, in which only a hang reaches the limits.
inline constexpr const char* kSmall[] = {"SHMOE_HEAP=4MiB",
                                         "SHMOE_BUFFSIZE=1",
                                         "SHMOE_COMMUNICATORS=2",
                                         "SHMOE_CORES=2",
                                         "SHMOE_BOOTSTRAP_TIMEOUT_S=60",
                                         "SHMOE_WAIT_LIMIT_MS=60000",
                                         nullptr};
inline shmoe_config small_config(std::uint32_t uses = 0) {
  return {.size = sizeof(shmoe_config), .settings = kSmall, .comm_id = nullptr, .uses = uses};
}

/// What a rank of a test has.
struct RankOfTest {
  shmoe_world* world = nullptr;
  shmoe_communicator* all = nullptr;
  std::int32_t rank = 0;
};
using Body = std::function<shmoe_status(RankOfTest&)>;

/// Runs `body` on ranks that are threads.
inline shmoe_status on_ranks(std::int32_t ranks, std::uint32_t uses, const Body& body) {
  const shmoe_config config = small_config(uses);
  const auto run = [](shmoe_world* world, void* argument) {
    RankOfTest own{.world = world};
    well(shmoe_communicator_all(world, &own.all));
    well(shmoe_communicator_rank(own.all, &own.rank));
    const shmoe_status status = (*static_cast<const Body*>(argument))(own);
    well(shmoe_communicator_destroy(own.all));
    return status;
  };
  return shmoe_run_as_threads(ranks, &config, run, const_cast<Body*>(&body));
}

/// The first bytes at an address.
inline std::vector<std::byte> copy_of(const void* first, std::size_t count) {
  std::vector<std::byte> copy(count);
  if (count > 0) std::memcpy(copy.data(), first, count);
  return copy;
}

}  // namespace shmoe::capi_test
