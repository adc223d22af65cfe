#include "ops/ep/rows.hpp"

#include <utility>

#include "ops/scratch.hpp"
#include "shmem/context.hpp"

namespace shmoe::ops {

Bytes row_sum_share(DType dtype, std::int64_t hidden, std::int64_t pairs, std::int64_t terms) {
  return scratch_part<std::byte>(pairs * static_cast<std::int64_t>(row_bytes(dtype, hidden))) +
         scratch_part<shmem::ReadView<std::byte>>(pairs) + scratch_part<std::span<const std::byte>>(terms) +
         scratch_part<float>(terms);
}

std::optional<Error> RowMap::shape_fault() const {
  const auto experts = static_cast<std::size_t>(experts_->experts());
  const auto ranks = static_cast<std::size_t>(experts_->ranks());
  if (layout_->fault) return layout_->fault;
  if (topk_idx_.size() != layout_->send_token_idx.size()) {
    return fault_of(me_, Errc::invalid_argument,
                    fmt::format("topk_idx has {} ids, layout counted {}: pass the ids that layout had",
                                topk_idx_.size(), layout_->send_token_idx.size()));
  }
  if (me_.index() >= ranks || notify_->put_offset.size() != experts * ranks ||
      notify_->recv_data.size() != experts * ranks) {
    return fault_of(
        me_, Errc::invalid_argument,
        fmt::format(
            "notify's tables of {} entries are not those of {} experts on {} ranks: call notify with this map first",
            notify_->put_offset.size(), experts, ranks));
  }
  if (notify_->owner_map != experts_->hash()) {
    return fault_of(
        me_, Errc::invalid_argument,
        fmt::format("the owner map of these {} experts is not the one notify laid the rows out by: pass that one",
                    experts));
  }
  return std::nullopt;
}

// No branch a pair: this runs before every dispatch and combine.
bool RowMap::counted(std::size_t first, std::size_t last) const {
  const auto experts = static_cast<std::size_t>(experts_->experts());
  const auto ids = topk_idx_.subspan(first, last - first);
  const auto places = std::span{layout_->send_token_idx}.subspan(first, last - first);
  const auto sent = std::span{notify_->recv_data}.subspan(me_.index() * experts, experts);
  constexpr std::uint32_t kDropped = 0xFFFF'FFFFU;
  bool good = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(ids[i]);
    const auto place = static_cast<std::uint32_t>(places[i]);
    const bool known = id < experts;
    const bool has_row = place < static_cast<std::uint32_t>(sent[known ? id : 0]);
    const bool dropped = (id & place) == kDropped;
    good &= known ? has_row : dropped;
  }
  return good;
}

std::optional<Error> RowMap::fault() const {
  if (std::optional<Error> fault = shape_fault()) return fault;
  if (counted(0, topk_idx_.size())) return std::nullopt;
  std::size_t pair = 0;
  while (counted(pair, pair + 1)) ++pair;
  const auto topk = static_cast<std::size_t>(layout_->topk);
  return fault_of(
      me_, Errc::invalid_argument,
      fmt::format("token {}, k {}: expert id {} is not the one layout and notify counted: pass the ids that layout had",
                  pair / topk, pair % topk, topk_idx_[pair]));
}

std::optional<Error> cost_fault(std::span<const std::int64_t> wait_cost, std::int32_t ranks, Rank rank) {
  if (wait_cost.empty() || std::cmp_equal(wait_cost.size(), ranks)) return std::nullopt;
  return fault_of(rank, Errc::invalid_argument,
                  fmt::format("wait_cost has {} entries: give one for each of {} ranks", wait_cost.size(), ranks));
}

namespace {

std::optional<Error> buffer_fault(const RowCall& call, const RowMap& rows, const runtime::Communicator& comm) {
  if (call.hidden < 1 || call.hidden > kMostHidden || call.capacity < 0) {
    return fault_of(rows.me(), Errc::invalid_argument,
                    fmt::format("hidden is {} and the capacity {} rows: hidden must be in [1, {}], the capacity "
                                "0 or more",
                                call.hidden, call.capacity, kMostHidden));
  }
  if (!is_known(call.dtype) || !is_known(call.quant)) {
    return fault_of(rows.me(), Errc::invalid_argument,
                    fmt::format("dtype {} and quantisation {}: take a DType and a Quant that there are",
                                static_cast<int>(call.dtype), static_cast<int>(call.quant)));
  }
  const std::int64_t needed = rows.notify().total_recv_tokens;
  if (call.capacity < needed) {
    return Error{.code = Errc::capacity_exceeded,
                 .context = fmt::format("{} holds {} rows, {} are needed: allocate total_recv_tokens rows after notify",
                                        call.buffer, call.capacity, needed)};
  }
  const RowBuffer buffer = rows_of(call);
  if (std::optional<Error> fault = place_fault(buffer, comm)) return fault;
  return overlap_fault({"x", call.tokens}, own_part(buffer, comm), rows.me());
}

std::optional<Error> call_fault(const RowCall& call, const RowMap& rows, const runtime::Communicator& comm) {
  if (std::optional<Error> fault = buffer_fault(call, rows, comm)) return fault;
  if (rows.experts().ranks() != comm.ranks()) {
    return fault_of(rows.me(), Errc::invalid_argument,
                    fmt::format("the expert map is for {} ranks, the communicator has {}: build it for as many",
                                rows.experts().ranks(), comm.ranks()));
  }
  if (rows.notify().owner_map != 0) {
    if (std::optional<Error> fault = tables_fault(rows.notify().communicator, comm)) return fault;
    if (std::optional<Error> fault = tables_fault(rows.layout().communicator, comm)) return fault;
  }
  const std::int64_t tokens = rows.layout().tokens;
  const std::uint64_t bytes = static_cast<std::uint64_t>(tokens) * row_bytes(call.dtype, call.hidden);
  if (call.tokens.size() != bytes) {
    return fault_of(rows.me(), Errc::invalid_argument,
                    fmt::format("x has {} bytes, {} tokens of {} {} have {}: make it as long", call.tokens.size(),
                                tokens, call.hidden, name_of(call.dtype), bytes));
  }
  return rows.fault();
}

}  // namespace

RowBuffer rows_of(const RowCall& call) {
  return {.name = call.buffer,
          .at = call.at,
          .rows = call.capacity,
          .row_bytes = row_bytes(call.dtype, call.hidden, call.quant)};
}

Handshake row_handshake(const RowCall& call, const RowMap& rows, const runtime::Communicator& comm) {
  runtime::CallCard card(call.op);
  card.with("experts", rows.experts().experts())
      .with("owner map", static_cast<std::int64_t>(rows.experts().hash()))
      .with("topk", rows.layout().topk)
      .with("hidden", call.hidden)
      .with("dtype", static_cast<std::int64_t>(call.dtype))
      .with("capacity", call.capacity)
      .with("rows offset", static_cast<std::int64_t>(call.at.value()))
      .with("notify round", static_cast<std::int64_t>(rows.notify().round))
      .with("heap history", static_cast<std::int64_t>(comm.heap_history()));
  return {card, call_fault(call, rows, comm)};
}

}  // namespace shmoe::ops
