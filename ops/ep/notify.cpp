#include "ops/ep/notify.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace shmoe::ops {

namespace {

/// Counts of all ranks, as rows of recv_data.
class CountTable {
 public:
  CountTable(const NotifyTables& tables, std::int32_t experts) : counts_(tables.recv_data), experts_(experts) {}

  [[nodiscard]] std::int64_t at(std::int64_t source, Expert expert) const {
    return counts_[static_cast<std::size_t>(source) * static_cast<std::size_t>(experts_) + expert.index()];
  }
  [[nodiscard]] std::int64_t sent_by(std::int64_t source) const {
    std::int64_t sum = 0;
    for (std::int32_t expert = 0; expert < experts_; ++expert) sum += at(source, Expert{expert});
    return sum;
  }
  [[nodiscard]] std::int64_t received_by(Expert expert, std::int32_t ranks) const {
    std::int64_t sum = 0;
    for (std::int32_t source = 0; source < ranks; ++source) sum += at(source, expert);
    return sum;
  }

 private:
  std::span<const std::int32_t> counts_;
  std::int32_t experts_;
};

void collect_counts(runtime::CoreContext& context, const NotifyArgs& args, const shmem::Witness& counted,
                    NotifyTables& tables) {
  const auto experts = static_cast<std::size_t>(args.experts.experts());
  const Slice sources = context.slice(context.ranks());
  for (std::int64_t source = sources.first; source < sources.last; ++source) {
    const auto row = std::span{tables.recv_data}.subspan(static_cast<std::size_t>(source) * experts, experts);
    context.get(Rank{source}, args.layout.num_tokens_per_expert, row, counted);
  }
}

/// Exclusive prefix over (experts of the owner ascending, source ranks ascending).
void derive_put_offset(const NotifyArgs& args, const CountTable& counts, Rank owner, NotifyTables& tables) {
  const std::int32_t ranks = args.experts.ranks();
  std::int64_t row = 0;
  for (const Expert expert : args.experts.experts_of(owner)) {
    for (std::int32_t source = 0; source < ranks; ++source) {
      tables.put_offset[expert.index() * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(source)] = row;
      row += counts.at(source, expert);
    }
  }
}

void derive_max_bs(const NotifyArgs& args, const CountTable& counts, NotifyTables& tables) {
  for (std::int32_t source = 0; source < args.experts.ranks(); ++source) {
    tables.max_bs = std::max(tables.max_bs, counts.sent_by(source) / args.layout.topk);
  }
}

void derive_total(const NotifyArgs& args, const CountTable& counts, NotifyTables& tables) {
  for (std::int32_t owner = 0; owner < args.experts.ranks(); ++owner) {
    std::int64_t rows = 0;
    for (const Expert expert : args.experts.experts_of(Rank{owner})) {
      rows += counts.received_by(expert, args.experts.ranks());
    }
    tables.total_recv_tokens = std::max(tables.total_recv_tokens, rows);
  }
}

void derive_own_rows(const NotifyArgs& args, const CountTable& counts, Rank rank, NotifyTables& tables) {
  for (const Expert expert : args.experts.experts_of(rank)) {
    const std::int64_t rows = counts.received_by(expert, args.experts.ranks());
    tables.recv_tokens_per_expert[static_cast<std::size_t>(args.experts.local_index(expert))] = rows;
    tables.recv_rows += rows;
  }
}

/// The published roles: owners over the first C/2 cores, then one core for each scalar; fewer cores take several roles.
void derive_tables(runtime::CoreContext& context, const NotifyArgs& args, NotifyTables& tables) {
  const CountTable counts(tables, args.experts.experts());
  const std::int32_t cores = context.cores();
  const std::int32_t core = context.core().value();
  const std::int32_t workers = std::clamp(cores / 2, 1, context.ranks());
  if (core < workers) {
    const Slice owners = split(context.ranks(), workers, core);
    for (std::int64_t owner = owners.first; owner < owners.last; ++owner) {
      derive_put_offset(args, counts, Rank{owner}, tables);
    }
  }
  const auto has_role = [&](std::int32_t role) { return core == (cores / 2 + role) % cores; };
  if (has_role(0)) derive_max_bs(args, counts, tables);
  if (has_role(1)) derive_total(args, counts, tables);
  if (has_role(2)) derive_own_rows(args, counts, context.rank(), tables);
}

std::optional<Error> notify_fault(const NotifyArgs& args, Rank rank, std::int32_t ranks) {
  if (args.layout.fault) return args.layout.fault;
  if (args.experts.ranks() != ranks) {
    return fault_of(
        rank, Errc::invalid_argument,
        fmt::format("notify: the expert map is for {} ranks, the communicator has {}", args.experts.ranks(), ranks));
  }
  if (args.experts.experts() != args.layout.experts) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("notify: the expert map has {} experts, layout counted {}", args.experts.experts(),
                                args.layout.experts));
  }
  return std::nullopt;
}

}  // namespace

Handshake notify_handshake(const NotifyArgs& args, Rank rank, std::int32_t ranks, std::uint64_t heap_history) {
  runtime::CallCard card("notify");
  card.with("experts", args.experts.experts())
      .with("topk", args.layout.topk)
      .with("owner map", static_cast<std::int64_t>(args.experts.hash()))
      .with("counts offset", static_cast<std::int64_t>(args.layout.num_tokens_per_expert.value()))
      .with("heap history", static_cast<std::int64_t>(heap_history));
  return {card, notify_fault(args, rank, ranks)};
}

NotifyTables prepare_notify(const NotifyArgs& args, Rank rank) {
  NotifyTables tables;
  const auto entries =
      static_cast<std::size_t>(args.experts.experts()) * static_cast<std::size_t>(args.experts.ranks());
  tables.recv_data.resize(entries);
  tables.put_offset.resize(entries);
  tables.owner_map = args.experts.hash();
  if (rank < Rank{args.experts.ranks()}) tables.recv_tokens_per_expert.resize(args.experts.experts_of(rank).size());
  return tables;
}

void notify_kernel(runtime::CoreContext& context, const NotifyArgs& args, const Handshake& handshake,
                   NotifyTables& tables) {
  runtime::ZeroBufferSync sync(context);
  const shmem::Witness counted = sync.enter(handshake.card, handshake.fault);
  collect_counts(context, args, counted, tables);
  context.sync_all();
  derive_tables(context, args, tables);
  context.sync_all();
}

Result<NotifyTables> notify(runtime::Communicator& comm, const NotifyArgs& args) {
  const Handshake handshake = notify_handshake(args, comm.rank(), comm.ranks(), comm.heap_history());
  NotifyTables tables = prepare_notify(args, comm.rank());
  Result<void> done = launch_collective(comm, "notify", handshake, [&](runtime::CoreContext& context) {
    notify_kernel(context, args, handshake, tables);
  });
  if (!done) return std::move(done).error();
  return tables;
}

}  // namespace shmoe::ops
