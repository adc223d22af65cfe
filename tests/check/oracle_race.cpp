// A row that is read without a wait, where the thread sanitiser must see it. usage: check_oracle_race ordered|unordered
// The checker's own detector is silent: the words are the program's, not the fabric's.

#include <cstdio>
#include <string_view>
#include <vector>

#include "runtime/check/explore.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;

int main(int argc, char** argv) {
  const bool ordered = argc > 1 && std::string_view(argv[1]) == "ordered";
  Shape shape = test::two_ranks();
  shape.weak = false;
  World world(shape);
  int row = 0;
  const Body body = [&](Communicator& comm) {
    return comm.launch("hand over", [&](CoreContext& context) {
      const Slot slot = context.slots().flag().at(0, Rank{0});
      if (context.rank() == Rank{0}) {
        row = 1;
        context.signal(Rank{1}, slot, shmem::SignalOp::set, 1);
      } else {
        if (ordered) context.wait(slot, Compare::at_least, 1).ordering_only();
        std::printf("%s row is %d\n", ordered ? "ordered" : "unordered", row);
      }
    });
  };
  Replay strategy{{}};
  strategy.begin_run();
  return world.run(body, strategy).verdict.clean() ? 0 : 1;
}
