// The scenarios, with ranks as threads, over every body.

#include <doctest/doctest.h>

#include "tests/shmem/fabric_scenarios.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

void run_all(Body body, CopyPlan copy = {}) {
  const std::uint64_t seed = test_seed();
  for (const NamedScenario& scenario : kScenarios) {
    if (is_weak(body) && !scenario.moves_data) continue;
    INFO(name_of(body) << ": " << scenario.name << ", seed " << seed);
    Job job(body, {.ranks = scenario.ranks,
                   .cores = scenario.cores,
                   .oversubscribed = scenario.oversubscribed,
                   .copy = copy,
                   .seed = seed});
    const std::string failures = job.run(scenario.run);
    CHECK_MESSAGE(failures.empty(), failures);
  }
}

}  // namespace

TEST_CASE("conformance: threads over plain memory") { run_all(Body::threads); }
TEST_CASE("conformance: mapped segments, each rank with mappings of its own") { run_all(Body::segments); }
TEST_CASE("conformance: delayed visibility over plain memory") { run_all(Body::weak_threads); }
TEST_CASE("conformance: delayed visibility over segments") { run_all(Body::weak_segments); }
TEST_CASE("conformance: every row streams") {
  for (const Body body : kBodies) run_all(body, {.kind = CopyKind::streaming, .long_row = 0});
}
TEST_CASE("conformance: every row by the copy instruction, some past the cache") {
  for (const Body body : kBodies) run_all(body, {.kind = CopyKind::movsb, .long_row = 0, .near_bytes = 64});
}
