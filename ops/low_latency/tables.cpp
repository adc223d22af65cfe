#include "ops/low_latency/tables.hpp"

namespace shmoe::ops {

std::optional<RowPlace> LowLatencyTables::place_of(std::int64_t pair, Rank me) const {
  const std::int32_t place = expand_idx[static_cast<std::size_t>(pair)];
  if (place < 0) return std::nullopt;
  const auto column = static_cast<std::size_t>(pair_column[static_cast<std::size_t>(pair)]);
  const std::size_t ranks = rows_of.size();
  // Where the rows of this rank end, less how many they are, is where they start.
  const std::int64_t end = ep_recv_count[column * ranks + me.index()];
  const std::int32_t own = recv_data[me.index() * static_cast<std::size_t>(columns) + column];
  return RowPlace{owner[column], end - own + place};
}

}  // namespace shmoe::ops
