#include "ops/ep/notify.hpp"

#include <algorithm>
#include <memory_resource>
#include <numeric>
#include <span>
#include <utility>

#include "ops/scratch.hpp"

namespace shmoe::ops {

namespace {

using Rows = std::pmr::vector<std::int64_t>;

/// Counts of all ranks, as rows of recv_data.
class CountTable {
 public:
  CountTable(const NotifyTables& tables, std::int32_t experts)
      : counts_(tables.recv_data), experts_(static_cast<std::size_t>(experts)) {}

  [[nodiscard]] std::span<const std::int32_t> of(std::size_t source) const {
    return counts_.subspan(source * experts_, experts_);
  }
  [[nodiscard]] std::size_t sources() const { return counts_.size() / experts_; }

 private:
  std::span<const std::int32_t> counts_;
  std::size_t experts_;
};

std::int64_t padded(std::int64_t rows, std::int64_t alignment) {
  return (rows + alignment - 1) / alignment * alignment;
}

void collect_counts(runtime::CoreContext& context, const NotifyArgs& args, const shmem::Witness& counted,
                    NotifyTables& tables) {
  const auto experts = static_cast<std::size_t>(args.experts.experts());
  const Slice sources = context.slice(context.ranks());
  for (std::int64_t source = sources.first; source < sources.last; ++source) {
    const auto row = std::span{tables.recv_data}.subspan(static_cast<std::size_t>(source) * experts, experts);
    context.get(Rank{source}, args.layout.num_tokens_per_expert, row, counted);
  }
}

/// Of each expert, from all sources.
Rows rows_of_experts(const CountTable& counts, std::int32_t experts, std::pmr::memory_resource* memory) {
  Rows rows(static_cast<std::size_t>(experts), memory);
  for (std::size_t source = 0; source < counts.sources(); ++source) {
    const std::span<const std::int32_t> row = counts.of(source);
    for (std::size_t expert = 0; expert < rows.size(); ++expert) rows[expert] += row[expert];
  }
  return rows;
}

/// Where the rows of each expert start on its owner.
Rows first_rows(const NotifyArgs& args, const Rows& rows, std::pmr::memory_resource* memory) {
  Rows first(rows.size(), memory);
  for (Rank owner{0}; owner.value() < args.experts.ranks(); ++owner) {
    std::int64_t next = 0;
    for (const Expert expert : args.experts.experts_of(owner)) {
      first[expert.index()] = next;
      next += padded(rows[expert.index()], args.expert_alignment);
    }
  }
  return first;
}

/// Of the experts [begin, end): each column of the counts becomes a row of put_offset.
void derive_put_offset(const CountTable& counts, Rows& next, std::size_t begin, std::size_t end, NotifyTables& tables) {
  const std::size_t ranks = counts.sources();
  for (std::size_t source = 0; source < ranks; ++source) {
    const std::span<const std::int32_t> row = counts.of(source);
    for (std::size_t expert = begin; expert < end; ++expert) {
      tables.put_offset[expert * ranks + source] = next[expert];
      next[expert] += row[expert];
    }
  }
}

void derive_max_bs(const NotifyArgs& args, const CountTable& counts, NotifyTables& tables) {
  for (std::size_t source = 0; source < counts.sources(); ++source) {
    const std::span<const std::int32_t> row = counts.of(source);
    const auto pairs = std::accumulate(row.begin(), row.end(), std::int64_t{0});
    tables.max_bs = std::max(tables.max_bs, pairs / args.layout.topk);
  }
}

void derive_total(const NotifyArgs& args, const Rows& rows, NotifyTables& tables) {
  for (Rank owner{0}; owner.value() < args.experts.ranks(); ++owner) {
    std::int64_t sum = 0;
    for (const Expert expert : args.experts.experts_of(owner)) {
      sum += padded(rows[expert.index()], args.expert_alignment);
    }
    tables.total_recv_tokens = std::max(tables.total_recv_tokens, sum);
  }
}

void derive_own_rows(const NotifyArgs& args, const Rows& rows, Rank rank, NotifyTables& tables) {
  for (const Expert expert : args.experts.experts_of(rank)) {
    const auto local = static_cast<std::size_t>(args.experts.local_index(expert));
    const std::int64_t group = padded(rows[expert.index()], args.expert_alignment);
    tables.recv_tokens_per_expert[local] = rows[expert.index()];
    tables.recv_rows += rows[expert.index()];
    tables.padded_rows += group;
    tables.group_list[local] = args.group_list == GroupList::counts ? group : tables.padded_rows;
  }
}

/// Experts whose columns of the counts share a cache line.
constexpr std::int64_t kExpertsOfALine = 16;

/// As the published roles: the first C/2 cores share put_offset, one core takes each scalar; fewer cores take several.
void derive_tables(runtime::CoreContext& context, const NotifyArgs& args, NotifyTables& tables) {
  const CountTable counts(tables, args.experts.experts());
  Scratch scratch(context, args.workspace, notify_share(args.experts.experts()));
  const Rows rows = rows_of_experts(counts, args.experts.experts(), &scratch);
  const std::int32_t cores = context.cores();
  const std::int32_t core = context.core().value();
  const std::int32_t workers = std::max(cores / 2, 1);
  if (core < workers) {
    Rows next = first_rows(args, rows, &scratch);
    const Slice own = split(args.experts.experts(), workers, core);
    for (std::int64_t expert = own.first; expert < own.last; expert += kExpertsOfALine) {
      derive_put_offset(counts, next, static_cast<std::size_t>(expert),
                        static_cast<std::size_t>(std::min(expert + kExpertsOfALine, own.last)), tables);
    }
  }
  const auto has_role = [&](std::int32_t role) { return core == (cores / 2 + role) % cores; };
  if (has_role(0)) derive_max_bs(args, counts, tables);
  if (has_role(1)) derive_total(args, rows, tables);
  if (has_role(2)) derive_own_rows(args, rows, context.rank(), tables);
}

std::optional<Error> notify_fault(const NotifyArgs& args, Rank rank, std::int32_t ranks) {
  if (args.layout.fault) return args.layout.fault;
  if (args.experts.ranks() != ranks) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("the expert map is for {} ranks, the communicator has {}: build it for as many",
                                args.experts.ranks(), ranks));
  }
  if (args.experts.experts() != args.layout.experts) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("the expert map has {} experts, layout counted {}: pass both the same",
                                args.experts.experts(), args.layout.experts));
  }
  if (args.expert_alignment < 1 || args.expert_alignment > kMostAlignment) {
    return fault_of(
        rank, Errc::invalid_argument,
        fmt::format("expert_alignment is {}, not in [1, {}]: 1 aligns nothing", args.expert_alignment, kMostAlignment));
  }
  if (args.group_list > GroupList::cumulative) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("{} is no group list: take counts or cumulative", static_cast<int>(args.group_list)));
  }
  return std::nullopt;
}

}  // namespace

Bytes notify_share(std::int32_t experts) {
  return scratch_part<std::int64_t>(experts) * 2;  // rows of the experts, and where the next ones go
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const NotifyArgs& args) {
  return {.own = notify_share(args.experts.experts()) * static_cast<std::uint64_t>(comm.cores())};
}

Handshake notify_handshake(const NotifyArgs& args, Rank rank, std::int32_t ranks, std::uint64_t heap_history) {
  runtime::CallCard card("notify");
  card.with("experts", args.experts.experts())
      .with("topk", args.layout.topk)
      .with("owner map", static_cast<std::int64_t>(args.experts.hash()))
      .with("alignment", args.expert_alignment)
      .with("group list", static_cast<std::int64_t>(args.group_list))
      .with("counts offset", static_cast<std::int64_t>(args.layout.num_tokens_per_expert.value()))
      .with("heap history", static_cast<std::int64_t>(heap_history));
  return {card, notify_fault(args, rank, ranks)};
}

void prepare_notify(const NotifyArgs& args, Rank rank, NotifyTables& tables) {
  const auto entries =
      static_cast<std::size_t>(args.experts.experts()) * static_cast<std::size_t>(args.experts.ranks());
  const std::size_t own = rank < Rank{args.experts.ranks()} ? args.experts.experts_of(rank).size() : 0;
  tables.recv_data.resize(entries);
  tables.put_offset.resize(entries);
  tables.recv_tokens_per_expert.resize(own);
  tables.group_list.resize(own);
  tables.owner_map = 0;
  tables.total_recv_tokens = tables.max_bs = tables.recv_rows = tables.padded_rows = 0;
}

void notify_kernel(runtime::CoreContext& context, const NotifyArgs& args, const Handshake& handshake,
                   NotifyTables& tables) {
  runtime::ZeroBufferSync sync(context);
  const shmem::Witness counted = sync.enter(handshake.card, handshake.fault);
  if (context.core() == Core{0}) tables.round = sync.round().value();
  collect_counts(context, args, counted, tables);
  context.sync_all();
  derive_tables(context, args, tables);
  context.sync_all();
}

Result<void> notify(runtime::Communicator& comm, const NotifyArgs& args, NotifyTables& tables) {
  Handshake handshake = notify_handshake(args, comm.rank(), comm.ranks(), comm.heap_history());
  if (!handshake.fault) handshake.fault = tables_fault(args.layout.communicator, comm);
  if (!handshake.fault) {
    handshake.fault = workspace_fault(args.workspace, notify_share(args.experts.experts()), comm);
  }
  prepare_notify(args, comm.rank(), tables);
  Result<void> done = launch_collective(comm, "notify", handshake, [&](runtime::CoreContext& context) {
    notify_kernel(context, args, handshake, tables);
  });
  tables.communicator = comm.id();
  if (done) tables.owner_map = args.experts.hash();
  return done;
}

}  // namespace shmoe::ops
