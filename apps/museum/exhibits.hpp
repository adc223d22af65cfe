#pragma once
// A function for each file of this folder.

#include "apps/museum/exhibit.hpp"

namespace shmoe::apps {

// The expert-parallel path as published
Exhibit double_barrier();
Exhibit barrier_of_next_kernel();
Exhibit rows_of_other_cores();
Exhibit combine_after_combine();
Exhibit paths_mixed();
Exhibit no_exit_in_combine();
Exhibit no_exit_in_notify();
Exhibit kernel_left_out();
Exhibit fewer_cores();
Exhibit skewed_routing();
Exhibit row_spills_over();
Exhibit counts_not_zeroed();
Exhibit expert_twice();
Exhibit row_of_zeros();
Exhibit too_many_ranks();
Exhibit region_not_zeroed();
Exhibit ori_x_too_short();
Exhibit rounds_as_floats();
Exhibit no_time_limit();

// The same with one ingredient taken away
Exhibit one_buffer();
Exhibit round_counted_twice();
Exhibit round_not_counted();
Exhibit sequence_not_counted();
Exhibit sequence_not_reset();
Exhibit no_first_sync_all();
Exhibit no_last_sync_all();
Exhibit no_quiet();
Exhibit flags_not_cleared();
Exhibit one_window();
Exhibit cleared_before_the_sum();
Exhibit no_layout_status();
Exhibit no_sync_after_layout();
Exhibit no_sync_after_counts();
Exhibit no_sync_after_bases();
Exhibit counts_not_cleaned_up();
Exhibit clean_up_too_early();
Exhibit no_entry_in_dispatch();
Exhibit no_exit_in_dispatch();
Exhibit no_entry_in_combine();
Exhibit no_barrier_in_notify();
Exhibit inclusive_prefix();
Exhibit idle_core_leaves();

// Detours, attention to experts, and the host
Exhibit flag_never_set();
Exhibit non_member_skips();
Exhibit group_changes();
Exhibit round_wraps();
Exhibit group_of_one();
Exhibit too_few_cores();
Exhibit window_sizes_differ();
Exhibit slots_too_small();
Exhibit payload_too_large();
Exhibit flags_unaligned();
Exhibit only_one_direction();
Exhibit option_differs();
Exhibit cores_change();
Exhibit batches_differ();
Exhibit uneven_ratio();
Exhibit empty_variant();
Exhibit window_too_small();
Exhibit freed_too_early();
Exhibit jobs_back_to_back();
Exhibit rank_missing();
Exhibit groups_differ();
Exhibit rank_beyond();
Exhibit rest_left_out();
Exhibit one_too_many();
Exhibit segment_not_zeroed();
Exhibit truly_full();

// Credits of the tile language
Exhibit credits();
Exhibit credit_missing();
Exhibit double_reset();
Exhibit double_reset_refused();
Exhibit host_clears_late();
Exhibit nobody_clears();
Exhibit clears_unaligned();
Exhibit oversized_grid();
Exhibit flat_task_number();
Exhibit wait_range_too_long();
Exhibit notify_to_itself();
Exhibit own_group();
Exhibit no_fence();
Exhibit no_fence_in_processes();
Exhibit token_dropped();
Exhibit no_credit_awaited();
Exhibit merged_signals();
Exhibit a_buffer_a_block();
Exhibit divergent_barrier();
Exhibit slots_share_a_line();
Exhibit add_stored();
Exhibit slot_of_last_launch();
Exhibit too_many_slots_awaited();
Exhibit unequal_steps();
Exhibit peer_dies();

// A reported case, and mistakes that everybody makes
Exhibit batches_cross();
Exhibit ring_waits_first();
Exhibit answer_before_quiet();
Exhibit counter_not_cleared();
Exhibit window_shared();
Exhibit two_paths();
Exhibit operator_left_out();

// And two that are right: as published, and what others leave a part out of
Exhibit forward_without_credits();
Exhibit low_latency_by_hand();

}  // namespace shmoe::apps
