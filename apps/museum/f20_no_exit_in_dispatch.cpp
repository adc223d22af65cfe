// unordered read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {
namespace {

void dispatch_without_exit(runtime::CoreContext& context) {
  runtime::ZeroBufferSync sync(context);
  sync.barrier_all();
  ep::send_rows(context);
}

}  // namespace

Exhibit no_exit_in_dispatch() {
  return {.name = "F20",
          .what = "dispatch without its exit barrier",
          .expected = "unordered read",
          .story =
              "The experts begin as soon as their own rank has sent its rows. What the others have sent may not be "
              "there: nothing between their puts and these reads says so.",
          .checked = ep::launches({ep::kLayout, ep::kNotify, {"dispatch", dispatch_without_exit}, ep::kExperts})};
}

}  // namespace shmoe::apps
