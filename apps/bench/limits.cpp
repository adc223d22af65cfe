#include "apps/bench/limits.hpp"

#include <cstring>

namespace shmoe::apps {

Limits::Limits(runtime::Communicator& comm, const Workload& workload, Offset recv_x, Offset expert_out)
    : comm_(&comm),
      workload_(&workload),
      read_(static_cast<std::size_t>(comm.cores())),
      from_rows_(workload.pairs() * workload.row_bytes()),
      to_rows_(workload.pairs() * workload.row_bytes()) {
  for (std::size_t pair = 0; pair < workload.pairs(); ++pair) {
    const Bytes row = Bytes{workload.row_bytes()} * static_cast<std::uint64_t>(workload.row_of(pair));
    const Rank owner = workload.owner_of(pair);
    // Mapped for writing by every rank, as dispatch writes there.
    auto* place = const_cast<std::byte*>(comm.mapped_at(owner, recv_x + row));
    to_.emplace_back(place, workload.row_bytes());
    answers_.emplace_back(comm.mapped_at(owner, expert_out + row), workload.row_bytes());
  }
}

Result<void> Limits::copy(CopyKind kind) {
  return comm_->launch("limit_copy", [&](runtime::CoreContext& context) {
    const auto topk = static_cast<std::size_t>(workload_->shape().topk);
    const Slice pairs = context.slice(static_cast<std::int64_t>(to_.size()));
    for (auto pair = static_cast<std::size_t>(pairs.first); pair < static_cast<std::size_t>(pairs.last); ++pair) {
      copy_by(kind, to_[pair], workload_->token(pair / topk));
    }
    finish_copies();
  });
}

Result<void> Limits::read_received(std::span<const std::byte> rows) {
  return comm_->launch("first_read", [&](runtime::CoreContext& context) {
    const Slice part = context.slice(static_cast<std::int64_t>(rows.size()));
    const RowSpan mine = rows.subspan(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.size()));
    read_[context.core().index()] ^= read_rows(ReadKind::row_by_row, {&mine, 1});
  });
}

Result<void> Limits::read_answers(ReadKind kind) {
  return comm_->launch("limit_read", [&](runtime::CoreContext& context) {
    const auto topk = static_cast<std::size_t>(workload_->shape().topk);
    const Slice tokens = context.slice(workload_->shape().tokens);
    for (auto token = static_cast<std::size_t>(tokens.first); token < static_cast<std::size_t>(tokens.last); ++token) {
      read_[context.core().index()] ^= read_rows(kind, std::span{answers_}.subspan(token * topk, topk));
    }
  });
}

void Limits::copy_within() {
  if (workload_->pairs() > 0) std::memcpy(to_rows_.data(), from_rows_.data(), from_rows_.bytes().size());
}

}  // namespace shmoe::apps
