#include "ops/ep/rows.hpp"

namespace shmoe::ops {

std::optional<Error> RowMap::shape_fault() const {
  const auto experts = static_cast<std::size_t>(experts_->experts());
  const auto ranks = static_cast<std::size_t>(experts_->ranks());
  if (layout_->fault) return layout_->fault;
  if (topk_idx_.size() != layout_->send_token_idx.size()) {
    return fault_of(
        me_, Errc::invalid_argument,
        fmt::format("topk_idx has {} ids, layout counted {}", topk_idx_.size(), layout_->send_token_idx.size()));
  }
  if (me_.index() >= ranks || notify_->put_offset.size() != experts * ranks ||
      notify_->recv_data.size() != experts * ranks) {
    return fault_of(me_, Errc::invalid_argument,
                    fmt::format("notify's tables of {} entries are not those of {} experts on {} ranks",
                                notify_->put_offset.size(), experts, ranks));
  }
  if (notify_->owner_map != experts_->hash()) {
    return fault_of(
        me_, Errc::invalid_argument,
        fmt::format("the owner map of these {} experts is not the one notify laid the rows out by", experts));
  }
  return std::nullopt;
}

bool RowMap::agrees(std::size_t pair) const {
  const std::int32_t id = topk_idx_[pair];
  const std::int32_t place = layout_->send_token_idx[pair];
  if (id == -1) return place == -1;
  if (id < 0 || id >= experts_->experts()) return false;
  const std::size_t sent = me_.index() * static_cast<std::size_t>(experts_->experts()) + static_cast<std::size_t>(id);
  return place >= 0 && place < notify_->recv_data[sent];
}

std::optional<Error> RowMap::fault() const {
  if (std::optional<Error> fault = shape_fault()) return fault;
  const auto topk = static_cast<std::size_t>(layout_->topk);
  for (std::size_t pair = 0; pair < topk_idx_.size(); ++pair) {
    if (agrees(pair)) continue;
    return fault_of(me_, Errc::invalid_argument,
                    fmt::format("token {}, k {}: expert id {} is not the one layout and notify counted", pair / topk,
                                pair % topk, topk_idx_[pair]));
  }
  return std::nullopt;
}

namespace {

bool fits(const RowCall& call, std::uint64_t block) {
  if (call.capacity == 0) return true;
  const std::uint64_t room = call.at.value() > block ? 0 : block - call.at.value();
  const std::uint64_t elements = room / size_of(call.dtype).value();
  return static_cast<std::uint64_t>(call.hidden) <= elements &&
         static_cast<std::uint64_t>(call.capacity) <= elements / static_cast<std::uint64_t>(call.hidden);
}

std::optional<Error> buffer_fault(const RowCall& call, const NotifyTables& notify, Rank rank, std::uint64_t block) {
  if (call.hidden < 1 || call.capacity < 0) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("{}: {} rows of {} elements", call.buffer, call.capacity, call.hidden));
  }
  if (call.capacity < notify.total_recv_tokens) {
    return Error{.code = Errc::capacity_exceeded,
                 .context = fmt::format("{} holds {} rows, {} are needed: allocate total_recv_tokens rows after notify",
                                        call.buffer, call.capacity, notify.total_recv_tokens)};
  }
  if (!fits(call, block)) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("{}: {} rows of {} {} at offset {} reach past the end of the block ({} bytes)",
                                call.buffer, call.capacity, call.hidden, name_of(call.dtype), call.at, block));
  }
  return std::nullopt;
}

std::optional<Error> call_fault(const RowCall& call, const RowMap& rows, std::uint64_t block) {
  if (std::optional<Error> fault = buffer_fault(call, rows.notify(), rows.me(), block)) return fault;
  const std::int64_t tokens = rows.layout().tokens;
  const std::uint64_t bytes = static_cast<std::uint64_t>(tokens) * row_bytes(call.dtype, call.hidden);
  if (call.token_bytes != bytes) {
    return fault_of(rows.me(), Errc::invalid_argument,
                    fmt::format("x has {} bytes, {} tokens of {} {} have {}", call.token_bytes, tokens, call.hidden,
                                name_of(call.dtype), bytes));
  }
  return rows.fault();
}

}  // namespace

Handshake row_handshake(const RowCall& call, const RowMap& rows, const shmem::BlockMap& map,
                        std::uint64_t heap_history) {
  runtime::CallCard card(call.op);
  card.with("experts", rows.experts().experts())
      .with("owner map", static_cast<std::int64_t>(rows.experts().hash()))
      .with("topk", rows.layout().topk)
      .with("hidden", call.hidden)
      .with("dtype", static_cast<std::int64_t>(call.dtype))
      .with("capacity", call.capacity)
      .with("rows offset", static_cast<std::int64_t>(call.at.value()))
      .with("notify total", rows.notify().total_recv_tokens)
      .with("heap history", static_cast<std::int64_t>(heap_history));
  return {card, call_fault(call, rows, map.size.value())};
}

}  // namespace shmoe::ops
