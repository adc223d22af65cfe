// The detour collectives, with groups that change from round to round.

#include "apps/check/operators.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/reference.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

using Tensor = std::vector<std::byte>;

constexpr ops::Element kDetourType = ops::Element::int32;
/// So that chunks and shards are uneven, and no core is without a part of the longest.
constexpr std::int64_t kDetourElements = 17;
constexpr std::uint64_t kDetourPlace = 128;  // bytes of a symmetric tensor

/// The last rank lends its memory in one round, the one before it in the next.
std::vector<Rank> changing_group(std::int32_t ranks, std::int32_t round) {
  std::vector<Rank> members;
  for (Rank rank{0}; rank.value() < ranks; ++rank) {
    if (ranks < 3 || rank.value() != ranks - 1 - round % 2) members.push_back(rank);
  }
  return members;
}

std::vector<Rank> whole_group(std::int32_t ranks, std::int32_t /*round*/) {
  return ops::DetourGroup({}, ranks).members();
}

Tensor detour_input(Rank rank, std::int32_t round) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < kDetourElements; ++i) {
    values.push_back(static_cast<std::int32_t>(1 + round * 10'000 + rank.value() * 1000 + i));
  }
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

std::vector<Tensor> detour_inputs(std::span<const Rank> members, std::int32_t round) {
  std::vector<Tensor> inputs;
  for (const Rank member : members) inputs.push_back(detour_input(member, round));
  return inputs;
}

/// Core 0 looks, through the fabric.
Result<void> look(Communicator& comm, Offset at, Tensor& seen) {
  return comm.launch("look", [&](CoreContext& context) {
    if (context.core() == Core{0}) context.get(context.rank(), at, seen, shmem::Witness::own());
  });
}

Result<void> lay(Communicator& comm, Offset at, const Tensor& x) {
  return comm.launch("lay", [&](CoreContext& context) {
    if (context.core() == Core{0}) context.put(context.rank(), at, x);
  });
}

/// What a round of a program works with on one rank.
struct DetourRound {
  Communicator& comm;
  ops::DetourShape shape;
  std::optional<std::int32_t> position;
  std::vector<Tensor> inputs;
  Offset tensor;  // symmetric

  [[nodiscard]] Tensor x() const { return position ? inputs[static_cast<std::size_t>(*position)] : Tensor{}; }
};

Result<void> compared(const DetourRound& round, const Tensor& y, const std::vector<Tensor>& answers) {
  if (!round.position || y == answers[static_cast<std::size_t>(*round.position)]) return {};
  return Error{.code = Errc::mismatch,
               .context = fmt::format("wrong result on rank {}", round.comm.rank()),
               .where = round.comm.rank()};
}

Tensor room_for(const DetourRound& round, const std::vector<Tensor>& answers) {
  return Tensor(round.position ? answers[static_cast<std::size_t>(*round.position)].size() : 0);
}

Result<void> all_to_all_round(const DetourRound& round, bool symmetric) {
  const auto answers = ops::all_to_all_reference(kDetourType, round.inputs);
  const Tensor x = round.x();
  Tensor y = room_for(round, answers);
  ops::AllToAllArgs args{.shape = round.shape, .x = x};
  if (symmetric) {
    args.y_at = round.tensor;
  } else {
    args.y = y;
  }
  if (Result<void> done = ops::all_to_all_detour(round.comm, args); !done) return done;
  if (symmetric) {
    if (Result<void> seen = look(round.comm, round.tensor, y); !seen) return seen;
  }
  return compared(round, y, answers);
}

Result<void> reduce_scatter_round(const DetourRound& round, bool symmetric) {
  const auto answers = ops::reduce_scatter_reference(kDetourType, ops::Reduction::sum, round.inputs);
  const Tensor x = round.x();
  Tensor y = room_for(round, answers);
  ops::ReduceScatterArgs args{.shape = round.shape, .y = y};
  if (symmetric) {
    args.x_at = round.tensor;
    if (Result<void> laid = lay(round.comm, round.tensor, x); !laid) return laid;
  } else {
    args.x = x;
  }
  if (Result<void> done = ops::reduce_scatter_detour(round.comm, args); !done) return done;
  return compared(round, y, answers);
}

using RoundCall = Result<void> (*)(const DetourRound&, bool symmetric);
using GroupOf = std::vector<Rank> (*)(std::int32_t ranks, std::int32_t round);

Body detour_body(const Setting& setting, RoundCall call, GroupOf group_of, bool symmetric) {
  return [=, rounds = setting.rounds](Communicator& comm) -> Result<void> {
    const ops::DetourGroup everybody({}, comm.ranks());
    const Bytes size = ops::DetourSlots(everybody, kDetourElements * comm.ranks(), kDetourType).size();
    Result<Offset> window = comm.allocate(size);
    if (!window) return std::move(window).error();
    Result<Offset> tensor = comm.allocate(Bytes{kDetourPlace});
    if (!tensor) return std::move(tensor).error();
    for (std::int32_t round = 0; round < rounds; ++round) {
      const std::vector<Rank> members = group_of(comm.ranks(), round);
      const DetourRound now{
          .comm = comm,
          .shape = {.members = members, .type = kDetourType, .elements = kDetourElements, .window = {*window, size}},
          .position = ops::DetourGroup(members, comm.ranks()).position_of(comm.rank()),
          .inputs = detour_inputs(members, round),
          .tensor = *tensor};
      if (Result<void> done = call(now, symmetric); !done) return done;
    }
    return {};
  };
}

Program detour_program(std::string name, std::string what, RoundCall call, GroupOf group_of, bool symmetric) {
  return {.name = std::move(name),
          .what = std::move(what),
          .make = [=](const Setting& setting) { return detour_body(setting, call, group_of, symmetric); },
          .usual = {.ranks = 3, .cores = 2, .rounds = 3}};
}

}  // namespace

std::vector<Program> detour_programs() {
  return {
      detour_program("all_to_all_detour", "shards through the memory of a rank outside the group, which changes",
                     all_to_all_round, changing_group, false),
      detour_program("all_to_all_symmetric", "the same, and shard 0 straight to its place", all_to_all_round,
                     changing_group, true),
      detour_program("all_to_all", "all ranks, every chunk straight to its place", all_to_all_round, whole_group, true),
      detour_program("reduce_scatter_detour", "shards that are added up where they wait", reduce_scatter_round,
                     changing_group, false),
      detour_program("reduce_scatter_symmetric", "the same from symmetric memory", reduce_scatter_round, changing_group,
                     true),
      detour_program("reduce_scatter", "all ranks, read in place", reduce_scatter_round, whole_group, true),
  };
}

}  // namespace shmoe::apps
