#include "ops/ep/row_map.hpp"

#include "ops/handshake.hpp"

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

std::optional<Error> row_buffer_fault(const RowBuffer& buffer, const shmem::BlockMap& map, const NotifyTables& notify,
                                      Rank rank) {
  if (buffer.hidden < 1 || buffer.capacity < 0) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("{}: {} rows of {} elements", buffer.name, buffer.capacity, buffer.hidden));
  }
  if (buffer.capacity < notify.total_recv_tokens) {
    return Error{.code = Errc::capacity_exceeded,
                 .context = fmt::format("{} holds {} rows, {} are needed: allocate total_recv_tokens rows after notify",
                                        buffer.name, buffer.capacity, notify.total_recv_tokens)};
  }
  const std::uint64_t size = map.size.value();
  const std::uint64_t at = buffer.at.value();
  const std::uint64_t room = at > size ? 0 : size - at;
  const bool row_fits = static_cast<std::uint64_t>(buffer.hidden) <= room / size_of(buffer.dtype).value();
  const bool empty = buffer.capacity == 0;
  if (!empty &&
      (!row_fits || static_cast<std::uint64_t>(buffer.capacity) > room / row_bytes(buffer.dtype, buffer.hidden))) {
    return fault_of(rank, Errc::invalid_argument,
                    fmt::format("{}: {} rows of {} {} at offset {} reach past the end of the block ({} bytes)",
                                buffer.name, buffer.capacity, buffer.hidden, name_of(buffer.dtype), at, size));
  }
  return std::nullopt;
}

}  // namespace shmoe::ops
