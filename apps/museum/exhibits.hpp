#pragma once
// A function for each file of this folder.

#include "apps/museum/exhibit.hpp"

namespace shmoe::apps {

// Zero-buffer barriers and flags
Exhibit double_barrier();
Exhibit barrier_of_next_kernel();
Exhibit kernel_left_out();
Exhibit fewer_cores();
Exhibit one_buffer();
Exhibit round_not_counted();
Exhibit sequence_not_reset();
Exhibit idle_core_leaves();
Exhibit flag_never_set();
Exhibit non_member_skips();
Exhibit peer_dies();
Exhibit wait_range_too_long();
Exhibit ring_waits_first();
Exhibit host_clears_late();

// Credits of the tile language
Exhibit credit_missing();
Exhibit oversized_grid();
Exhibit own_group();
Exhibit merged_signals();
Exhibit divergent_barrier();
Exhibit unequal_steps();

}  // namespace shmoe::apps
