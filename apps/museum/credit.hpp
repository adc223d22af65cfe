#pragma once
// Reverse All2All reduced to its signals: a producer fills slots of every rank, a consumer takes its own and gives each back.
//
//   slot [buffer][source][task] of the consumer's rank:   0 free --producer--> 1 full --consumer--> 0

#include "apps/museum/exhibit.hpp"

namespace shmoe::apps::credit {

constexpr std::uint32_t kBuffers = 2;
constexpr std::uint32_t kTasks = 2;   // of each source
constexpr std::uint32_t kBlocks = 4;  // of the S dimension, by turns in the buffers

inline void declare(shmem::SlotPlan& slots, const shmem::BlockMap& map) {
  slots.declare({.name = "task",
                 .base = map.user_data.at,
                 .buffers = kBuffers,
                 .sources = static_cast<std::uint32_t>(slots.ranks()),
                 .events = kTasks,
                 .writers = shmem::Writers::source_and_owner});
}

inline Slot slot(const runtime::CoreContext& context, std::uint32_t block, Rank source, std::uint32_t task) {
  return context.slots().family("task").at(block % kBuffers, source, task);
}

/// The producer: the slot is free, and full afterwards.
inline void fill(runtime::CoreContext& context, Rank target, std::uint32_t block, std::uint32_t task) {
  const Slot mine = slot(context, block, context.rank(), task);
  context.wait({.where = target, .slots = {&mine, 1}, .compare = Compare::equal, .value = 0}).ordering_only();
  context.signal(target, mine, shmem::SignalOp::set, 1);
}

/// The consumer: the slot is full, and stays so until it is given back.
inline void take(runtime::CoreContext& context, Rank source, std::uint32_t block, std::uint32_t task) {
  context.wait(slot(context, block, source, task), Compare::equal, 1).ordering_only();
}

inline void give_back(runtime::CoreContext& context, Rank source, std::uint32_t block, std::uint32_t task) {
  context.signal(context.rank(), slot(context, block, source, task), shmem::SignalOp::set, 0);
}

/// Every (block, rank, task) in the order of the published loops.
template <class Act>
void each_task(const runtime::CoreContext& context, const Act& act) {
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
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
