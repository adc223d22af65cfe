// A program as a user writes one, for `shmoe bench start`: it ends after its first operators and says how long it took
// from a moment on the clock of the machine until all ranks had finished notify, which every rank waits for.
//
//   shmoe run -n 8 --no-prefix -- shmoe-first-operator 123456789        prints the nanoseconds since then

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/say.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/pipeline.hpp"
#include "runtime/telling.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {
namespace {

/// One token for the expert of each rank.
Result<void> run_operators(runtime::Communicator& comm) {
  const auto experts = ops::ExpertMap::even(comm.ranks(), comm.ranks());
  const ops::Routing routing{1, {(comm.rank().value() + 1) % comm.ranks()}};
  auto buffers = ops::EpBuffers::allocate(comm, comm.ranks(), DType::bf16, 64);
  if (!buffers) return std::move(buffers).error();
  ops::LayoutTables layout;
  if (auto counted = ops::layout(comm, {routing, experts, buffers->next_counts()}, layout); !counted) return counted;
  ops::NotifyTables notify;
  if (auto placed = ops::notify(comm, {.layout = layout, .experts = experts}, notify); !placed) return placed;
  if (notify.recv_rows == 1) return {};
  return Error{.code = Errc::mismatch, .context = fmt::format("notify says {} rows, not 1", notify.recv_rows)};
}

Result<void> run(std::int64_t since) {
  const auto config = runtime::Config::load();
  if (!config) return config.error();
  const auto world = runtime::World::create(*config);
  if (!world) return world.error();
  runtime::Communicator& comm = (*world)->all();
  if (auto done = run_operators(comm); !done) return done;
  const std::int64_t elapsed = wall_ns() - since;
  const auto place = comm.allocate(Bytes{sizeof elapsed});
  if (!place) return place.error();
  const auto all = gather(comm, *place, elapsed);
  if (!all) return all.error();
  if (auto ended = (*world)->finalize(); !ended) return ended;
  if (comm.rank() == Rank{0}) fmt::print("{}\n", *std::ranges::max_element(*all));
  return {};
}

}  // namespace
}  // namespace shmoe::apps

int main(int argc, char** argv) {
  std::int64_t since = 0;
  const char* text = argc == 2 ? argv[1] : "";
  if (std::from_chars(text, text + std::strlen(text), since).ec != std::errc{}) {
    shmoe::apps::say("usage: shmoe-first-operator NANOSECONDS");
    return 1;
  }
  const auto done = shmoe::apps::run(since);
  if (done) return 0;
  shmoe::runtime::tell_failed_start(done.error(),
                                    [&] { shmoe::apps::say("shmoe-first-operator: {}", to_string(done.error())); });
  return 1;
}
