#pragma once
// The low-latency operators themselves, in a published profile: an expert a rank, and a short row a pair.
//
//   ll::Layer layer(comm, {.ids = {1, 0}});   dispatch -> experts -> combine

#include <algorithm>

#include "apps/check/kernels.hpp"
#include "apps/museum/exhibit.hpp"
#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"

namespace shmoe::apps::ll {

constexpr std::int64_t kHidden = 16;
constexpr std::size_t kRow = kHidden * sizeof(float);  // what the heap deals in, so that one more row is none

/// The same on every rank.
struct Batch {
  std::vector<std::int32_t> ids;  // [T, K]
  std::int32_t topk = 1;
  float x = 1;  // each element
  ops::Quant quant = ops::Quant::none;
};

class Layer {
 public:
  Layer(runtime::Communicator& comm, Batch batch)
      : comm_(&comm),
        batch_(std::move(batch)),
        experts_(ops::ExpertMap::even(comm.ranks(), comm.ranks())),
        x_(kHidden * batch_.ids.size() / static_cast<std::size_t>(batch_.topk), batch_.x),
        sums_(x_.size()) {}

  /// Before the first dispatch.
  Result<void> allocate() {
    for (const auto& [place, size] : {std::pair{&expand_x_, kRow}, {&expert_out_, kRow}, {&scales_, sizeof(float)}}) {
      const Result<Offset> at = comm_->allocate(Bytes{size} * static_cast<std::uint64_t>(capacity()));
      if (!at) return at.error();
      *place = *at;
    }
    return {};
  }

  Result<void> dispatch() {
    return ops::dispatch_low_latency(*comm_,
                                     {.x = std::as_bytes(std::span{x_}),
                                      .dtype = DType::fp32,
                                      .hidden = kHidden,
                                      .expert_ids = batch_.ids,
                                      .topk = batch_.topk,
                                      .experts = experts_,
                                      .expand_x = expand_x_,
                                      .capacity = capacity(),
                                      .quant = batch_.quant,
                                      .dynamic_scales = scales_},
                                     tables_);
  }

  /// A kernel that looks at each row received.
  Result<void> experts() {
    return comm_->launch("experts", [&](runtime::CoreContext& context) {
      const Slice rows = context.slice(tables_.recv_rows);
      for (std::int64_t row = rows.first; row < rows.last; ++row) read_row(context, row);
    });
  }

  Result<void> combine() {
    return ops::combine_low_latency(*comm_, {.expert_out = expert_out_,
                                             .capacity = capacity(),
                                             .tables = tables_,
                                             .x = std::as_writable_bytes(std::span{sums_})});
  }

  /// Of unquantised rows.
  std::vector<float> read_row(runtime::CoreContext& context, std::int64_t row) const {
    std::vector<float> seen(kHidden);
    context.get(context.rank(), expand_x_ + Bytes{kRow} * static_cast<std::uint64_t>(row), std::span{seen},
                shmem::Witness::own());
    return seen;
  }
  [[nodiscard]] std::span<const float> scales() const {
    return comm_->local<float>(scales_, static_cast<std::size_t>(tables_.recv_rows));
  }
  [[nodiscard]] std::int64_t received() const { return tables_.recv_rows; }

 private:
  [[nodiscard]] std::int64_t capacity() const { return std::ssize(batch_.ids) * comm_->ranks(); }

  runtime::Communicator* comm_;
  Batch batch_;
  ops::ExpertMap experts_;
  std::vector<float> x_;
  std::vector<float> sums_;
  Offset expand_x_, expert_out_, scales_;
  ops::LowLatencyTables tables_;
};

/// The calls in this order, one at least.
inline Result<void> run(Layer& layer, std::initializer_list<Result<void> (Layer::*)()> calls) {
  Result<void> done = layer.allocate();
  for (const auto call : calls) {
    if (done) done = (layer.*call)();
  }
  return done;
}

/// Those of a layer in the checker.
inline std::function<Result<void>(runtime::Communicator&)> checked(
    Batch batch, std::initializer_list<Result<void> (Layer::*)()> calls) {
  return [batch = std::move(batch), calls = std::vector(calls)](runtime::Communicator& comm) -> Result<void> {
    Layer layer(comm, batch);
    Result<void> done = layer.allocate();
    for (const auto call : calls) {
      if (done) done = (layer.*call)();
    }
    return done;
  };
}

}  // namespace shmoe::apps::ll
