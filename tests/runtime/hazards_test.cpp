// The double-barrier overrun of the published protocols, forced by one delay: no sleeps, the delayed rank goes on exactly
// when its peer's next word has overwritten the one it waits for.

#include <atomic>
#include <future>
#include <thread>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

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

class DelayedFabric final : public PassingFabric {
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

struct Run {
  Outcomes outcomes;
  std::vector<Stuck> stuck;
};

/// Notify, dispatch with two barriers, combine, from a fresh region, under the delay.
Run run_iteration(const Profile& profile, const Delay& delay, std::chrono::milliseconds limit) {
  Run run{.outcomes = {}, .stuck = std::vector<Stuck>(static_cast<std::size_t>(delay.ranks))};
  Config config = small_config(1, profile);
  HostBarrier ranks_meet(delay.ranks);
  std::atomic<bool> stopped = false;
  run.outcomes = run_ranks(
      delay.ranks, config,
      [&](World& world) -> Result<void> {
        Communicator& comm = world.all();
        start_from_zero(comm, ranks_meet);
        if (limit.count() > 0) comm.set_wait_limit(limit);
        const std::pair<const char*, int> kernels[] = {{"notify", 1}, {"dispatch", 2}, {"combine", 1}};
        for (const auto& [name, barriers] : kernels) {
          const Result<void> launched = comm.launch(name, [barriers = barriers](CoreContext& context) {
            ZeroBufferSync sync(context);
            for (int b = 0; b < barriers; ++b) sync.barrier_all();
          });
          if (!launched) {
            stopped = true;
            return launched;
          }
        }
        return {};
      },
      [&](std::unique_ptr<shmem::Fabric> next, Rank rank, Core) -> std::unique_ptr<shmem::Fabric> {
        return std::make_unique<DelayedFabric>(std::move(next), delay, rank, run.stuck[rank.index()], stopped);
      });
  return run;
}

constexpr std::chrono::milliseconds kLimit{2000};

void check_stuck(const Run& run, Rank rank, std::uint64_t expected, std::uint64_t seen, Rank source) {
  CAPTURE(rank.value());
  const Stuck& stuck = run.stuck[rank.index()];
  CHECK(stuck.expected == expected);
  CHECK(stuck.seen == seen);
  CHECK(stuck.source == source);
}

/// Every rank ended with its own deadline or because of another's, and the texts have the words.
void check_verdicts(const Run& run, std::string_view op_of_rank_0) {
  bool some_deadline = false;
  for (std::size_t rank = 0; rank < run.outcomes.size(); ++rank) {
    REQUIRE(run.outcomes[rank]);
    const std::string text = text_of(run.outcomes[rank]);
    CAPTURE(text);
    some_deadline |= run.outcomes[rank]->code == Errc::deadline;
    CHECK((run.outcomes[rank]->code == Errc::deadline || run.outcomes[rank]->code == Errc::aborted));
    bool words = false;
    for (std::size_t r = 0; r < run.stuck.size(); ++r) {
      const Stuck& stuck = run.stuck[r];
      words |= contains(text, fmt::format("rank {} core 0 in {} ", r, r == 0 ? op_of_rank_0 : "dispatch")) &&
               contains(text, fmt::format("from rank {} ", stuck.source)) &&
               contains(text, fmt::format("to be == {:#x}, sees {:#x}", stuck.expected, stuck.seen));
    }
    CHECK(words);
  }
  CHECK(some_deadline);
}

}  // namespace

TEST_CASE("the double barrier of dispatch deadlocks in July's protocol, and the next kernel's in August's") {
  const auto in_parallel = [](const Profile& profile, const Delay& delay) {
    return std::async(std::launch::async, [&profile, delay] { return run_iteration(profile, delay, kLimit); });
  };
  // July: dispatch entry (1,1) and exit (1,2) share buffer 1.
  const Word entry{1, 0x0000000100000001};
  const Word exit{1, 0x0000000100000002};
  auto two = in_parallel(kFaithful202607, {.ranks = 2, .ranks_held = 1, .awaited = entry, .arrived = exit});
  auto three = in_parallel(kFaithful202607, {.ranks = 3, .ranks_held = 2, .awaited = entry, .arrived = exit});
  // August: dispatch exit (1,2) and combine (2,1) share buffer 1.
  const Word combine{1, 0x0000000200000001};
  auto two_later = in_parallel(kFaithful202608, {.ranks = 2, .ranks_held = 1, .awaited = exit, .arrived = combine});
  auto three_later = in_parallel(kFaithful202608, {.ranks = 3, .ranks_held = 2, .awaited = exit, .arrived = combine});

  {  // S1, two ranks
    const Run run = two.get();
    check_stuck(run, Rank{0}, exit.value, entry.value, Rank{1});
    check_stuck(run, Rank{1}, entry.value, exit.value, Rank{0});
    check_verdicts(run, "dispatch");
  }
  {  // S1: the third rank is stuck in the first barrier too
    const Run run = three.get();
    check_stuck(run, Rank{0}, exit.value, entry.value, Rank{1});
    check_stuck(run, Rank{1}, entry.value, exit.value, Rank{0});
    check_stuck(run, Rank{2}, entry.value, exit.value, Rank{0});
    check_verdicts(run, "dispatch");
  }
  {  // S2, two ranks
    const Run run = two_later.get();
    check_stuck(run, Rank{0}, combine.value, exit.value, Rank{1});
    check_stuck(run, Rank{1}, exit.value, combine.value, Rank{0});
    check_verdicts(run, "combine");
  }
  {  // S2, three ranks
    const Run run = three_later.get();
    check_stuck(run, Rank{0}, combine.value, exit.value, Rank{1});
    check_stuck(run, Rank{1}, exit.value, combine.value, Rank{0});
    check_stuck(run, Rank{2}, exit.value, combine.value, Rank{0});
    check_verdicts(run, "combine");
  }
}

TEST_CASE("in safe the same delays do no harm") {
  // Words count barriers: notify 1, dispatch entry 2, dispatch exit 3, combine 4.
  const Word entry{0, 0x200};
  const Word exit{1, 0x300};
  const Word combine{0, 0x400};
  for (const std::int32_t ranks : {2, 3}) {
    const auto none = std::chrono::milliseconds(0);
    check_all_well(
        run_iteration(kSafe, {.ranks = ranks, .ranks_held = 1, .awaited = entry, .arrived = exit}, none).outcomes);
    check_all_well(
        run_iteration(kSafe, {.ranks = ranks, .ranks_held = ranks - 1, .awaited = exit, .arrived = combine}, none)
            .outcomes);
  }
}
