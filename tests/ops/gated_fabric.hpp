#pragma once
// Holds one rank inside an operator until its peers have gone on to a later one. No sleeps: the peers' own signals end it.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "shmem/passing_fabric.hpp"
#include "tests/runtime/support.hpp"

namespace shmoe::test {

/// What the ranks of a test share.
struct Gate {
  Rank slow;
  std::string held_op;                // the slow rank's reads of peers in this operator wait
  std::atomic<int>* until = nullptr;  // for this many
  int count = 0;
  /// Signals that have gone out to the slow rank, by the operator of the sender.
  std::atomic<int> layout = 0, notify = 0, dispatch = 0, combine = 0;

  std::atomic<int>* signals_of(std::string_view op) {
    if (op == "layout") return &layout;
    if (op == "notify") return &notify;
    if (op == "dispatch_normal") return &dispatch;
    return op == "combine_normal" ? &combine : nullptr;
  }
  static void wait_for(const std::atomic<int>& signals, int count) {
    while (signals.load() < count) std::this_thread::yield();
  }
};

class GatedFabric final : public shmem::PassingFabric {
 public:
  GatedFabric(std::unique_ptr<shmem::Fabric> next, Gate& gate, Rank me)
      : PassingFabric(std::move(next)), gate_(&gate), me_(me) {}

  void actor(const shmem::ActorEvent& event, SourceSite site) override {
    if (event.kind == shmem::ActorEvent::Kind::enter) op_ = event.op;
    next().actor(event, site);
  }
  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override {
    next().signal(dst, slot, op, value, site);
    if (std::atomic<int>* signals = gate_->signals_of(op_); signals && me_ != gate_->slow && dst == gate_->slow) {
      signals->fetch_add(1);
    }
  }
  std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) override {
    hold(src);
    return next().open_read(src, at, size, site);
  }
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) override {
    hold(src);
    next().get(src, from, to, site);
  }

 private:
  void hold(Rank src) {
    if (me_ == gate_->slow && src != me_ && op_ == gate_->held_op) Gate::wait_for(*gate_->until, gate_->count);
  }

  Gate* gate_;
  Rank me_;
  std::string op_;
};

inline runtime::FabricDecorator gated(Gate& gate) {
  return [&gate](std::unique_ptr<shmem::Fabric> next, Rank rank, Core) -> std::unique_ptr<shmem::Fabric> {
    return std::make_unique<GatedFabric>(std::move(next), gate, rank);
  };
}

}  // namespace shmoe::test
