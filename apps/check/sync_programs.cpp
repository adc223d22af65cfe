#include "apps/check/kernels.hpp"
#include "apps/check/operators.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::ZeroBufferSync;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

/// Every core writes a word of its own at every rank; after the barrier every core finds all words on its own rank.
void exchange(CoreContext& context, ZeroBufferSync& sync, Offset table, std::uint64_t value) {
  WordTable words(context, table);
  words.write(value);
  const shmem::Witness everyone = sync.barrier_all();
  for (Rank source{0}; source.value() < context.ranks(); ++source) words.expect_all(source, value, everyone);
}

/// The second barrier lets the next round write the words again.
Body double_barrier(const Setting& setting) {
  return every_round(setting, "double barrier", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    exchange(context, sync, Offset{0}, sync.round().value() + 1);
    sync.barrier_all();
  });
}

/// Two tables by turns: a barrier lies between the reads of a round and the writes of the round after next.
Body barrier(const Setting& setting) {
  return every_round(setting, "barrier", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    exchange(context, sync, Offset{4096 * (sync.round().value() % 2)}, sync.round().value() + 1);
  });
}

/// Kernels of one barrier and nothing else: right as published, too.
Body barrier_only(const Setting& setting) {
  return every_round(setting, "barrier only", [](CoreContext& context) {
    ZeroBufferSync sync(context);
    sync.barrier_all();
  });
}

/// Words behind each of the two barriers of one kernel.
Body barrier_twice(const Setting& /*setting*/) {
  return [](Communicator& comm) {
    return comm.launch("barrier twice", [](CoreContext& context) {
      ZeroBufferSync sync(context);
      exchange(context, sync, Offset{0}, 1);
      exchange(context, sync, Offset{4096}, 2);
    });
  };
}

/// Two barriers in one kernel and one in the next, as dispatch and combine.
Body barrier_pair(const Setting& setting) {
  return [rounds = setting.rounds](Communicator& comm) -> Result<void> {
    for (std::int32_t round = 0; round < rounds; ++round) {
      Result<void> first = comm.launch("dispatch", [](CoreContext& context) {
        ZeroBufferSync sync(context);
        sync.barrier_all();
        sync.barrier_all();
      });
      if (!first) return first;
      Result<void> second = comm.launch("combine", [](CoreContext& context) {
        ZeroBufferSync sync(context);
        sync.barrier_all();
      });
      if (!second) return second;
    }
    return {};
  };
}

/// Every core of a rank leaves a word, all read all, three times a launch.
Body sync_all(const Setting& setting) {
  return every_round(setting, "SyncAll", [](CoreContext& context) {
    for (std::uint64_t turn = 1; turn <= 3; ++turn) {
      const Bytes mine{8 * context.core().index()};
      context.put(context.rank(), Offset{0} + mine, std::span<const std::uint64_t>{&turn, 1});
      const shmem::Witness all = context.sync_all();
      for (Core core{0}; core.value() < context.cores(); ++core) {
        std::uint64_t word = 0;
        context.get(context.rank(), Offset{8 * core.index()}, std::span{&word, 1}, all);
        if (word != turn) wrong(context, "a word after SyncAll");
      }
      context.sync_all();
    }
  });
}

/// Launches on fewer cores in between: the cores that sat out come back into step.
Body idle_cores(const Setting& setting, int barriers) {
  return [rounds = setting.rounds, barriers](Communicator& comm) -> Result<void> {
    const auto kernel = [barriers](CoreContext& context) {
      ZeroBufferSync sync(context);
      for (int i = 0; i < barriers; ++i) sync.barrier_all();
    };
    for (std::int32_t round = 0; round < rounds; ++round) {
      if (Result<void> done = comm.launch("few", 1, kernel); !done) return done;
      if (Result<void> done = comm.launch("all", kernel); !done) return done;
    }
    return {};
  };
}

}  // namespace

std::vector<Program> sync_programs() {
  return {
      {.name = "barrier", .what = "words to everybody, BarrierAll, all words are there", .make = barrier},
      {.name = "double_barrier", .what = "two barriers in one kernel", .make = double_barrier},
      {.name = "barrier_pair", .what = "two barriers in one kernel and one in the next", .make = barrier_pair},
      {.name = "barrier_twice", .what = "words behind both barriers of one kernel", .make = barrier_twice},
      {.name = "sync_all",
       .what = "SyncAll orders what the cores of a rank wrote",
       .make = sync_all,
       .usual = {.ranks = 1, .cores = 3}},
      {.name = "idle_cores",
       .what = "launches on fewer cores, and then on all",
       .make = [](const Setting& setting) { return idle_cores(setting, 2); },
       .usual = {.ranks = 2, .cores = 2}},
      {.name = "published.barrier_only",
       .what = "kernels of one barrier are right as published",
       .make = barrier_only,
       .usual = {.profile = kFaithful202607}},
      {.name = "published.double_barrier",
       .what = "S1: the barrier as published in 2026-07 overruns",
       .make = double_barrier,
       .expected = VerdictKind::overrun,
       .usual = {.profile = kFaithful202607}},
      {.name = "published.barrier_pair",
       .what = "S2: as published in 2026-08, dispatch and combine overrun",
       .make = barrier_pair,
       .expected = VerdictKind::overrun,
       .usual = {.profile = kFaithful202608}},
      {.name = "published.barrier_twice",
       .what = "one kernel alone is right as published in 2026-08",
       .make = barrier_twice,
       .usual = {.profile = kFaithful202608}},
      {.name = "published.idle_cores",
       .what = "S9: cores that sat out a launch stay behind as published",
       .make = [](const Setting& setting) { return idle_cores(setting, 1); },
       .expected = VerdictKind::deadlock_cycle,
       .usual = {.ranks = 2, .cores = 2, .profile = kFaithful202607}},
  };
}

}  // namespace shmoe::apps
