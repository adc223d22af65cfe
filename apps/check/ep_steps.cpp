#include "apps/check/ep_steps.hpp"

#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"

namespace shmoe::apps {
namespace {

Error differs(const runtime::Communicator& comm, const char* what, std::size_t round) {
  return Error{.code = Errc::mismatch,
               .context = fmt::format("wrong result: {} of rank {} in round {} differs from the sequential reference",
                                      what, comm.rank(), round),
               .where = comm.rank()};
}

}  // namespace

Result<void> EpSteps::allocate() {
  auto buffers = ops::EpBuffers::allocate(*comm_, problem_->experts.experts(), kCheckedType, kCheckedHidden);
  if (!buffers) return std::move(buffers).error();
  buffers_ = *std::move(buffers);
  return {};
}

Result<void> EpSteps::release() {
  if (Result<void> met = comm_->barrier(); !met) return met;
  return buffers_->release();
}

Result<void> EpSteps::layout(std::size_t round) {
  Result<void> counted = ops::layout(*comm_,
                                     {.routing = at(round).routing[me()],
                                      .experts = problem_->experts,
                                      .num_tokens_per_expert = buffers_->next_counts()},
                                     layout_);
  if (!counted) return counted;
  const ops::reference::Answer& answer = at(round).answer;
  if (layout_.send_token_idx != answer.send_token_idx[me()]) return differs(*comm_, "send_token_idx", round);
  if (layout_.num_tokens_per_rank != answer.num_tokens_per_rank[me()]) {
    return differs(*comm_, "num_tokens_per_rank", round);
  }
  if (layout_.is_token_in_rank != answer.is_token_in_rank[me()]) return differs(*comm_, "is_token_in_rank", round);
  return {};
}

Result<void> EpSteps::notify(std::size_t round) {
  Result<void> told = ops::notify(*comm_, {.layout = layout_, .experts = problem_->experts}, notify_);
  if (!told) return told;
  const ops::reference::Answer& answer = at(round).answer;
  if (notify_.recv_data != answer.recv_data) return differs(*comm_, "recv_data", round);
  if (notify_.put_offset != answer.put_offset) return differs(*comm_, "put_offset", round);
  if (notify_.total_recv_tokens != answer.total_recv_tokens) return differs(*comm_, "total_recv_tokens", round);
  if (notify_.max_bs != answer.max_bs) return differs(*comm_, "max_bs", round);
  if (notify_.recv_tokens_per_expert != answer.recv_tokens_per_expert[me()]) {
    return differs(*comm_, "recv_tokens_per_expert", round);
  }
  const auto rows = static_cast<std::size_t>(notify_.recv_rows);
  if (rows != answer.rows[me()].size()) return differs(*comm_, "recv_rows", round);
  return {};
}

Result<void> EpSteps::make_room(std::size_t /*round*/) {
  if (Result<void> room = buffers_->reserve(notify_); !room) return room;
  return comm_->barrier();
}

Result<void> EpSteps::dispatch(std::size_t round) {
  if (Result<void> room = buffers_->reserve(notify_); !room) return room;
  return ops::dispatch_normal(*comm_, {.x = at(round).x[me()],
                                       .dtype = kCheckedType,
                                       .hidden = kCheckedHidden,
                                       .topk_idx = at(round).routing[me()].topk_idx_i32(),
                                       .experts = problem_->experts,
                                       .layout = layout_,
                                       .notify = notify_,
                                       .recv_x = buffers_->recv_x(),
                                       .capacity = buffers_->capacity()});
}

Result<void> EpSteps::experts(std::size_t round) {
  const std::vector<std::byte>& expected = at(round).received[me()];
  const std::vector<std::byte>& answers = at(round).answers[me()];
  std::vector<char> wrong(static_cast<std::size_t>(comm_->cores()));
  Result<void> done = comm_->launch("experts", [&](runtime::CoreContext& context) {
    const Slice rows = context.slice(static_cast<std::int64_t>(expected.size() / kCheckedRow));
    for (auto row = static_cast<std::size_t>(rows.first); row < static_cast<std::size_t>(rows.last); ++row) {
      const Bytes place{row * kCheckedRow};
      std::byte x[kCheckedRow];
      context.get(context.rank(), buffers_->recv_x() + place, x, shmem::Witness::own());
      if (!std::equal(std::begin(x), std::end(x), expected.begin() + static_cast<std::ptrdiff_t>(place.value()))) {
        wrong[context.core().index()] = 1;
      }
      context.put(context.rank(), buffers_->expert_out() + place,
                  std::span{answers}.subspan(place.value(), kCheckedRow));
    }
  });
  for (const char core : wrong) {
    if (core != 0) return differs(*comm_, "recv_x", round);
  }
  return done;
}

Result<void> EpSteps::combine(std::size_t round) {
  std::vector<std::byte> x(at(round).x[me()].size());
  Result<void> done = ops::combine_normal(*comm_, {.expert_out = buffers_->expert_out(),
                                                   .capacity = buffers_->capacity(),
                                                   .dtype = kCheckedType,
                                                   .hidden = kCheckedHidden,
                                                   .topk_idx = at(round).routing[me()].topk_idx_i32(),
                                                   .weights = at(round).routing[me()].weights(),
                                                   .experts = problem_->experts,
                                                   .layout = layout_,
                                                   .notify = notify_,
                                                   .x = x});
  if (done && x != at(round).combined[me()]) return differs(*comm_, "the combined rows", round);
  return done;
}

}  // namespace shmoe::apps
