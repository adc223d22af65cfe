#pragma once
// a2e and e2a as published, on rows of which every element is the number of the row.

#include "apps/museum/exhibit.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "shmem/number.hpp"

namespace shmoe::apps::afd {

inline constexpr std::int64_t kHidden = 1024;

/// Row i of rank r: 16 r + i + 1.
inline std::vector<std::uint16_t> rows_of(Rank rank, std::int64_t rows) {
  std::vector<std::uint16_t> x;
  for (std::int64_t i = 0; i < rows * kHidden; ++i) {
    x.push_back(shmem::float_to_bf16(static_cast<float>(16 * rank.value() + i / kHidden + 1)));
  }
  return x;
}

inline void declare(shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); }

/// What a rank calls the operators with.
struct Options {
  std::int32_t experts = 1;
  std::int64_t sent = 4;      // rows of an attention rank
  std::int64_t expected = 4;  // rows that an expert rank makes room for
  bool gate = true;
};

/// One rank's side of both operators.
class Side {
 public:
  /// Errors:  as Communicator::allocate
  static Result<Side> on(runtime::Communicator& comm, const Options& options) {
    Side side(comm, options);
    const Result<Offset> window = comm.allocate(ops::afd_window_bytes(side.shape_, comm.profile()));
    if (!window) return window.error();
    side.window_ = *window;
    return side;
  }

  Result<void> a2e() { return ops::a2e(*comm_, there(), tables_); }
  /// On the first cores alone.
  Result<void> a2e_on(std::int32_t cores) {
    const ops::A2eArgs args = there();
    const ops::Handshake handshake = ops::a2e_handshake(args, *comm_);
    ops::prepare_a2e(args, *comm_, tables_);
    return comm_->launch("a2e", cores,
                         [&](runtime::CoreContext& context) { ops::a2e_kernel(context, args, handshake, tables_); });
  }
  Result<void> e2a() {
    ops::E2aArgs back{.place = place(), .a2e = tables_};
    if (is_expert()) {
      back.answers = rows_;
    } else {
      back.x = std::as_writable_bytes(std::span{answers_});
    }
    return ops::e2a(*comm_, back);
  }
  /// Errors:  mismatch naming the first row that an attention rank did not get back as it sent it
  [[nodiscard]] Result<void> compare() const {
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (answers_[i] == x_[i]) continue;
      return Error{.code = Errc::mismatch,
                   .context = fmt::format("row {} came back to rank {} with {} in column {}, and went out with {}",
                                          i / kHidden, comm_->rank(), shmem::bf16_to_float(answers_[i]), i % kHidden,
                                          shmem::bf16_to_float(x_[i])),
                   .where = comm_->rank()};
    }
    return {};
  }

 private:
  Side(runtime::Communicator& comm, const Options& options)
      : comm_(&comm),
        shape_{.ranks = ops::Assignment::of(options.experts, comm.ranks() - options.experts).value(),
               .max_batch = 4,
               .hidden = kHidden,
               .topk = 2,
               .compute_gate = options.gate,
               .published = {.half = Bytes{64U << 10}, .flags = Bytes{4096}}},
        signals_(ops::afd_signals(comm.slots())) {
    if (is_expert()) {
      rows_.resize(static_cast<std::size_t>(options.expected) * shape_.row_bytes());
      return;
    }
    x_ = rows_of(comm.rank(), options.sent);
    answers_.resize(x_.size());
    const std::int64_t pairs = options.gate ? options.sent * shape_.topk : 0;
    ids_.resize(static_cast<std::size_t>(pairs));
    scales_.resize(static_cast<std::size_t>(pairs), 1.0F);
  }

  [[nodiscard]] bool is_expert() const { return shape_.ranks.is_expert(comm_->rank()); }
  [[nodiscard]] ops::AfdPlace place() const { return {.shape = shape_, .window = window_, .signals = signals_}; }
  [[nodiscard]] ops::A2eArgs there() {
    if (is_expert()) return {.place = place(), .expand_x = rows_};
    return {.place = place(), .x = std::as_bytes(std::span{x_}), .expert_ids = ids_, .scales = scales_};
  }

  runtime::Communicator* comm_;
  ops::AfdShape shape_;
  ops::AfdSignals signals_;
  Offset window_{0};
  ops::A2eTables tables_;
  std::vector<std::uint16_t> x_;        // of an attention rank
  std::vector<std::uint16_t> answers_;  // the same rows, back
  std::vector<std::int32_t> ids_;
  std::vector<float> scales_;
  std::vector<std::byte> rows_;  // of an expert rank, as they came
};

/// a2e, then e2a of the same rows.
/// Errors:  as Side::compare
inline Result<void> there_and_back(runtime::Communicator& comm, const Options& options) {
  Result<Side> side = Side::on(comm, options);
  if (!side) return side.error();
  if (auto done = side->a2e(); !done) return done;
  if (auto done = side->e2a(); !done) return done;
  return side->compare();
}

}  // namespace shmoe::apps::afd
