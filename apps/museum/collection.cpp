#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

std::vector<Exhibit> collection() {
  return {double_barrier(),      barrier_of_next_kernel(), kernel_left_out(),   fewer_cores(),    one_buffer(),
          round_not_counted(),   sequence_not_reset(),     idle_core_leaves(),  flag_never_set(), non_member_skips(),
          wait_range_too_long(), ring_waits_first(),       host_clears_late(),  credit_missing(), oversized_grid(),
          own_group(),           merged_signals(),         divergent_barrier(), unequal_steps(),  peer_dies()};
}

}  // namespace shmoe::apps
