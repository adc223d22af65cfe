// overwrite before read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {
namespace {

void dispatch_without_entry(runtime::CoreContext& context) {
  runtime::ZeroBufferSync sync(context);
  ep::send_rows(context);
  sync.barrier_all();
}

}  // namespace

Exhibit no_entry_in_dispatch() {
  return {
      .name = "F19",
      .what = "dispatch without its entry barrier, repeated on the same tables",
      .expected = "overwrite before read",
      .story =
          "With a notify in every step its barrier keeps the steps apart. Where dispatch is repeated on cached tables, "
          "nothing does: a fast rank's rows land on those that a slow rank's experts still read.",
      .checked = ep::launches(
          {ep::kLayout, ep::kNotify, ep::kDispatch, ep::kExperts, {"dispatch", dispatch_without_entry}, ep::kExperts})};
}

}  // namespace shmoe::apps
