// A proof by somebody who is no rank, of ranks that do not prove anything themselves.

#include "runtime/diagnosis/outside_proof.hpp"

#include <atomic>
#include <thread>

#include "runtime/diagnosis/prover.hpp"
#include "runtime/job.hpp"
#include "shmem/thread_memory.hpp"
#include "shmem/wait.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

/// Two ranks without an overseer, and their memory for whoever looks on.
class Observed {
 public:
  Observed()
      : shape_(config_, 2),
        memory_(*shmem::ThreadMemory::allocate(2, shape_.memory())),
        control_(*shmem::ThreadMemory::allocate(2, shape_.control_memory())) {}

  [[nodiscard]] shmem::Peers peers_of(Rank rank, CommunicatorId id = CommunicatorId{0}) {
    shmem::Peers peers;
    peers.rank = rank;
    const std::uint64_t block = shape_.map.size.value() * id.index();
    peers.mem = {memory_.at(0) + block, memory_.at(1) + block};
    peers.map = std::make_shared<shmem::BlockMap>(shape_.map);
    peers.slots = std::make_shared<shmem::SlotPlan>(shape_.slots);
    peers.control_map = shape_.control;
    peers.wait_limit = config_.wait_limit;
    if (rank == kOutside) peers.controls = {control_of(0, id), control_of(1, id)};
    if (rank != kOutside) peers.control = control_of(rank.index(), id);
    peers.sharing = shmem::Sharing::threads;
    return peers;
  }
  void run_rank(Rank rank, const std::function<void(CoreContext&)>& body, CommunicatorId id = CommunicatorId{0}) {
    const std::unique_ptr<Grid> grid = *Grid::start(1, shmem::Crowd{2});
    Communicator comm({.peers = peers_of(rank, id),
                       .members = {Rank{0}, Rank{1}},
                       .profile = config_.profile,
                       .grid = grid.get(),
                       .make_fabric = fabric_maker(config_, rank, true)});
    const Result<void> done = comm.launch("ring", [&](CoreContext& context) { body(context); });
    CHECK(done.has_value());
  }

 private:
  [[nodiscard]] std::byte* control_of(std::size_t rank, CommunicatorId id) const {
    return control_.at(rank) + shmem::kControlHeaderBytes + shape_.control.size().value() * id.index();
  }

  Config config_ = small_config(1);
  JobShape shape_;
  shmem::ThreadMemory memory_;
  shmem::ThreadMemory control_;
};

void wait_for_the_other(CoreContext& context) {
  const Rank other{1 - context.rank().value()};
  context.wait(context.slots().flag().at(0, other), Compare::at_least, 1).ordering_only();
}

/// What neither of them does.
void send_all(const shmem::Peers& peers) {
  for (Rank rank{0}; rank.value() < 2; ++rank) {
    const Slot slot = peers.slots->flag().at(0, Rank{1 - rank.value()});
    shmem::store_and_ring(peers.place(rank, slot), shmem::SignalOp::set, 1, shmem::Sharing::threads);
  }
}

/// At so many communicators of both ranks.
Prover::Parts looking_at(Observed& job, int communicators = 1) {
  const auto views = [&job, communicators] {
    Prover::Views found;
    for (CommunicatorId id{0}; id.value() < communicators; ++id)
      found.push_back({.group = {.id = id, .members = {Rank{0}, Rank{1}}}, .peers = job.peers_of(kOutside, id)});
    return found;
  };
  return {.self = kOutside, .ranks = 2, .views = views, .gone = [](Rank) { return false; }};
}

}  // namespace

TEST_CASE("outside proof: two ranks that wait for each other") {
  Observed job;
  const shmem::Peers peers = job.peers_of(kOutside);
  std::thread first([&] { job.run_rank(Rank{0}, wait_for_the_other); });
  std::thread second([&] { job.run_rank(Rank{1}, wait_for_the_other); });
  std::optional<Proof> proof;
  while (!proof) proof = prove_from_outside(looking_at(job), std::chrono::seconds(20));
  CHECK(proof->verdict.kind == VerdictKind::deadlock_cycle);
  REQUIRE(proof->verdict.stuck.size() == 2);
  CHECK(contains(to_string(proof->verdict), "rank 1 core 0 in ring round 0 waits at outside_proof_test.cpp:"));
  CHECK(contains(to_string(proof->verdict), "for flag[0] from rank 0 of rank 1 to be >= 0x1, sees 0x0"));
  send_all(peers);
  first.join();
  second.join();
}

TEST_CASE("outside proof: nothing while one of them runs") {
  Observed job;
  const shmem::Peers peers = job.peers_of(kOutside);
  std::atomic<bool> runs = false;
  std::atomic<bool> may_wait = false;
  std::thread first([&] { job.run_rank(Rank{0}, wait_for_the_other); });
  std::thread second([&] {
    job.run_rank(Rank{1}, [&](CoreContext& context) {
      runs = true;
      while (!may_wait) std::this_thread::yield();
      wait_for_the_other(context);
    });
  });
  const Prover looker(looking_at(job));
  const auto waits = [&] { return looker.look().sights.front().of(Rank{0}).front().wait.has_value(); };
  while (!runs || !waits()) std::this_thread::yield();
  CHECK(!prove_from_outside(looking_at(job), std::chrono::milliseconds(300)).has_value());
  may_wait = true;
  std::optional<Proof> proof;
  while (!proof) proof = prove_from_outside(looking_at(job), std::chrono::seconds(20));
  CHECK(proof->verdict.stuck.size() == 2);
  send_all(peers);
  first.join();
  second.join();
}

TEST_CASE("outside proof: through two communicators, and nothing of one of them alone") {
  Observed job;
  const CommunicatorId second_id{1};
  std::thread first([&] { job.run_rank(Rank{0}, wait_for_the_other); });
  std::thread second([&] { job.run_rank(Rank{1}, wait_for_the_other, second_id); });
  std::optional<Proof> proof;
  while (!proof) proof = prove_from_outside(looking_at(job, 2), std::chrono::seconds(20));
  CHECK(!prove_from_outside(looking_at(job), std::chrono::milliseconds(300)).has_value());
  CHECK(contains(
      to_string(proof->verdict),
      "deadlock cycle: world ranks wait for each other through several communicators: rank 0 waits in ring, "
      "operator 1 of communicator 0 of all ranks, for rank 1; rank 1 waits in ring, operator 1 of communicator "
      "1 of world ranks 0 1, for rank 0\n  cause: operator order differs: "));
  CHECK(proof->lost.empty());
  send_all(job.peers_of(kOutside));
  send_all(job.peers_of(kOutside, second_id));
  first.join();
  second.join();
}
