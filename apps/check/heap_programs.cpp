#include "apps/check/kernels.hpp"
#include "apps/check/operators.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

constexpr Bytes kBlock{64};

Rank right_of(const CoreContext& context) { return Rank{(context.rank().value() + 1) % context.ranks()}; }
std::uint64_t word_of(Rank source, std::int32_t round) {
  return 100 * static_cast<std::uint64_t>(round + 1) + source.index();
}

/// Nothing orders this but the move that follows.
Result<void> write_at_right(Communicator& comm, Offset block, std::int32_t round) {
  return comm.launch("write", [&](CoreContext& context) {
    if (context.core() != Core{0}) return;
    const std::uint64_t word = word_of(context.rank(), round);
    context.put(right_of(context), block, std::span<const std::uint64_t>{&word, 1});
  });
}

/// Nothing orders this but the move before it.
Result<void> read_at_right(Communicator& comm, Offset block, std::int32_t round) {
  return comm.launch("read", [&](CoreContext& context) {
    const shmem::Witness moved = context.sync_all();
    if (context.core() != Core{0}) return;
    std::uint64_t word = 0;
    context.get(right_of(context), block, std::span{&word, 1}, moved);
    if (word != word_of(context.rank(), round)) wrong(context, "a word in a block that was moved");
  });
}

/// In every round a block is written by the left neighbour, moved on all ranks, and read by that neighbour.
Result<void> move_once(Communicator& comm, std::int32_t round) {
  const Result<Offset> gap = comm.allocate(kBlock);
  if (!gap) return gap.error();
  const Result<Offset> block = comm.allocate(kBlock, shmem::Mobility::movable);
  if (!block) return block.error();
  if (Result<void> all_have_it = comm.barrier(); !all_have_it) return all_have_it;
  if (Result<void> written = write_at_right(comm, *block, round); !written) return written;
  if (Result<void> freed = comm.free(*gap); !freed) return freed;
  const auto moves = comm.compact();
  if (!moves) return moves.error();
  if (Result<void> read = read_at_right(comm, moves->at(0).to, round); !read) return read;
  if (Result<void> all_have_read = comm.barrier(); !all_have_read) return all_have_read;
  return comm.free(moves->at(0).to);
}

Body heap_moves(const Setting& setting) {
  return [rounds = setting.rounds](Communicator& comm) -> Result<void> {
    for (std::int32_t round = 0; round < rounds; ++round) {
      if (Result<void> done = move_once(comm, round); !done) return done;
    }
    return {};
  };
}

}  // namespace

std::vector<Program> heap_programs() {
  return {{.name = "heap_moves",
           .what = "a block is written from outside, moved on every rank, and read from outside",
           .make = heap_moves}};
}

}  // namespace shmoe::apps
