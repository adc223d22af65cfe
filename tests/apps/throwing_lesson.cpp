// A lesson that throws on the host of rank 1 while rank 0 waits for it, for run_test.py.

#include <stdexcept>

#include "apps/lesson.hpp"

using namespace shmoe;

int main(int argc, char** argv) {
  const auto body = [](runtime::World& world, const lesson::Options&) -> Result<void> {
    if (world.rank() == Rank{1}) throw std::runtime_error("no such layer");
    return world.all().barrier();
  };
  return lesson::run(argc, argv, {.ranks = 2, .cores = 1}, body);
}
