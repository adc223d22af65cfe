// Experts in one domain, tensors in another, and groups that change: every rank in several communicators at once.

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "tests/ops/domains.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using runtime::CommunicatorId;
using test::Domain;
using test::Part;
using test::Work;

namespace {

using DomainBody = std::function<Result<std::string>(runtime::World&)>;

void check_domains(std::int32_t ranks, const runtime::Config& config, const DomainBody& body,
                   const runtime::FabricDecorator& decorate = {}) {
  std::vector<std::string> found(static_cast<std::size_t>(ranks), "not run");
  const Result<void> done = runtime::World::run_as_threads(
      ranks, config,
      [&](runtime::World& world) -> Result<void> {
        Result<std::string> own = body(world);
        if (!own) return std::move(own).error();
        found[world.rank().index()] = *std::move(own);
        return world.all().barrier();
      },
      decorate);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const std::string& text : found) CHECK(text == "");
}

runtime::Config config_of(std::int32_t cores, std::uint64_t weak_seed = 0) {
  runtime::Config config = test::domains_config(runtime::Config::defaults());
  config.cores = cores;
  config.weak_seed = weak_seed;
  config.heap = Bytes{8 * shmem::kMiB};
  config.ipc_data = Bytes{shmem::kMiB};
  config.wait_limit = std::chrono::seconds(60);
  return config;
}

void check_ep_and_tp(std::int32_t ep, std::int32_t tp, const runtime::Config& config, int rounds,
                     const runtime::FabricDecorator& decorate = {}) {
  const std::uint64_t seed = test::seed_of_run();
  CAPTURE(seed);
  CAPTURE(ep);
  CAPTURE(tp);
  const std::vector<Domain> domains = test::ep_and_tp(ep, tp);
  check_domains(
      ep * tp, config, [&](runtime::World& world) { return run_domains(world, domains, seed, rounds); }, decorate);
}

std::vector<Rank> ranks_in(std::initializer_list<int> values) {
  std::vector<Rank> list;
  for (const int value : values) list.emplace_back(value);
  return list;
}

Result<void> run_operators(Part& part, int operators) {
  for (int i = 0; i < operators; ++i) {
    if (Result<void> done = part.next(); !done) return done;
  }
  return {};
}

}  // namespace

TEST_CASE("domains: EP and TP of 4 and of 6 ranks, operators mixed") {
  struct Grid {
    std::int32_t ep, tp;
  };
  for (const Grid& grid : {Grid{2, 2}, Grid{3, 2}, Grid{2, 3}, Grid{4, 1}, Grid{1, 6}}) {
    check_ep_and_tp(grid.ep, grid.tp, config_of(1), 8);
    check_ep_and_tp(grid.ep, grid.tp, config_of(2, 5), 4);
  }
}

TEST_CASE("domains: EP and TP of 3 and of 7 ranks, where a domain may be one rank") {
  check_ep_and_tp(3, 1, config_of(2), 6);
  check_ep_and_tp(1, 3, config_of(2), 6);
  check_ep_and_tp(7, 1, config_of(1), 4);
  check_ep_and_tp(1, 7, config_of(1), 4);
}

TEST_CASE("domains: EP and TP with pauses") {
  check_ep_and_tp(2, 2, config_of(2), 4, test::pauses(test::seed_of_run()));
}

TEST_CASE("domains: groups that work apart, and then change without meeting") {
  const std::uint64_t seed = test::seed_of_run();
  CAPTURE(seed);
  const std::vector<Domain> first{{CommunicatorId{1}, ranks_in({0, 1}), {Work::low_latency}},
                                  {CommunicatorId{1}, ranks_in({2, 3, 4}), {Work::normal}},
                                  {CommunicatorId{1}, ranks_in({5}), {Work::normal, Work::tensors}}};
  const std::vector<Domain> second{{CommunicatorId{2}, ranks_in({5, 2, 0}), {Work::normal, Work::tensors}},
                                   {CommunicatorId{2}, ranks_in({4, 1}), {Work::low_latency, Work::tensors}},
                                   {CommunicatorId{2}, ranks_in({3}), {Work::low_latency}}};
  const std::vector<Domain> third{{CommunicatorId{3}, ranks_in({0, 1, 2, 3, 4, 5}), {Work::normal, Work::low_latency}},
                                  {CommunicatorId{4}, ranks_in({1, 3, 5}), {Work::tensors}}};
  check_domains(6, config_of(2), [&](runtime::World& world) -> Result<std::string> {
    std::string found;
    for (const auto* domains : {&first, &second, &third}) {
      Result<std::string> own = run_domains(world, *domains, seed, 4);
      if (!own) return own;
      found += *own;
    }
    return found;
  });
}

// Rank 3 makes its first communicator with rank 1 while the rows of the other one are on their way.
TEST_CASE("domains: a low-latency dispatch stays open while other communicators are made, used, and open one too") {
  const std::uint64_t seed = test::seed_of_run();
  CAPTURE(seed);
  check_domains(4, config_of(2), [&](runtime::World& world) -> Result<std::string> {
    auto outer = make_part(Work::low_latency, world.all(), seed);
    if (!outer) return std::move(outer).error();
    if (Result<void> begun = run_operators(**outer, 1); !begun) return std::move(begun).error();
    const bool odd = world.rank().value() % 2 == 1;
    const auto pair = world.communicator(CommunicatorId{1}, odd ? ranks_in({3, 1}) : ranks_in({0, 2}));
    if (!pair) return pair.error();
    auto inner = make_part(Work::low_latency, **pair, seed + 1);
    auto step = make_part(Work::normal, **pair, seed + 2);
    auto tensors = make_part(Work::tensors, **pair, seed + 3);
    if (!inner || !step || !tensors) return Error{.code = Errc::out_of_memory, .context = "a part"};
    // The rows of `inner` are received last, those of `outer` before it.
    for (const auto& [part, operators] :
         {std::pair{inner->get(), 1}, std::pair{step->get(), 8}, std::pair{tensors->get(), 6},
          std::pair{outer->get(), 2}, std::pair{step->get(), 4}, std::pair{inner->get(), 3},
          std::pair{outer->get(), 5}}) {
      if (Result<void> done = run_operators(*part, operators); !done) return std::move(done).error();
    }
    return (*outer)->found() + (*inner)->found() + (*step)->found() + (*tensors)->found();
  });
}
