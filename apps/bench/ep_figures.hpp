#pragma once
// From what each rank noted in each block to one figure a block.

#include <cstddef>
#include <functional>
#include <vector>

#include "apps/bench/ep_blocks.hpp"
#include "apps/bench/samples.hpp"

namespace shmoe::apps {

enum class EpPart : std::uint8_t { dispatch, dispatch_consume, combine };
inline constexpr std::array kEpParts{EpPart::dispatch, EpPart::dispatch_consume, EpPart::combine};

/// One sample a block.
using Series = std::vector<double>;

/// Microseconds from the first rank's start to the last rank's end; of dispatch and first read the sum of both.
Series wall_us(const std::vector<Block>& blocks, std::size_t contender, EpPart part);
/// Microseconds of CPU time of all ranks together, for each of `rows`.
Series cpu_us_a_row(const std::vector<Block>& blocks, std::size_t contender, EpPart part, std::int64_t rows);
/// Microseconds of the rank that took longest in this stage.
Series stage_us(const std::vector<Block>& blocks, std::size_t contender, std::size_t stage);

/// One way of doing the least that a part has to do.
struct Limit {
  const char* kind = "";
  Series us;
};
/// All ways, the one with the smallest median first.
std::vector<Limit> limits_of(const std::vector<Block>& blocks, EpPart part);
/// What the part is measured by: the first of them.
inline Limit limit_of(const std::vector<Block>& blocks, EpPart part) { return limits_of(blocks, part).front(); }
/// Copies within a rank, of the rank that took longest.
Series copy_within_us(const std::vector<Block>& blocks);
CopyKind fastest_copied_and_read(const std::vector<Block>& blocks);

/// Whether all ranks found all results right in every block.
bool is_verified(const std::vector<Block>& blocks, std::size_t contender);

}  // namespace shmoe::apps
