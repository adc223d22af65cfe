#include "apps/check/all2all_problem.hpp"

#include <span>
#include <vector>

namespace shmoe::apps {
namespace {

using Elements = std::vector<std::uint16_t>;

/// What rank `source` sends to rank `target` from one place, in a call.
std::uint16_t element(const ops::All2AllTasks& tasks, std::int64_t source, std::int64_t target, std::int64_t at,
                      int number) {
  const std::int64_t pair = source * tasks.ranks() + target;
  const std::int64_t size = tasks.shape().rows * tasks.shape().heads * tasks.shape().dim;
  return static_cast<std::uint16_t>(1 + (number * tasks.ranks() * tasks.ranks() + pair) * size + at);
}

/// The tensor of rank `me` that has all rows of a few heads, or a few rows of all heads: what it sends, or has received.
Elements tensor(const ops::All2AllTasks& tasks, bool all_rows, bool received, std::int64_t me, int number) {
  const ops::All2AllShape& shape = tasks.shape();
  Elements elements(static_cast<std::size_t>(tasks.ranks() * shape.rows * shape.heads * shape.dim));
  for (std::int64_t peer = 0; peer < tasks.ranks(); ++peer) {
    std::int64_t at = 0;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t first = all_rows ? tasks.in_long(peer, row, head) : tasks.in_wide(peer, row, head);
        for (std::int64_t column = 0; column < shape.dim; ++column, ++at) {
          elements[static_cast<std::size_t>(first + column)] =
              received ? element(tasks, peer, me, at, number) : element(tasks, me, peer, at, number);
        }
      }
    }
  }
  return elements;
}

}  // namespace

void declare_all2all_slots(const All2AllProblem& problem, shmem::SlotPlan& plan, const shmem::BlockMap& map) {
  const ops::All2AllTasks tasks(problem.shape, problem.tiling, map.shape.ranks);
  ops::declare_all2all(plan, map, problem.tiling.buffers, tasks.per_peer());
}

Result<Offset> allocate_all2all(runtime::Communicator& comm, const All2AllProblem& problem) {
  return comm.allocate(ops::All2AllTasks(problem.shape, problem.tiling, comm.ranks()).buffer_bytes());
}

All2AllCall all2all_operator(runtime::Communicator& comm, ops::All2AllWay way) {
  return [&comm, way](const ops::All2AllArgs& args) {
    return way == ops::All2AllWay::reverse ? ops::reverse_all2all(comm, args) : ops::forward_all2all(comm, args);
  };
}

Result<void> check_all2all(runtime::Communicator& comm, const All2AllProblem& problem, Offset buffers, int number,
                           const All2AllCall& call) {
  const ops::All2AllTasks tasks(problem.shape, problem.tiling, comm.ranks());
  const bool reverse = problem.way == ops::All2AllWay::reverse;
  const std::int64_t me = comm.rank().value();
  const Elements x = tensor(tasks, reverse, false, me, number);
  Elements y(x.size());
  Result<void> done = call({.shape = problem.shape,
                            .tiling = problem.tiling,
                            .x = std::as_bytes(std::span{x}),
                            .y = std::as_writable_bytes(std::span{y}),
                            .buffers = buffers,
                            .signals = comm.slots().family("all2all"),
                            .merge = problem.merge});
  if (!done) return done;
  if (y == tensor(tasks, !reverse, true, me, number)) return {};
  return Error{.code = Errc::mismatch, .context = fmt::format("wrong rows on rank {}", comm.rank())};
}

}  // namespace shmoe::apps
