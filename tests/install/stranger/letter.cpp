// Rank 0 sends a number to every other rank. One file, without any build system.

#include <cstdio>
#include <span>

#include "runtime/world.hpp"

using namespace shmoe;

constexpr Offset kNumber{0};

void send_or_receive(runtime::CoreContext& context) {
  if (context.rank() == Rank{0}) {
    for (Rank to{1}; to.value() < context.ranks(); ++to) {
      const std::int64_t number = 1000 + to.value();
      context.put(to, kNumber, std::span{&number, 1});
      context.fence(to);
      context.signal(to, context.slots().flag().at(0, Rank{0}), shmem::SignalOp::set, 1);
    }
    return;
  }
  shmem::Token token = context.wait(context.slots().flag().at(0, Rank{0}), Compare::equal, 1);
  const shmem::Witness arrived = consume_token(std::move(token));
  std::int64_t number = 0;
  context.get(context.rank(), kNumber, std::span{&number, 1}, arrived);
  std::printf("rank %d got %lld\n", context.rank().value(), static_cast<long long>(number));
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
  auto done = (*world)->all().launch("letter", [](runtime::CoreContext& core) { send_or_receive(core); });
  if (done) done = (*world)->finalize();
  return done ? 0 : failed(done.error());
}
