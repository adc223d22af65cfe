#pragma once
// What the same processes and cores could do at best with the same rows at the same places: bare copies and bare reads.
// Nothing is agreed on, sorted or waited for here.
//
//   dispatch           copy each row to where dispatch puts it
//   dispatch_consume   the same, then, once all have done so, read all received rows
//   combine            read the K rows of each token where combine reads them, add up nothing, write nothing

#include <vector>

#include "apps/bench/row_moves.hpp"
#include "apps/bench/workload.hpp"

namespace shmoe::apps {

class Limits {
 public:
  /// Where the rows lie: symmetric, the same on every rank.
  Limits(runtime::Communicator& comm, const Workload& workload, Offset recv_x, Offset expert_out);

  Result<void> copy(CopyKind kind);
  /// Rows lie without gaps; also what every contender reads its received rows with.
  Result<void> read_received(std::span<const std::byte> rows);
  Result<void> read_answers(ReadKind kind);
  /// All bytes that this rank sends, from one place to another of its own: what a stage of a pipeline is measured by.
  void copy_within();

 private:
  runtime::Communicator* comm_;
  const Workload* workload_;
  std::vector<std::span<std::byte>> to_;  // [T, K] places of rows on their owners
  std::vector<RowSpan> answers_;          // [T, K]
  std::vector<std::uint64_t> read_;       // [C] what was read, so that reading it is not left out
  RowBuffer from_rows_, to_rows_;         // of copy_within
};

}  // namespace shmoe::apps
