#pragma once
// One delay of the double-barrier overrun: no sleeps, the delayed rank goes on exactly when its peer's next word has
// overwritten the one it waits for.

#include <atomic>
#include <thread>

#include "shmem/passing_fabric.hpp"
#include "tests/runtime/support.hpp"

namespace shmoe::runtime::test {

struct Word {
  std::uint64_t buffer;
  std::uint64_t value;
};

/// At `bar.written` of one barrier: the ranks from 1 to `ranks_held` wait for rank 0's word `awaited`, and may look only
/// after rank 0's word `arrived` is there.
struct Delay {
  std::int32_t ranks;
  std::int32_t ranks_held;
  Word awaited;
  Word arrived;
};

/// What a rank waited for when its wait failed, and what it saw.
struct Stuck {
  std::uint64_t expected = 0;
  std::uint64_t seen = 0;
  Rank source;
};

class DelayedFabric final : public shmem::PassingFabric {
 public:
  DelayedFabric(std::unique_ptr<shmem::Fabric> next, const Delay& delay, Rank me, Stuck& stuck,
                const std::atomic<bool>& stopped)
      : PassingFabric(std::move(next)), delay_(&delay), me_(me), stuck_(&stuck), stopped_(&stopped) {}

  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override {
    const bool held = me_.value() >= 1 && me_.value() <= delay_->ranks_held;
    if (held && spec.slots.front() == slot(delay_->awaited) && spec.value == delay_->awaited.value) {
      const Slot other = slot(delay_->arrived);
      const shmem::WaitSpec arrived{
          .where = me_, .slots = {&other, 1}, .compare = Compare::equal, .value = delay_->arrived.value};
      while (!next().test(arrived, site) && !stopped_->load()) std::this_thread::yield();
    }
    Result<shmem::Arrival> result = next().wait(spec, site);
    if (!result) look(spec, site);
    return result;
  }

 private:
  /// Barrier slots are the first family: [buffer][source].
  [[nodiscard]] Slot slot(const Word& word) const {
    return Slot{word.buffer * static_cast<std::uint64_t>(delay_->ranks)};
  }

  void look(const shmem::WaitSpec& spec, SourceSite site) {
    for (const Slot one : spec.slots) {
      std::uint64_t seen = 0;
      (void)next().test({.where = spec.where,
                         .slots = {&one, 1},
                         .compare = Compare::not_equal,
                         .value = ~std::uint64_t{0},
                         .observed = {&seen, 1}},
                        site);
      if (seen == spec.value) continue;
      *stuck_ = {.expected = spec.value,
                 .seen = seen,
                 .source = Rank{one.value() % static_cast<std::uint32_t>(delay_->ranks)}};
      return;
    }
  }

  const Delay* delay_;
  Rank me_;
  Stuck* stuck_;
  const std::atomic<bool>* stopped_;  // a rank failed: what is awaited may never come
};

}  // namespace shmoe::runtime::test
