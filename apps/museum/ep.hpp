#pragma once
// Layout, notify, dispatch, experts and combine reduced to who reads and writes what: a word for each pair of ranks. One
// kernel each; barriers where the published path has them.
//
//   layout    own counts          notify    barrier, counts of all ranks
//   dispatch  barrier, a row to every rank, barrier
//   experts   own rows -> own answers
//   combine   barrier, the answers of all ranks
//
// Here a rank reads only what the ranks before it wrote. The first schedule of the checker runs rank 0 ahead, so what is
// read too early has been written when it is read, and what is written too early has not been read.

#include <vector>

#include "apps/check/kernels.hpp"
#include "apps/museum/exhibit.hpp"

namespace shmoe::apps::ep {

constexpr Offset kCounts{0};
constexpr Offset kRows{4096};
constexpr Offset kAnswers{8192};

inline void put_word(runtime::CoreContext& context, Rank dst, Offset table, Rank column) {
  const std::uint64_t word = 1;
  context.put(dst, table + Bytes{8 * column.index()}, std::span{&word, 1});
}

inline void get_word(runtime::CoreContext& context, Rank src, Offset table, Rank column) {
  std::uint64_t word = 0;
  context.get(src, table + Bytes{8 * column.index()}, std::span{&word, 1}, shmem::Witness::own());
}

template <class Act>
void each_rank(const runtime::CoreContext& context, const Act& act) {
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) act(rank);
}

template <class Act>
void each_rank_before(const runtime::CoreContext& context, const Act& act) {
  for (Rank rank{0}; rank < context.rank(); ++rank) act(rank);
}

// The kernels without their barriers.

inline void layout(runtime::CoreContext& context) {
  each_rank(context, [&](Rank rank) { put_word(context, context.rank(), kCounts, rank); });
}
inline void collect(runtime::CoreContext& context) {
  each_rank_before(context, [&](Rank rank) { get_word(context, rank, kCounts, context.rank()); });
}
inline void send_rows(runtime::CoreContext& context) {
  each_rank(context, [&](Rank rank) { put_word(context, rank, kRows, context.rank()); });
}
inline void experts(runtime::CoreContext& context) {
  each_rank_before(context, [&](Rank rank) { get_word(context, context.rank(), kRows, rank); });
  each_rank(context, [&](Rank rank) { put_word(context, context.rank(), kAnswers, rank); });
}
inline void gather(runtime::CoreContext& context) {
  each_rank_before(context, [&](Rank rank) { get_word(context, rank, kAnswers, context.rank()); });
}

// And with them.

inline void notify(runtime::CoreContext& context) {
  runtime::ZeroBufferSync sync(context);
  sync.barrier_all();
  collect(context);
}
inline void dispatch(runtime::CoreContext& context) {
  runtime::ZeroBufferSync sync(context);
  sync.barrier_all();
  send_rows(context);
  sync.barrier_all();
}
inline void combine(runtime::CoreContext& context) {
  runtime::ZeroBufferSync sync(context);
  sync.barrier_all();
  gather(context);
}

struct Step {
  const char* op;
  void (*kernel)(runtime::CoreContext&);
};
inline constexpr Step kLayout{"layout", layout};
inline constexpr Step kNotify{"notify", notify};
inline constexpr Step kDispatch{"dispatch", dispatch};
inline constexpr Step kExperts{"experts", experts};
inline constexpr Step kCombine{"combine", combine};

inline Result<void> launch(runtime::Communicator& comm, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (Result<void> done = comm.launch(step.op, step.kernel); !done) return done;
  }
  return {};
}

inline std::function<Result<void>(runtime::Communicator&)> launches(std::vector<Step> steps) {
  return [steps = std::move(steps)](runtime::Communicator& comm) { return launch(comm, steps); };
}

}  // namespace shmoe::apps::ep
