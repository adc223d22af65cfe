// An operator of the library: every rank gets the row of its left neighbour.

#include <array>
#include <cstdio>
#include <span>

#include "ops/skeleton.hpp"
#include "runtime/world.hpp"

using namespace shmoe;

constexpr Offset kInbox{0};
using Row = std::array<std::int64_t, 4>;

Result<void> rotate_once(runtime::World& world) {
  const std::int64_t me = world.rank().value();
  const Row row{me, 10 * me, 100 * me, 1000 * me};
  if (auto done = ops::rotate(world.all(), {.row = std::as_bytes(std::span{row}), .inbox = kInbox}); !done) return done;
  const auto inbox = world.all().local<std::int64_t>(kInbox, row.size());
  std::printf("rank %d: %lld %lld %lld %lld\n", world.rank().value(), static_cast<long long>(inbox[0]),
              static_cast<long long>(inbox[1]), static_cast<long long>(inbox[2]), static_cast<long long>(inbox[3]));
  return world.finalize();
}

int failed(const Error& error) {
  std::fprintf(stderr, "%s\n", to_string(error).c_str());
  return 1;
}

int main() {
  const auto config = runtime::Config::load();
  if (!config) return failed(config.error());
  const auto world = runtime::World::create(*config);
  if (!world) return failed(world.error());
  const auto done = rotate_once(**world);
  return done ? 0 : failed(done.error());
}
