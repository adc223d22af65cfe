// The words and places of the published region, to the bit, and what safe writes instead.

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

constexpr Offset kMagic{0x19000};

std::uint64_t word_at(Communicator& comm, std::uint64_t offset) {
  return comm.local<std::uint64_t>(Offset{offset}, 1)[0];
}

/// Word of slot [buffer][peer] of a job of two ranks, and that nobody wrote the own slot.
void check_barrier_word(Communicator& comm, std::uint64_t buffer, std::uint64_t word) {
  const std::uint64_t peer = 1 - comm.rank().index();
  CHECK(word_at(comm, 0x1F000 + 0x40 * buffer + 0x20 * peer) == word);
  CHECK(word_at(comm, 0x1F000 + 0x40 * buffer + 0x20 * (1 - peer)) == 0);
}

struct Step {
  const char* kernel;
  std::uint64_t buffer;
  std::uint64_t word;
};

/// One iteration: notify, dispatch with two barriers, combine. After each barrier all ranks stop and look.
void check_iteration(const Profile& profile, std::int32_t cores, const std::vector<Step>& steps) {
  HostBarrier ranks_meet(2);
  check_all_well(run_ranks(2, small_config(cores, profile), [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    start_from_zero(comm, ranks_meet);
    std::uint64_t kernels = 0;
    std::size_t step = 0;
    for (const int barriers : {1, 2, 1}) {
      std::vector<Round> rounds(static_cast<std::size_t>(cores));
      const Result<void> launched = comm.launch(steps[step].kernel, [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        rounds[context.core().index()] = sync.round();
        for (int b = 0; b < barriers; ++b) {
          sync.barrier_all();
          if (context.core() == Core{0}) {
            ranks_meet.arrive_and_wait();
            const Step& now = steps[step + static_cast<std::size_t>(b)];
            CAPTURE(now.kernel);
            check_barrier_word(comm, now.buffer, now.word);
            ranks_meet.arrive_and_wait();
          }
          context.sync_all();
        }
      });
      if (!launched) return launched;
      for (const Round round : rounds) CHECK(round == Round{kernels});
      ++kernels;
      step += static_cast<std::size_t>(barriers);
      for (std::uint64_t core = 0; core < 48; ++core) {
        const bool runs = core < static_cast<std::uint64_t>(cores);
        CHECK(word_at(comm, kMagic.value() + 512 * core) == (runs ? kernels : 0));
      }
    }
    return {};
  }));
}

}  // namespace

TEST_CASE("barrier words of one iteration, published protocol of July") {
  for (const std::int32_t cores : {1, 2, 3, 6}) {
    check_iteration(kFaithful202607, cores,
                    {{"notify", 0, 0x0000000000000001},
                     {"dispatch entry", 1, 0x0000000100000001},
                     {"dispatch exit", 1, 0x0000000100000002},
                     {"combine", 0, 0x0000000200000001}});
  }
}

TEST_CASE("barrier words of one iteration, published protocol of August") {
  for (const std::int32_t cores : {1, 2, 3, 6}) {
    check_iteration(kFaithful202608, cores,
                    {{"notify", 1, 0x0000000000000001},
                     {"dispatch entry", 0, 0x0000000100000001},
                     {"dispatch exit", 1, 0x0000000100000002},
                     {"combine", 1, 0x0000000200000001}});
  }
}

TEST_CASE("barrier words of one iteration, safe") {
  for (const std::int32_t cores : {1, 2, 3, 6}) {
    check_iteration(
        kSafe, cores,
        {{"notify", 1, 0x100}, {"dispatch entry", 0, 0x200}, {"dispatch exit", 1, 0x300}, {"combine", 0, 0x400}});
  }
}

TEST_CASE("flag words lie where the published map has them") {
  // Two ranks, six cores: buffer 0 from 0x1F080, buffer 1 from 0x1F200.
  for (const Profile& profile : kProfiles) {
    CAPTURE(name_of(profile.id));
    HostBarrier ranks_meet(2);
    check_all_well(run_ranks(2, small_config(6, profile), [&](World& world) -> Result<void> {
      Communicator& comm = world.all();
      start_from_zero(comm, ranks_meet);
      for (const std::uint64_t round : {0U, 1U, 2U}) {
        const Result<void> launched = comm.launch("flags", [&](CoreContext& context) {
          ZeroBufferSync sync(context);
          sync.set_all_rank_core_flag(2);
          sync.wait_all_rank_all_event(2);
        });
        if (!launched) return launched;
        const std::uint64_t word = profile == kSafe ? round << 16 | 2 : round << 32 | 2;
        const std::uint64_t buffer = round % 2 == 0 ? 0x1F080 : 0x1F200;
        const std::uint64_t peer = 1 - comm.rank().index();
        for (std::uint64_t event = 0; event < 6; ++event) {
          CHECK(word_at(comm, buffer + 32 * (peer * 6 + event)) == word);
          CHECK(word_at(comm, buffer + 32 * ((1 - peer) * 6 + event)) == 0);  // a batch skips its own rank
        }
        ranks_meet.arrive_and_wait();
      }
      return {};
    }));
  }
}

TEST_CASE("the regions of the published examples") {
  const auto map = [](std::int32_t ranks, std::int32_t slots) {
    return shmem::block_map(kFaithful202607, {.ranks = ranks, .cores = slots, .slots = slots});
  };
  CHECK(map(8, 6).barrier.at == Offset{0x1F000});
  CHECK(map(8, 6).flags.at == Offset{0x1F200});
  CHECK(map(384, 48).flags.at == Offset{0x25000});
  CHECK(map(384, 48).flags.end().value() == 1300 * 1024);
}
