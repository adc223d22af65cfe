#pragma once
// The contender of `shmoe bench ll`: dispatch and combine for few tokens.

#include "apps/bench/contender.hpp"
#include "apps/bench/workload.hpp"
#include "ops/low_latency/buffers.hpp"

namespace shmoe::apps {

/// All calls use one half of the buffers, since the answers of the experts stay the same.
class LowLatencyOperators final : public Contender {
 public:
  /// Collective; the slots have to be declared.
  ///
  /// Errors:  as LowLatencyBuffers::allocate
  static Result<std::unique_ptr<LowLatencyOperators>> create(runtime::Communicator& comm, const Workload& workload);

  [[nodiscard]] std::string_view name() const override { return "ours"; }
  [[nodiscard]] std::string_view key() const override { return "ours"; }
  [[nodiscard]] Stages stages() const override;
  Result<void> dispatch(StageTimes& times) override;
  [[nodiscard]] std::span<std::byte> received() override { return half_->received(tables_); }
  Result<void> combine(StageTimes& times) override;
  [[nodiscard]] std::span<std::byte> answers() override { return half_->answers(tables_); }
  [[nodiscard]] std::span<std::byte> combined() override { return combined_.bytes(); }

  /// Where rows lie on every rank, for the limits.
  [[nodiscard]] Offset expand_x() const { return half_->expand_x; }
  [[nodiscard]] Offset expert_out() const { return half_->expert_out; }

 private:
  LowLatencyOperators(runtime::Communicator& comm, const Workload& workload, ops::LowLatencyBuffers buffers);

  runtime::Communicator* comm_;
  const Workload* workload_;
  ops::LowLatencyBuffers buffers_;
  const ops::LowLatencyBuffers::Half* half_;
  ops::LowLatencyTables tables_;
  RowBuffer combined_;
};

}  // namespace shmoe::apps
