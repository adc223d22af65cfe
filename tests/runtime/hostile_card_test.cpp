// A rank that knows the job and hands in an id card that lacks something.

#include <algorithm>
#include <future>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "bootstrap/wire.hpp"
#include "runtime/job.hpp"
#include "runtime/process_watch.hpp"
#include "shmem/layout.hpp"

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

bootstrap::Environment environment_of(int rank) {
  return [rank](std::string_view name) -> std::optional<std::string> {
    if (name == "SHMOE_RANK") return std::to_string(rank);
    if (name == "SHMOE_SIZE") return "2";
    if (name == "SHMOE_JOB") return fmt::format("hostile-card-{}", getpid());
    // An address of this process alone.
    if (name == "SHMOE_COMM_ID") return fmt::format("127.78.{}.{}:23460", getpid() / 250 % 250, 1 + getpid() % 250);
    return std::nullopt;
  };
}

struct Outcome {
  std::string of_rank_0;
  bootstrap::Blob card_of_rank_0;
};

/// Rank 0 starts, and rank 1 hands in `card`.
Outcome start_with(const bootstrap::Blob& card) {
  Config config = Config::defaults();
  config.bootstrap_timeout = std::chrono::seconds(40);
  config.copy = shmem::CopyKind::cached;
  config.environment = environment_of(0);
  auto rank_0 = std::async(std::launch::async, [&] {
    const Result<Job> job = join_processes(config);
    return job ? std::string("ok") : to_string(job.error());
  });
  const auto launch = bootstrap::detect_launch(environment_of(1));
  REQUIRE(launch.has_value());
  const auto endpoint = bootstrap::choose_endpoint({}, environment_of(1), *launch);
  REQUIRE(endpoint.has_value());
  auto exchange = bootstrap::SocketExchange::connect({.launch = *launch,
                                                      .endpoint = *endpoint,
                                                      .layout_version = shmem::kLayoutVersion,
                                                      .timeout = config.bootstrap_timeout});
  REQUIRE_MESSAGE(exchange.has_value(), to_string(exchange.error()));
  CHECK(exchange->all_gather({}).has_value());  // that it could read its card
  const auto cards = exchange->all_gather(card);
  exchange->close();
  return {rank_0.get(), cards ? cards->front() : bootstrap::Blob{}};
}

/// The last letter of a fact's name becomes another one.
bootstrap::Blob without(bootstrap::Blob card, std::string_view name) {
  bootstrap::Packer out;
  out.text(name);
  const bootstrap::Blob pattern = out.take();
  const auto at = std::search(card.begin(), card.end(), pattern.begin(), pattern.end());
  REQUIRE(at != card.end());
  *(at + static_cast<std::ptrdiff_t>(pattern.size()) - 1) = std::byte{'_'};
  return card;
}

}  // namespace

TEST_CASE("hostile card: what a rank does not state is an error that names it") {
  const Outcome first = start_with({});
  CHECK(first.of_rank_0 == "io: the id card of rank 1 does not parse: start the same build on every rank");
  for (const char* name : {"segment", "copy", "copied near", "user", "cpus", kPidsFact}) {
    CHECK(start_with(without(first.card_of_rank_0, name)).of_rank_0 ==
          fmt::format("mismatch: rank 1 does not state its {}: start the same build on every rank", name));
  }
}
