// What a job makes of the measured copies.

#include <doctest/doctest.h>

#include "runtime/copy_choice.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using shmem::CopyKind;
using shmem::CopyTimes;
using shmem::Time;

namespace {

/// Cached, streaming, movsb.
CopyTimes times(int cached, int streaming, int movsb) { return {{Time{cached}, Time{streaming}, Time{movsb}}}; }

CopyMeasurement measured(const CopyTimes& own, const CopyTimes& shared) {
  return {.own_bytes = Bytes{1000}, .shared_bytes = Bytes{8000}, .own = own, .shared = shared};
}

}  // namespace

TEST_CASE("rows stay in the shared cache where that is as fast as going past it, each core its part") {
  const CopyMeasurement stays = measured(times(100, 200, 100), times(100, 95, 100));
  CHECK(copy_plan(stays, 1).near_bytes == 8000);
  CHECK(copy_plan(stays, 2).near_bytes == 4000);
  CHECK(copy_plan(stays, 16).near_bytes == 500);
  CHECK(copy_plan(stays, 1).kind == CopyKind::cached);
}

TEST_CASE("rows go past a shared cache that does not keep them; what a core's own cache holds stays there") {
  const CopyMeasurement leaves = measured(times(100, 200, 50), times(100, 60, 100));
  CHECK(copy_plan(leaves, 1).near_bytes == 1000);
  CHECK(copy_plan(leaves, 16).near_bytes == 500);
  CHECK(copy_plan(leaves, 1).kind == CopyKind::movsb);
}

TEST_CASE("a plan as text") {
  CHECK(to_text(shmem::CopyPlan{.kind = CopyKind::movsb}) == "movsb");
  CHECK(to_text(shmem::CopyPlan{.near_bytes = 4096}) == "cached, streaming after 4 KiB");
}
