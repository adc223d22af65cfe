#pragma once
// a2e and e2a as published, on rows of which every element is the number of the row.

#include "apps/museum/exhibit.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "shmem/number.hpp"

namespace shmoe::apps::afd {

/// Row i of rank r: 16 r + i + 1.
inline std::vector<std::uint16_t> rows_of(Rank rank, std::int64_t rows, std::int64_t hidden) {
  std::vector<std::uint16_t> x;
  for (std::int64_t i = 0; i < rows * hidden; ++i) {
    x.push_back(shmem::float_to_bf16(static_cast<float>(16 * rank.value() + i / hidden + 1)));
  }
  return x;
}

inline void declare(shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); }

/// How many rows an attention rank sends and how many an expert rank makes room for.
struct Batches {
  std::int32_t experts = 1;
  std::int64_t sent = 4;
  std::int64_t expected = 4;
};

/// a2e, then e2a of the same rows.
/// Errors:  mismatch naming the first row that an attention rank does not get back as it sent it
inline Result<void> there_and_back(runtime::Communicator& comm, const Batches& batches) {
  constexpr std::int64_t kHidden = 1024;
  const ops::AfdShape shape{.ranks = ops::Assignment::of(batches.experts, comm.ranks() - batches.experts).value(),
                            .max_batch = 4,
                            .hidden = kHidden,
                            .topk = 2,
                            .published = {.half = Bytes{64U << 10}, .flags = Bytes{4096}}};
  const ops::AfdSignals signals = ops::afd_signals(comm.slots());
  const Result<Offset> window = comm.allocate(ops::afd_window_bytes(shape, comm.profile()));
  if (!window) return window.error();
  const ops::AfdPlace place{.shape = shape, .window = *window, .signals = signals};
  ops::A2eTables tables;
  if (shape.ranks.is_expert(comm.rank())) {
    std::vector<std::byte> rows(static_cast<std::size_t>(batches.expected) * shape.row_bytes());
    if (auto done = ops::a2e(comm, {.place = place, .expand_x = rows}, tables); !done) return done;
    return ops::e2a(comm, {.place = place, .a2e = tables, .answers = rows});
  }
  const std::vector<std::uint16_t> x = rows_of(comm.rank(), batches.sent, kHidden);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(2 * batches.sent));
  const std::vector<float> scales(ids.size(), 1.0F);
  const ops::A2eArgs send{.place = place, .x = std::as_bytes(std::span{x}), .expert_ids = ids, .scales = scales};
  if (auto done = ops::a2e(comm, send, tables); !done) return done;
  std::vector<std::uint16_t> back(x.size());
  const ops::E2aArgs fetch{.place = place, .a2e = tables, .x = std::as_writable_bytes(std::span{back})};
  if (auto done = ops::e2a(comm, fetch); !done) return done;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (back[i] == x[i]) continue;
    return Error{
        .code = Errc::mismatch,
        .context = fmt::format("row {} came back to rank {} with {} in column {}, and went out with {}", i / kHidden,
                               comm.rank(), shmem::bf16_to_float(back[i]), i % kHidden, shmem::bf16_to_float(x[i])),
        .where = comm.rank()};
  }
  return {};
}

}  // namespace shmoe::apps::afd
