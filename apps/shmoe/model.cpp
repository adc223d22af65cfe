#include "apps/shmoe/model.hpp"

#include "apps/shmoe/payload.hpp"
#include "shmem/quantise.hpp"

namespace shmoe::apps {
namespace {

/// The expert of each row.
std::vector<Expert> experts_by_row(const ExpertRows& received) {
  std::vector<Expert> by_row;
  for (std::size_t l = 0; l < received.experts.size(); ++l) {
    by_row.insert(by_row.end(), static_cast<std::size_t>(received.counts[l]), received.experts[l]);
  }
  return by_row;
}

}  // namespace

std::vector<std::byte> attend(const MoeShape& shape, const Batch& batch, Rank rank, std::int64_t number) {
  const std::size_t row = ops::row_bytes(shape.dtype, shape.hidden);
  std::vector<std::byte> x(row * static_cast<std::size_t>(batch.tokens));
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    fill_token({shape.seed, number, rank, token}, shape.dtype,
               std::span{x}.subspan(row * static_cast<std::size_t>(token), row));
  }
  return x;
}

std::span<const std::byte> opened(const MoeShape& shape, std::span<const std::byte> sent, float scale,
                                  std::vector<std::byte>& room) {
  if (shape.quant == ops::Quant::none) return sent;
  room.resize(ops::row_bytes(shape.dtype, shape.hidden));
  shmem::dequantise_row(shape.dtype, sent, scale, room);
  return room;
}

void run_experts(runtime::Executor& executor, const MoeShape& shape, const ExpertRows& received,
                 std::span<std::byte> answers) {
  const std::vector<Expert> by_row = experts_by_row(received);
  const std::size_t size = ops::row_bytes(shape.dtype, shape.hidden);
  const std::size_t sent_size = ops::row_bytes(shape.dtype, shape.hidden, shape.quant);
  executor.for_each(static_cast<std::int64_t>(by_row.size()), [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(i);
    const auto sent = received.rows.subspan(row * sent_size, sent_size);
    const float scale = received.scales.empty() ? 1.0F : received.scales[row];
    std::vector<std::byte> room;
    run_expert(by_row[row], shape.dtype, opened(shape, sent, scale, room), answers.subspan(row * size, size));
  });
}

}  // namespace shmoe::apps
