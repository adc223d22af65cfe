#pragma once
// One rule a way in which a protocol breaks: given one stuck wait, the evidence that it broke like this, or nothing.

#include <optional>
#include <string>

#include "runtime/diagnosis/cause.hpp"
#include "runtime/diagnosis/evidence.hpp"

namespace shmoe::runtime::rules {

using Because = std::optional<std::string>;

// launch_rules.cpp: how the job is put together.
Because queued(const Evidence& known, const Edge& edge);
Because order(const Evidence& known, const Edge& edge);
Because left_out(const Evidence& known, const Edge& edge);
Because two_paths(const Evidence& known, const Edge& edge);
Because core_counts(const Evidence& known, const Edge& edge);
Because total_cores(const Evidence& known, const Edge& edge);
Because magics(const Evidence& known, const Edge& edge);
Because core_absent(const Evidence& known, const Edge& edge);
Because arrival_lost(const Evidence& known, const Edge& edge);
/// Of all ranks.
std::vector<CoresAtMagic> histogram(const Evidence& known);

// word_rules.cpp: what lies in the slot.
Because two_barriers(const Evidence& known, const Edge& edge);
Because buffer_reused(const Evidence& known, const Edge& edge);
Because shared_window(const Evidence& known, const Edge& edge);
Because never_cleared(const Evidence& known, const Edge& edge);
Because doubled(const Evidence& known, const Edge& edge);
Because shared_line(const Evidence& known, const Edge& edge);
Because cleared(const Evidence& known, const Edge& edge);
Because erased(const Evidence& known, const Edge& edge);
Because wrong_word(const Evidence& known, const Edge& edge);

// signal_rules.cpp: where signals went, and which never did.
Because not_quiet(const Evidence& known, const Edge& edge);
Because drifted(const Evidence& known, const Edge& edge);
Because wrong_rank(const Evidence& known, const Edge& edge);
Because range(const Evidence& known, const Edge& edge);
Because missing_here(const Evidence& known, const Edge& edge);
Because missing(const Evidence& known, const Edge& edge);
Because missing_of_cores(const Evidence& known, const Edge& edge);
Because everybody_waits(const Evidence& known, const Edge& edge);
Because left_out_midway(const Evidence& known, const Edge& edge);
Because left_out_before(const Evidence& known, const Edge& edge);

// credit_rules.cpp: slots that are filled and given back.
Because no_credit(const Evidence& known, const Edge& edge);
Because credit_never_cleared(const Evidence& known, const Edge& edge);
Because credit_cleared(const Evidence& known, const Edge& edge);
Because reset_twice(const Evidence& known, const Edge& edge);
Because merged(const Evidence& known, const Edge& edge);
Because cleared_early(const Evidence& known, const Edge& edge);

// cause_rules.cpp: what several of them say.
std::string times(std::uint64_t count);
/// "0x100000002 (magic 1, value 2)", as the profile packs it.
std::string word_text(const Evidence& known, const Edge& edge, std::uint64_t word);
/// "flag[0] from rank 1 of rank 0"
std::string slot_text(const Evidence& known, const Edge& edge);
/// The word of a kernel and of a barrier or phase in it, as published.
bool has_magic(const Evidence& known, const Edge& edge);
/// A signal from another rank is what is waited for.
bool by_source(const Edge& edge);
/// The same, and which: of a sum whose part has come in nobody knows how much more of it is due.
bool by_word(const Edge& edge);

}  // namespace shmoe::runtime::rules
