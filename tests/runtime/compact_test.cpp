// Defragmentation of symmetric memory: the bytes go along on every rank, and nobody meets a move half done.

#include <numeric>

#include "runtime/job.hpp"
#include "shmem/thread_memory.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::Mobility;
using shmem::Move;

namespace {

constexpr std::size_t kWords = 100'003;  // of a block that is moved in several pieces, and over itself

std::vector<std::uint32_t> words_of(Rank rank, std::uint32_t block) {
  std::vector<std::uint32_t> words(kWords);
  std::iota(words.begin(), words.end(), (static_cast<std::uint32_t>(rank.value()) << 28) + (block << 24));
  return words;
}

Result<Offset> filled(Communicator& comm, std::uint32_t block, Mobility mobility) {
  Result<Offset> at = comm.allocate(shmem::bytes_of<std::uint32_t>(kWords), mobility);
  if (at) std::ranges::copy(words_of(comm.rank(), block), comm.local<std::uint32_t>(*at, kWords).begin());
  return at;
}

bool holds(const Communicator& comm, Offset at, std::uint32_t block) {
  return std::ranges::equal(comm.local<std::uint32_t>(at, kWords), words_of(comm.rank(), block));
}

/// Two ranks whose pages one of them cannot have, without a World.
class Pair {
 public:
  Pair()
      : config_(small_config(1)),
        shape_(config_, 2),
        memory_(*shmem::ThreadMemory::allocate(2, shape_.memory())),
        control_(*shmem::ThreadMemory::allocate(2, shape_.control_memory())) {}

  Result<void> run_rank(Rank rank, const std::function<Result<void>(Communicator&, bool& pages_end)>& body) {
    bool pages_end = false;
    shmem::Peers peers;
    peers.rank = rank;
    peers.mem = {memory_.at(0), memory_.at(1)};
    peers.control = control_.at(rank.index()) + shmem::kControlHeaderBytes;
    peers.map = std::make_shared<shmem::BlockMap>(shape_.map);
    peers.slots = std::make_shared<shmem::SlotPlan>(shape_.slots);
    peers.control_map = shape_.control;
    peers.wait_limit = config_.wait_limit;
    peers.commit = [&](Offset, Bytes) -> Result<void> {
      if (pages_end) return Error{.code = Errc::out_of_memory, .context = "no pages"};
      return {};
    };
    const std::unique_ptr<Grid> grid = *Grid::start(1, shmem::Crowd{2});
    Communicator comm({.peers = std::move(peers),
                       .members = {Rank{0}, Rank{1}},
                       .profile = config_.profile,
                       .grid = grid.get(),
                       .make_fabric = fabric_maker(config_, rank, true)});
    return body(comm, pages_end);
  }

 private:
  Config config_;
  JobShape shape_;
  shmem::ThreadMemory memory_;
  shmem::ThreadMemory control_;
};

}  // namespace

TEST_CASE("movable blocks go together on every rank, and their peers find them at the new places") {
  for (const std::int32_t cores : {1, 3}) {
    check_all_well(run_ranks(3, small_config(cores), [](World& world) -> Result<void> {
      Communicator& comm = world.all();
      const Result<Offset> hole = comm.allocate(Bytes{64});
      const Result<Offset> first = filled(comm, 1, Mobility::movable);
      const Result<Offset> pinned = filled(comm, 2, Mobility::pinned);
      const Result<Offset> wide_hole = comm.allocate(Bytes{128 * 1024});
      Result<Offset> second = filled(comm, 3, Mobility::movable);
      if (!hole || !first || !pinned || !wide_hole || !second) return comm.barrier();
      for (const Offset freed : {*hole, *wide_hole}) CHECK(comm.free(freed).has_value());

      const Result<std::vector<Move>> moves = comm.compact();
      if (!moves) return moves.error();
      const Bytes size = comm.heap().size_of(*pinned);
      CHECK(*moves == std::vector<Move>{{*first, *hole, size}, {*second, *wide_hole, size}});
      CHECK(holds(comm, *hole, 1));
      CHECK(holds(comm, *pinned, 2));
      const Offset now = shmem::place_after(*moves, *second);
      CHECK(holds(comm, now, 3));

      return comm.launch("read", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        const shmem::Witness everyone = sync.barrier_all();
        const Rank next{(context.rank().value() + 1) % 3};
        std::vector<std::uint32_t> theirs(kWords);
        context.get(next, now, std::span(theirs), everyone);
        CHECK(theirs == words_of(next, 3));
        sync.barrier_all();
      });
    }));
  }
}

TEST_CASE("what was fragmented fits after compact()") {
  check_all_well(run_ranks(2, small_config(2), [](World& world) -> Result<void> {
    Communicator& comm = world.all();
    const Bytes quarter{512 * 1024};
    std::vector<Offset> places;
    for (int i = 0; i < 4; ++i) {
      const Result<Offset> at = comm.allocate(quarter);
      if (!at) return at.error();
      places.push_back(*at);
    }
    for (const int i : {0, 2}) CHECK(comm.free(places[static_cast<std::size_t>(i)]).has_value());
    CHECK(comm.set_mobility(places[1], Mobility::movable).has_value());
    const Result<Offset> refused = comm.allocate(quarter + quarter);
    CHECK_FALSE(refused.has_value());
    if (!refused) {
      CHECK(refused.error().code == Errc::fragmented);
      CHECK(contains(refused.error().context, "compact() joins free ranges: 1 of 2 blocks are movable"));
    }
    const Result<std::vector<Move>> moves = comm.compact();
    if (!moves) return moves.error();
    const Result<Offset> at = comm.allocate(quarter + quarter);
    CHECK(at.has_value());
    if (at) CHECK(*at == places[1]);
    const Result<std::vector<Move>> again = comm.compact();
    if (again) CHECK(again->empty());
    return comm.barrier();
  }));
}

TEST_CASE("different heaps are a mismatch, and nothing is moved") {
  Outcomes errors(3);
  check_all_well(run_ranks(3, small_config(2), [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    const Result<Offset> hole = comm.allocate(Bytes{64});
    const Result<Offset> block = filled(comm, 1, Mobility::movable);
    if (!hole || !block) return comm.barrier();
    if (world.rank() != Rank{1}) CHECK(comm.free(*hole).has_value());
    const Result<std::vector<Move>> moves = comm.compact();
    if (!moves) errors[world.rank().index()] = moves.error();
    CHECK_FALSE(comm.aborted().has_value());
    CHECK(holds(comm, *block, 1));
    CHECK(comm.heap().size_of(*block) != Bytes{0});
    if (world.rank() == Rank{1}) CHECK(comm.free(*hole).has_value());
    const Result<std::vector<Move>> agreed = comm.compact();
    if (!agreed) return agreed.error();
    CHECK(holds(comm, *hole, 1));
    return {};
  }));
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == Errc::mismatch);
    CHECK(contains(error->context, "compact: heap history is "));
    CHECK(contains(error->context, "on rank 1"));
  }
}

TEST_CASE("pages that one rank cannot have are the same error on both, and nothing is moved") {
  Pair pair;
  std::array<std::string, 2> texts;
  const std::unique_ptr<Grid> seats = *Grid::start(2, shmem::Crowd{2});
  seats->run([&](Core seat) {
    const Result<void> ran =
        pair.run_rank(Rank{seat.value()}, [&](Communicator& comm, bool& pages_end) -> Result<void> {
          const Result<Offset> hole = comm.allocate(Bytes{64});
          const Result<Offset> block = filled(comm, 1, Mobility::movable);
          CHECK(comm.free(*hole).has_value());
          const std::uint64_t history = comm.heap_history();
          pages_end = comm.rank() == Rank{1};
          const Result<std::vector<Move>> moves = comm.compact();
          if (!moves) texts[seat.index()] = to_string(moves.error());
          CHECK(comm.heap_history() == history);
          CHECK(holds(comm, *block, 1));
          pages_end = false;
          const Result<std::vector<Move>> again = comm.compact();
          if (!again) return again.error();
          CHECK(holds(comm, *hole, 1));
          return {};
        });
    CHECK(ran.has_value());
  });
  for (const std::string& text : texts) {
    CHECK(text == "out of memory: compact: rank 1: moving a block of 400064 bytes to 4194304: no pages");
  }
}
