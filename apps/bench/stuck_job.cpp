// A job for `shmoe bench diagnose`: every core of every rank waits for its left neighbour, and nobody signals. The rank
// that tells prints how many milliseconds have passed since the last of these waits began.
//
//   shmoe run -n 8 --no-prefix -- shmoe-stuck

#include <chrono>

#include "apps/shmoe/say.hpp"
#include "runtime/telling.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {
namespace {

using Clock = std::chrono::steady_clock;

/// The number before " s after the last".
double proven_after_ms(const std::string& verdict) {
  const auto label = verdict.find("\n  proven ");
  return label == std::string::npos ? 0 : 1e3 * std::stod(verdict.substr(label + 10));
}

Result<void> wait_for_ever(runtime::World& world) {
  return world.all().launch("ring", [](runtime::CoreContext& context) {
    const Rank left{(context.rank().value() + context.ranks() - 1) % context.ranks()};
    const auto event = static_cast<std::uint32_t>(context.core().value());
    context.wait(context.slots().flag().at(0, left, event), Compare::at_least, 1).ordering_only();
  });
}

int run() {
  const auto config = runtime::Config::load();
  if (!config) return 1;
  const auto world = runtime::World::create(*config);
  if (!world) return 1;
  const auto stuck = wait_for_ever(**world);
  if (stuck) return 1;
  const auto returned = Clock::now();
  (*world)->tell_once(stuck.error(), [&] {
    const double telling = std::chrono::duration<double, std::milli>(Clock::now() - returned).count();
    fmt::print("{:.3f}\n", proven_after_ms(stuck.error().context) + telling);
    say("{}", to_string(stuck.error()));
  });
  return stuck.error().code == Errc::deadlock ? kExitDeadlock : 1;
}

}  // namespace
}  // namespace shmoe::apps

int main() { return shmoe::apps::run(); }
