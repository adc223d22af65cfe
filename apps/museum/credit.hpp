#pragma once
// Reverse All2All reduced to its signals: a producer fills slots of every rank, a consumer takes its own and gives each back.
//
//   slot [buffer][source][task] of the consumer's rank:   0 free --producer--> 1 full --consumer--> 0
//
// In the checker with a word behind each slot.

#include "apps/check/kernels.hpp"
#include "apps/museum/exhibit.hpp"
#include "ops/tile/credits.hpp"

namespace shmoe::apps::credit {

constexpr std::uint32_t kBuffers = 2;
constexpr std::uint32_t kTasks = 2;   // of each source
constexpr std::uint32_t kBlocks = 4;  // of the S dimension, by turns in the buffers

inline void declare(shmem::SlotPlan& slots, const shmem::BlockMap& map) {
  ops::tile::declare_credits(slots, "task", map.user_data.at, kBuffers, kTasks);
}

inline Slot slot(const runtime::CoreContext& context, std::uint32_t block, Rank source, std::uint32_t task) {
  return context.slots().family("task").at(block % kBuffers, source, task);
}

/// The producer: the slot is free. What it has sent lands first: a 0 that lies before its own 1 is no credit.
inline void await_credit(runtime::CoreContext& context, Rank target, std::uint32_t block, std::uint32_t task) {
  context.quiet();
  const Slot mine = slot(context, block, context.rank(), task);
  context.wait({.where = target, .slots = {&mine, 1}, .compare = Compare::equal, .value = 0}).ordering_only();
}

inline void notify(runtime::CoreContext& context, Rank target, std::uint32_t block, std::uint32_t task) {
  context.signal(target, slot(context, block, context.rank(), task), shmem::SignalOp::set, 1);
}

/// The producer: the slot is free, and full afterwards.
inline void fill(runtime::CoreContext& context, Rank target, std::uint32_t block, std::uint32_t task) {
  await_credit(context, target, block, task);
  notify(context, target, block, task);
}

/// The consumer: the slot is full, and stays so until it is given back.
inline shmem::Witness take(runtime::CoreContext& context, Rank source, std::uint32_t block, std::uint32_t task) {
  return consume_token(context.wait(slot(context, block, source, task), Compare::equal, 1));
}

inline void give_back(runtime::CoreContext& context, Rank source, std::uint32_t block, std::uint32_t task) {
  context.signal(context.rank(), slot(context, block, source, task), shmem::SignalOp::set, 0);
}

/// Where the word of a slot lies.
inline Offset place(const runtime::CoreContext& context, std::uint32_t block, Rank source, std::uint32_t task) {
  constexpr Offset kWords{64 * 1024};
  const std::size_t row = block % kBuffers * static_cast<std::size_t>(context.ranks()) + source.index();
  return kWords + Bytes{8 * (row * kTasks + task)};
}

/// Order:   puts only
inline void store(runtime::CoreContext& context, Rank target, std::uint32_t block, std::uint32_t task) {
  const std::uint64_t word = block + 1;
  context.put(target, place(context, block, context.rank(), task), std::span{&word, 1});
}

inline void load(runtime::CoreContext& context, Rank source, std::uint32_t block, std::uint32_t task,
                 const shmem::Witness& full) {
  std::uint64_t word = 0;
  context.get(context.rank(), place(context, block, source, task), std::span{&word, 1}, full);
  if (word != block + 1) wrong(context, "a word of another block");
}

/// Every (block, rank, task) in the order of the published loops.
template <class Act>
void each_task(const runtime::CoreContext& context, const Act& act, std::uint32_t blocks = kBlocks) {
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t task = 0; task < kTasks; ++task) {
      for (Rank rank{0}; rank.value() < context.ranks(); ++rank) act(block, rank, task);
    }
  }
}

inline void produce(runtime::CoreContext& context) {
  each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) { fill(context, target, block, task); });
}

inline void consume(runtime::CoreContext& context) {
  each_task(context, [&](std::uint32_t block, Rank source, std::uint32_t task) {
    take(context, source, block, task);
    give_back(context, source, block, task);
  });
}

}  // namespace shmoe::apps::credit
