// Protocols with one broken step each, in ranks that are threads: the verdict names the step.

#include "runtime/diagnosis/cause.hpp"

#include <atomic>
#include <functional>
#include <thread>

#include "shmem/passing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::SignalOp;

namespace {

Slot flag_of(const CoreContext& context, Rank source, std::uint32_t event = 0) {
  return context.slots().flag().at(0, source, event);
}

void await(CoreContext& context, Slot slot, std::uint64_t value, Compare compare = Compare::at_least) {
  context.wait(slot, compare, value).ordering_only();
}

Rank next_of(const CoreContext& context) { return Rank{(context.rank().value() + 1) % context.ranks()}; }
Rank before(const CoreContext& context) {
  return Rank{(context.rank().value() + context.ranks() - 1) % context.ranks()};
}

/// With slots in the user data, outside of strict mode.
Config with_window(std::int32_t cores, shmem::Writers writers, SignalOp op = SignalOp::set) {
  Config config = small_config(cores);
  config.strict = false;
  config.declare_slots = [=](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
    slots.declare({.name = "window",
                   .base = map.user_data.at,
                   .sources = static_cast<std::uint32_t>(slots.ranks()),
                   .writers = writers,
                   .op = op});
  };
  return config;
}

Slot window_of(const CoreContext& context, Rank source) { return context.slots().family("window").at(0, source); }

/// Waits for the credit first.
void fill(CoreContext& context, Rank target) {
  const Slot mine = window_of(context, context.rank());
  context.wait({.where = target, .slots = {&mine, 1}, .compare = Compare::equal, .value = 0}).ordering_only();
  context.signal(target, mine, SignalOp::set, 1);
}

using Job = std::function<Result<void>(World&)>;

/// One kernel.
Job launched(const char* op, std::function<void(CoreContext&)> kernel) {
  return [op, kernel = std::move(kernel)](World& world) { return world.all().launch(op, kernel); };
}

/// Barriers in kernels, on each rank its own list.
Job barriers(std::function<std::vector<std::pair<const char*, int>>(Rank)> kernels) {
  return [kernels = std::move(kernels)](World& world) -> Result<void> {
    for (const auto& [op, count] : kernels(world.rank())) {
      const auto kernel = [many = count](CoreContext& context) {
        ZeroBufferSync sync(context);
        for (int i = 0; i < many; ++i) sync.barrier_all();
      };
      if (Result<void> done = world.all().launch(op, kernel); !done) return done;
    }
    return {};
  };
}

/// Drops one signal to rank 0, the how manieth of the kernel.
class DroppingFabric final : public shmem::PassingFabric {
 public:
  DroppingFabric(std::unique_ptr<shmem::Fabric> next, int which) : PassingFabric(std::move(next)), which_(which) {}

  void actor(const shmem::ActorEvent& event, SourceSite site) override {
    if (event.kind == shmem::ActorEvent::Kind::start) count_ = event.op == "step" ? 0 : -1000;
    PassingFabric::actor(event, site);
  }
  void signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) override {
    if (dst == Rank{0} && ++count_ == which_) return;
    PassingFabric::signal(dst, slot, op, value, site);
  }

 private:
  int which_;
  int count_ = -1000;
};

/// "verdict: cause", as the rank with the proof has found it.
std::string found(std::int32_t ranks, const Config& config, const Job& job, const FabricDecorator& decorate = {}) {
  std::string text;
  for (const std::optional<Error>& outcome : run_ranks(ranks, config, job, decorate)) {
    if (!outcome) continue;  // it ended, and the others wait for it
    CHECK(outcome->code == Errc::deadlock);
    if (!contains(outcome->context, "gave up: ")) text = outcome->context;
  }
  CAPTURE(text);
  const auto line = [&](std::string_view label) {
    const auto at = text.find(label);
    if (at == std::string::npos) return std::string("none");
    return text.substr(at + label.size(), text.find(": ", at + label.size()) - at - label.size());
  };
  const auto begin = text.find(": ") + 2;  // behind the operator
  return text.substr(begin, text.find(": ", begin) - begin) + ": " + line("\n  cause: ");
}

}  // namespace

TEST_CASE("cause: everybody waits before it signals") {
  CHECK(found(3, small_config(1), launched("ring", [](CoreContext& context) {
                await(context, flag_of(context, before(context)), 1);
                context.signal(next_of(context), flag_of(context, context.rank()), SignalOp::set, 1);
              })) == "deadlock cycle: wait before notify");
}

TEST_CASE("cause: a notify that goes to oneself, and one that goes to a third rank") {
  for (const Rank wrong : {Rank{1}, Rank{0}}) {
    CAPTURE(wrong);
    CHECK(found(3, small_config(1), launched("ring", [wrong](CoreContext& context) {
                  const Rank right = context.rank() == Rank{1} ? wrong : next_of(context);
                  context.signal(right, flag_of(context, context.rank()), SignalOp::set, 1);
                  await(context, flag_of(context, before(context)), 1);
                })) == "misdirected notify: notify to the wrong rank");
  }
}

TEST_CASE("cause: the loop that notifies is shorter than the one that waits") {
  Config config = small_config(4);
  CHECK(found(2, config, launched("exchange", [](CoreContext& context) {
                if (context.core() != Core{0}) return;
                const Rank peer = next_of(context);
                const std::uint32_t sent = context.rank() == Rank{1} ? 3 : 4;
                for (std::uint32_t event = 0; event < sent; ++event) {
                  context.signal(peer, flag_of(context, context.rank(), event), SignalOp::set, 1);
                }
                for (std::uint32_t event = 0; event < 4; ++event) {
                  await(context, flag_of(context, peer, event), 1);
                }
                context.signal(peer, flag_of(context, context.rank(), 0), SignalOp::set, 2);
                await(context, flag_of(context, peer, 0), 2);
              })) == "deadlock cycle: notify range unlike wait range");
}

TEST_CASE("cause: the signal of one barrier is not sent to one rank") {
  const auto job = barriers([](Rank) -> std::vector<std::pair<const char*, int>> { return {{"step", 3}}; });
  for (const std::int32_t ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(found(ranks, small_config(1), job, [](std::unique_ptr<shmem::Fabric> next, Rank rank, Core) {
            return std::make_unique<DroppingFabric>(std::move(next), rank == Rank{1} ? 2 : 0);
          }) == "deadlock cycle: missing notify");
  }
}

TEST_CASE("cause: a core leaves before the SyncAll") {
  CHECK(found(1, small_config(3), launched("uneven", [](CoreContext& context) {
                if (context.core() != Core{2}) context.sync_all();
              })) == "SyncAll mismatch: SyncAll left out by a core");
}

TEST_CASE("cause: an operator that one rank leaves out, as published without a handshake") {
  CHECK(found(2, small_config(1, kFaithful202608), barriers([](Rank rank) -> std::vector<std::pair<const char*, int>> {
                if (rank == Rank{1}) return {{"notify", 1}, {"combine", 1}};
                return {{"notify", 1}, {"dispatch", 2}, {"combine", 1}};
              })) == "orphan wait: operator order differs");
}

TEST_CASE("cause: one rank counts two rounds that the others do not") {
  CHECK(found(2, small_config(1, kFaithful202607), [](World& world) -> Result<void> {
          Communicator& comm = world.all();
          for (int step = 0; step < 3; ++step) {
            if (step == 1 && world.rank() == Rank{1})
              comm.local<std::uint64_t>(comm.map().magic_of(Core{0}), 1)[0] += 2;
            const auto done = comm.launch("step", [](CoreContext& context) {
              ZeroBufferSync sync(context);
              sync.barrier_all();
            });
            if (!done) return done;
          }
          return {};
        }) == "overrun: magic drift");
}

TEST_CASE("cause: a launch on fewer cores leaves the rounds of the others behind") {
  CHECK(found(2, small_config(2, kFaithful202607), [](World& world) -> Result<void> {
          for (const std::int32_t cores : {2, 1, 2}) {
            const auto done = world.all().launch("step", cores, [](CoreContext& context) {
              ZeroBufferSync sync(context);
              sync.barrier_all();
            });
            if (!done) return done;
          }
          return {};
        }) == "orphan wait: core-count drift");
}

TEST_CASE("cause: a word of another round than the one that is due") {
  CHECK(found(3, small_config(1), launched("word", [](CoreContext& context) {
                const Slot mine = flag_of(context, context.rank());
                for (Rank dst{0}; dst.value() < 3; ++dst) {
                  const bool faulty = context.rank() == Rank{2} && dst == Rank{0};
                  if (dst != context.rank()) context.signal(dst, mine, SignalOp::set, faulty ? 4 : 5);
                }
                for (Rank src{0}; src.value() < 3; ++src) {
                  if (src != context.rank()) await(context, flag_of(context, src), 5);
                }
                if (context.rank() != Rank{0}) await(context, flag_of(context, Rank{0}), 6);
                for (Rank dst{1}; dst.value() < 3; ++dst) {
                  if (context.rank() == Rank{0}) context.signal(dst, mine, SignalOp::set, 6);
                }
              })) == "deadlock cycle: wrong word");
}

TEST_CASE("cause: a host clears slots that a peer has written already") {
  std::barrier<> ranks_meet(2);
  CHECK(found(2, small_config(1), [&](World& world) -> Result<void> {
          Communicator& comm = world.all();
          const auto sent = comm.launch("send", [](CoreContext& context) {
            context.signal(next_of(context), flag_of(context, context.rank()), SignalOp::set, 1);
          });
          if (!sent) return sent;
          ranks_meet.arrive_and_wait();
          if (world.rank() == Rank{0}) comm.local<std::uint64_t>(comm.map().flags.at + Bytes{32}, 1)[0] = 0;
          return comm.launch("take", [](CoreContext& context) {
            await(context, flag_of(context, next_of(context)), 1);
            if (context.rank() == Rank{1}) await(context, flag_of(context, Rank{0}), 2);
          });
        }) == "deadlock cycle: host clear unaligned");
}

TEST_CASE("cause: a host clears the lower half of a word") {
  constexpr std::uint64_t kWord = 0x1'0000'0001;
  std::barrier<> ranks_meet(2);
  CHECK(found(2, small_config(1), [&](World& world) -> Result<void> {
          Communicator& comm = world.all();
          const auto sent = comm.launch("send", [](CoreContext& context) {
            context.signal(next_of(context), flag_of(context, context.rank()), SignalOp::set, kWord);
          });
          if (!sent) return sent;
          ranks_meet.arrive_and_wait();
          if (world.rank() == Rank{0}) comm.local<std::uint32_t>(comm.map().flags.at + Bytes{32}, 1)[0] = 0;
          return comm.launch("take", [](CoreContext& context) {
            await(context, flag_of(context, next_of(context)), kWord);
            if (context.rank() == Rank{1}) await(context, flag_of(context, Rank{0}), kWord + 1);
          });
        }) == "deadlock cycle: host clear unaligned");
}

TEST_CASE("cause: a slot that counts, and nobody clears it between two launches") {
  const auto kernel = [](CoreContext& context) {
    const Slot count = window_of(context, Rank{1});
    const std::uint64_t step = context.launch().op == "first" ? 1 : 2;
    if (context.rank() == Rank{1}) {
      context.signal(Rank{0}, count, SignalOp::add, 1);
      context.signal(Rank{0}, flag_of(context, Rank{1}), SignalOp::set, step);
      await(context, flag_of(context, Rank{0}), step);
    } else {
      await(context, flag_of(context, Rank{1}), step);
      await(context, count, 1, Compare::equal);
      context.signal(Rank{1}, flag_of(context, Rank{0}), SignalOp::set, step);
    }
  };
  CHECK(found(2, with_window(1, shmem::Writers::source_rank, SignalOp::add), [&](World& world) -> Result<void> {
          if (auto done = world.all().launch("first", kernel); !done) return done;
          return world.all().launch("second", kernel);
        }) == "overrun: host clear missing");
}

TEST_CASE("cause: a slot that is full since the launch before, in a protocol that gives nothing back") {
  const auto kernel = [](CoreContext& context) {
    if (context.rank() == Rank{0}) {
      fill(context, Rank{1});
      context.signal(Rank{1}, flag_of(context, Rank{0}), SignalOp::set, context.launch().op == "first" ? 1 : 2);
    } else {
      await(context, window_of(context, Rank{0}), 1, Compare::equal);
      await(context, flag_of(context, Rank{0}), context.launch().op == "first" ? 1 : 2);
    }
  };
  CHECK(found(2, with_window(1, shmem::Writers::source_and_owner), [&](World& world) -> Result<void> {
          if (auto done = world.all().launch("first", kernel); !done) return done;
          return world.all().launch("second", kernel);
        }) == "deadlock cycle: host clear missing");
}

TEST_CASE("cause: two operators use one window, and the slow rank clears what the next one has set") {
  std::atomic<bool> combine_has_set = false;
  const auto dispatch = [&](CoreContext& context) {
    if (context.rank() == Rank{0}) return context.signal(Rank{1}, window_of(context, Rank{0}), SignalOp::set, 1);
    await(context, window_of(context, Rank{0}), 1, Compare::equal);
    while (!combine_has_set) std::this_thread::yield();
    context.signal(Rank{1}, window_of(context, Rank{0}), SignalOp::set, 0);
  };
  const auto combine = [&](CoreContext& context) {
    if (context.rank() == Rank{0}) {
      context.signal(Rank{1}, window_of(context, Rank{0}), SignalOp::set, 1);
      combine_has_set = true;
      return await(context, flag_of(context, Rank{1}), 1);
    }
    await(context, window_of(context, Rank{0}), 1, Compare::equal);
    context.signal(Rank{0}, flag_of(context, Rank{1}), SignalOp::set, 1);
  };
  CHECK(found(2, with_window(1, shmem::Writers::source_and_owner), [&](World& world) -> Result<void> {
          if (auto done = world.all().launch("dispatch", dispatch); !done) return done;
          return world.all().launch("combine", combine);
        }) == "deadlock cycle: shared flag window");
}

TEST_CASE("cause: another path clears its flags where the rounds of core 0 are counted") {
  CHECK(found(2, small_config(2, kFaithful202607), [](World& world) -> Result<void> {
          Communicator& comm = world.all();
          const auto barrier = [](CoreContext& context) {
            ZeroBufferSync sync(context);
            sync.barrier_all();
          };
          // So many that the next round, of core 1, has another buffer than round 0.
          for (const char* op : {"notify", "dispatch"}) {
            if (auto done = comm.launch(op, barrier); !done) return done;
          }
          const auto done = comm.launch("combine_ll", [](CoreContext& context) {
            constexpr std::uint64_t kClear = 0;
            if (context.core() == Core{0}) {
              context.put(context.rank(), context.map().magic_of(Core{0}), std::span{&kClear, 1});
            }
          });
          if (!done) return done;
          return comm.launch("notify", barrier);
        }) == "overrun: two paths on one region");
}

TEST_CASE("cause: a second consumer takes the fill that the first one waits for") {
  CHECK(found(2, with_window(3, shmem::Writers::source_and_owner), launched("exchange", [](CoreContext& context) {
                const Rank peer = next_of(context);
                const Slot mine = window_of(context, peer);
                const auto act = [&](Core core, const auto& step) {
                  if (context.core() == core) step();
                  context.sync_all();
                };
                const auto take = [&] { await(context, mine, 1, Compare::equal); };
                const auto take_and_reset = [&] {
                  take();
                  context.signal(context.rank(), mine, SignalOp::set, 0);
                };
                act(Core{0}, [&] { fill(context, peer); });
                act(Core{1}, take_and_reset);
                act(Core{0}, [&] { fill(context, peer); });
                act(Core{2}, take_and_reset);
                act(Core{1}, take);
              })) == "deadlock cycle: double reset");
}

TEST_CASE("cause: a launch of one rank has fewer cores than the other waits for") {
  CHECK(found(2, small_config(2), [](World& world) {
          return world.all().launch("exchange", world.rank() == Rank{1} ? 1 : 2, [](CoreContext& context) {
            const auto event = static_cast<std::uint32_t>(context.core().value());
            context.signal(next_of(context), flag_of(context, context.rank(), event), SignalOp::set, 1);
            await(context, flag_of(context, next_of(context), event), 1);
            context.sync_all();
            if (context.core() != Core{0}) return;
            context.signal(next_of(context), flag_of(context, context.rank()), SignalOp::set, 2);
            await(context, flag_of(context, next_of(context)), 2);
          });
        }) == "deadlock cycle: core-count drift");
}
