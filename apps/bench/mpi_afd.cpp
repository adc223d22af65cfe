#include "apps/bench/mpi_afd.hpp"

#include <mpi.h>

namespace shmoe::apps {
namespace {

enum Tag : int { kBatchSize, kIds, kScales, kRows, kSums };

class Requests {
 public:
  template <class T>
  void send(std::span<const T> from, Rank to, Tag tag) {
    MPI_Isend(from.data(), static_cast<int>(from.size_bytes()), MPI_BYTE, to.value(), tag, MPI_COMM_WORLD, next());
  }
  template <class T>
  void receive(std::span<T> to, Rank from, Tag tag) {
    MPI_Irecv(to.data(), static_cast<int>(to.size_bytes()), MPI_BYTE, from.value(), tag, MPI_COMM_WORLD, next());
  }
  void wait() {
    MPI_Waitall(static_cast<int>(all_.size()), all_.data(), MPI_STATUSES_IGNORE);
    all_.clear();
  }

 private:
  MPI_Request* next() { return &all_.emplace_back(MPI_REQUEST_NULL); }

  std::vector<MPI_Request> all_;
};

}  // namespace

void mpi_send_batch(const MpiAfdSizes& sizes, std::span<const std::byte> x, std::span<const std::int32_t> ids,
                    std::span<const float> scales) {
  const Rank to = sizes.ranks.expert_of(sizes.me);
  const auto rows = static_cast<std::int32_t>(x.size() / sizes.row_bytes);
  Requests requests;
  requests.send(std::span<const std::int32_t>{&rows, 1}, to, kBatchSize);
  requests.send(ids, to, kIds);
  requests.send(scales, to, kScales);
  requests.send(x, to, kRows);
  requests.wait();
}

std::vector<std::int32_t> mpi_receive_batches(const MpiAfdSizes& sizes, std::span<std::byte> rows,
                                              std::span<std::int32_t> ids, std::span<float> scales) {
  std::vector<std::int32_t> batch_sizes(static_cast<std::size_t>(sizes.ranks.served(sizes.me)));
  const auto source = [&](std::size_t i) { return sizes.ranks.attention_rank(sizes.me, static_cast<std::int32_t>(i)); };
  Requests requests;
  for (std::size_t i = 0; i < batch_sizes.size(); ++i) {
    requests.receive(std::span{batch_sizes}.subspan(i, 1), source(i), kBatchSize);
  }
  requests.wait();
  std::size_t first = 0;
  for (std::size_t i = 0; i < batch_sizes.size(); ++i) {
    const auto count = static_cast<std::size_t>(batch_sizes[i]);
    requests.receive(ids.subspan(first * sizes.topk, count * sizes.topk), source(i), kIds);
    requests.receive(scales.subspan(first * sizes.topk, count * sizes.topk), source(i), kScales);
    requests.receive(rows.subspan(first * sizes.row_bytes, count * sizes.row_bytes), source(i), kRows);
    first += count;
  }
  requests.wait();
  return batch_sizes;
}

void mpi_send_sums(const MpiAfdSizes& sizes, std::span<const std::int32_t> batch_sizes,
                   std::span<const std::byte> sums) {
  Requests requests;
  std::size_t first = 0;
  for (std::size_t i = 0; i < batch_sizes.size(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(batch_sizes[i]) * sizes.row_bytes;
    requests.send(sums.subspan(first, bytes), sizes.ranks.attention_rank(sizes.me, static_cast<std::int32_t>(i)),
                  kSums);
    first += bytes;
  }
  requests.wait();
}

void mpi_receive_sums(const MpiAfdSizes& sizes, std::span<std::byte> x) {
  Requests requests;
  requests.receive(x, sizes.ranks.expert_of(sizes.me), kSums);
  requests.wait();
}

}  // namespace shmoe::apps
