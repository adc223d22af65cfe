#include "ops/ep/layout.hpp"

#include <algorithm>
#include <limits>
#include <memory_resource>
#include <span>
#include <utility>

#include "ops/ep/place.hpp"
#include "ops/handshake.hpp"
#include "ops/scratch.hpp"

namespace shmoe::ops {

namespace {

using Counts = std::span<std::int32_t>;

RowBuffer counts_of(const LayoutArgs& args) {
  return {.name = "layout: num_tokens_per_expert",
          .at = args.num_tokens_per_expert,
          .rows = args.experts.experts(),
          .row_bytes = sizeof(std::int32_t),
          .alignment = sizeof(std::int32_t)};
}

std::optional<Error> shape_fault(const LayoutArgs& args, const runtime::Communicator& comm) {
  const Rank rank = comm.rank();
  const Routing& routing = args.routing;
  const std::size_t pairs = routing.topk_idx().size();
  if (routing.topk() < 1) {
    return fault_of(rank, Errc::invalid_argument, fmt::format("layout: top-k is {}: give 1 or more", routing.topk()));
  }
  if (routing.topk() > args.experts.experts()) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("layout: top-k is {} of {} experts: pass 1 to {}", routing.topk(),
                                args.experts.experts(), args.experts.experts()));
  }
  if (pairs % static_cast<std::size_t>(routing.topk()) != 0) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("layout: {} expert ids are no whole number of tokens of top-k {}: give T x K", pairs,
                                routing.topk()));
  }
  if (pairs > std::numeric_limits<std::int32_t>::max()) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("layout: {} expert ids do not fit 32-bit counts: send fewer tokens at a time", pairs));
  }
  if (args.experts.ranks() != comm.ranks()) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("layout: the expert map is for {} ranks, the communicator has {}: build it for as many",
                                args.experts.ranks(), comm.ranks()));
  }
  if (std::optional<Error> fault = place_fault(counts_of(args), comm)) return fault;
  auto fault = workspace_fault(args.workspace, layout_share(args.experts.experts(), comm.cores()), comm);
  if (fault) return std::move(*fault).within("layout");  // notify tells it
  return std::nullopt;
}

Counts row_of(std::vector<std::int32_t>& table, std::int64_t row, std::int32_t columns) {
  return Counts{table}.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
}

/// Counts one token; false where one of its ids is bad, which then counts as dropped.
class TokenCounter {
 public:
  TokenCounter(const LayoutArgs& args, Rank rank, Counts experts, Counts ranks)
      : args_(&args), rank_(rank), experts_(experts), ranks_(ranks) {}

  void count(std::int64_t token, Counts in_rank) {
    const std::int32_t topk = args_->routing.topk();
    std::fill(in_rank.begin(), in_rank.end(), 0);
    for (std::int32_t k = 0; k < topk; ++k) {
      const std::int64_t id = args_->routing.topk_idx()[static_cast<std::size_t>(token * topk + k)];
      if (id < 0 || id >= args_->experts.experts()) {
        if (id != -1 && !fault_) fault_ = bad_id(token, k, id);
        continue;
      }
      ++experts_[static_cast<std::size_t>(id)];
      const std::size_t owner = args_->experts.owner(Expert{id}).index();
      ranks_[owner] += 1 - std::exchange(in_rank[owner], 1);
    }
  }
  [[nodiscard]] std::optional<Error>& fault() { return fault_; }

 private:
  [[nodiscard]] Error bad_id(std::int64_t token, std::int32_t k, std::int64_t id) const {
    return fault_of(
        rank_, Errc::invalid_argument,
        fmt::format("token {}, k {}: expert id {} is not in [-1, {}): mend the id, or give -1 to drop the pair", token,
                    k, id, args_->experts.experts()));
  }

  const LayoutArgs* args_;
  Rank rank_;
  Counts experts_;
  Counts ranks_;
  std::optional<Error> fault_;
};

void count_own_tokens(runtime::CoreContext& context, const LayoutArgs& args, LayoutTables& tables) {
  const std::int64_t core = context.core().value();
  const Counts experts = row_of(tables.notify_send_data, core, args.experts.experts());
  const Counts ranks = row_of(tables.rank_rows, core, context.ranks());
  std::fill(experts.begin(), experts.end(), 0);
  std::fill(ranks.begin(), ranks.end(), 0);
  TokenCounter counter(args, context.rank(), experts, ranks);
  const Slice tokens = context.slice(tables.tokens);
  for (std::int64_t token = tokens.first; token < tokens.last; ++token) {
    counter.count(token, row_of(tables.is_token_in_rank, token, context.ranks()));
  }
  context.launch().faults[context.core().index()] = std::move(counter.fault());
}

/// Exclusive prefix down one column, in place; returns the total.
std::int32_t prefix_column(std::vector<std::int32_t>& table, std::int32_t columns, std::int64_t column) {
  std::int32_t sum = 0;
  for (auto at = static_cast<std::size_t>(column); at < table.size(); at += static_cast<std::size_t>(columns)) {
    sum += std::exchange(table[at], sum);
  }
  return sum;
}

void fold_own_columns(runtime::CoreContext& context, const LayoutArgs& args, LayoutTables& tables) {
  const Slice experts = context.slice(args.experts.experts());
  Scratch scratch(context, args.workspace, layout_share(args.experts.experts(), context.cores()));
  std::pmr::vector<std::int32_t> totals(&scratch);
  totals.reserve(static_cast<std::size_t>(experts.size()));
  for (std::int64_t expert = experts.first; expert < experts.last; ++expert) {
    totals.push_back(prefix_column(tables.notify_send_data, args.experts.experts(), expert));
  }
  if (!totals.empty()) {
    const Offset at = args.num_tokens_per_expert + Bytes{4} * static_cast<std::uint64_t>(experts.first);
    context.put(context.rank(), at, std::span<const std::int32_t>{totals});
  }
  const Slice ranks = context.slice(context.ranks());
  for (std::int64_t rank = ranks.first; rank < ranks.last; ++rank) {
    tables.num_tokens_per_rank[static_cast<std::size_t>(rank)] = prefix_column(tables.rank_rows, context.ranks(), rank);
  }
  if (context.core() == Core{0}) {
    for (const std::optional<Error>& fault : context.launch().faults) {
      if (fault && !tables.fault) tables.fault = fault;
    }
  }
}

void number_own_tokens(runtime::CoreContext& context, const LayoutArgs& args, LayoutTables& tables) {
  const Counts next = row_of(tables.notify_send_data, context.core().value(), args.experts.experts());
  const Slice tokens = context.slice(tables.tokens);
  for (std::int64_t pair = tokens.first * tables.topk; pair < tokens.last * tables.topk; ++pair) {
    const auto at = static_cast<std::size_t>(pair);
    const std::int64_t id = args.routing.topk_idx()[at];
    const bool counted = id >= 0 && id < args.experts.experts();
    tables.send_token_idx[at] = counted ? next[static_cast<std::size_t>(id)]++ : -1;
  }
}

}  // namespace

Bytes layout_share(std::int32_t experts, std::int32_t cores) {
  return scratch_part<std::int32_t>(split(experts, cores, 0).size());  // the first one has most
}

runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const LayoutArgs& args) {
  const Bytes share = layout_share(args.experts.experts(), comm.cores());
  return {.own = share * static_cast<std::uint64_t>(comm.cores())};
}

void prepare_layout(const LayoutArgs& args, const runtime::Communicator& comm, LayoutTables& tables) {
  tables.communicator = comm.id();
  tables.topk = args.routing.topk();
  tables.experts = args.experts.experts();
  tables.num_tokens_per_expert = args.num_tokens_per_expert;
  tables.fault = shape_fault(args, comm);
  if (tables.fault) return;

  const auto columns = static_cast<std::size_t>(comm.ranks());
  const auto rows = static_cast<std::size_t>(comm.cores());
  tables.tokens = args.routing.tokens();
  tables.num_tokens_per_rank.resize(columns);
  tables.is_token_in_rank.resize(static_cast<std::size_t>(tables.tokens) * columns);
  tables.notify_send_data.resize(rows * static_cast<std::size_t>(args.experts.experts()));
  tables.send_token_idx.resize(args.routing.topk_idx().size());
  tables.rank_rows.resize(rows * columns);
}

void layout_kernel(runtime::CoreContext& context, const LayoutArgs& args, LayoutTables& tables) {
  count_own_tokens(context, args, tables);
  context.sync_all();
  fold_own_columns(context, args, tables);
  context.sync_all();
  number_own_tokens(context, args, tables);
}

Result<void> layout(runtime::Communicator& comm, const LayoutArgs& args, LayoutTables& tables) {
  prepare_layout(args, comm, tables);
  if (tables.fault) return {};
  const auto kernel = [&](runtime::CoreContext& context) { layout_kernel(context, args, tables); };
  return comm.launch("layout", kernel);
}

}  // namespace shmoe::ops
