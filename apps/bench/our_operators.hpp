#pragma once
// The contender that the benchmark is about: layout, notify and dispatch; then combine.

#include "apps/bench/contender.hpp"
#include "apps/bench/workload.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/pipeline.hpp"

namespace shmoe::apps {

class OurOperators final : public Contender {
 public:
  /// Collective.
  ///
  /// Errors:  as EpBuffers::allocate
  static Result<std::unique_ptr<OurOperators>> create(runtime::Communicator& comm, const Workload& workload);

  [[nodiscard]] std::string_view name() const override { return "ours"; }
  [[nodiscard]] std::string_view key() const override { return "ours"; }
  [[nodiscard]] Stages stages() const override;
  Result<void> dispatch(StageTimes& times) override;
  [[nodiscard]] std::span<std::byte> received() override { return buffers_.received(notify_.recv_rows); }
  [[nodiscard]] std::span<const float> scales() override { return buffers_.scales(notify_.recv_rows); }
  Result<void> combine(StageTimes& times) override;
  [[nodiscard]] std::span<std::byte> answers() override { return buffers_.answers(notify_.recv_rows); }
  [[nodiscard]] std::span<std::byte> combined() override { return combined_.bytes(); }

  /// Where rows lie on every rank, for the limits. Of the last dispatch.
  [[nodiscard]] Offset recv_x() const { return buffers_.recv_x(); }
  [[nodiscard]] Offset expert_out() const { return buffers_.expert_out(); }

 private:
  OurOperators(runtime::Communicator& comm, const Workload& workload, ops::EpBuffers buffers);

  runtime::Communicator* comm_;
  const Workload* workload_;
  ops::EpBuffers buffers_;
  ops::LayoutTables layout_;
  ops::NotifyTables notify_;
  RowBuffer combined_;
};

}  // namespace shmoe::apps
