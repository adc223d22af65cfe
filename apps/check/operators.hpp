#pragma once
// The operators and barriers of the project as programs for the checker.

#include <vector>

#include "runtime/check/program.hpp"

namespace shmoe::apps {

std::vector<runtime::check::Program> operator_programs();
std::vector<runtime::check::Program> low_latency_programs();
/// Attention and experts on ranks of their own.
std::vector<runtime::check::Program> afd_programs();
std::vector<runtime::check::Program> detour_programs();
/// Barriers and SyncAll, ours and the published ones.
std::vector<runtime::check::Program> sync_programs();
std::vector<runtime::check::Program> flag_programs();
/// The flags of the older operators.
std::vector<runtime::check::Program> legacy_programs();
std::vector<runtime::check::Program> handshake_programs();
/// The tile language and its operators, right and wrong.
std::vector<runtime::check::Program> tile_programs();
/// Its words, one by one.
std::vector<runtime::check::Program> tile_word_programs();
/// Symmetric memory.
std::vector<runtime::check::Program> heap_programs();

/// Faults of beginners, one each.
std::vector<runtime::check::Program> fault_programs();

}  // namespace shmoe::apps
