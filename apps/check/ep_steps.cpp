#include "apps/check/ep_steps.hpp"

#include <algorithm>

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
  auto buffers =
      ops::EpBuffers::allocate(*comm_, problem_->experts.experts(), kCheckedType, kCheckedHidden, extras().quant);
  if (!buffers) return std::move(buffers).error();
  buffers_ = *std::move(buffers);
  if (extras().wait_costs) wait_cost_.assign(static_cast<std::size_t>(comm_->ranks()), 0);
  if (!extras().gradients) return {};
  std::int64_t most = 1;
  for (const EpRound& round : problem_->rounds) most = std::max(most, round.answer.total_recv_tokens + 1);
  Result<Offset> place = comm_->allocate(Bytes{kCheckedElement} * static_cast<std::uint64_t>(2 * most));
  if (!place) return std::move(place).error();
  prob_grad_ = *place;
  return {};
}

Result<void> EpSteps::release() {
  if (Result<void> met = comm_->barrier(); !met) return met;
  if (extras().gradients) {
    if (Result<void> freed = comm_->free(prob_grad_); !freed) return freed;
  }
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
  Result<void> told = ops::notify(
      *comm_, {.layout = layout_, .experts = problem_->experts, .expert_alignment = extras().alignment}, notify_);
  if (!told) return told;
  const ops::reference::Answer& answer = at(round).answer;
  if (notify_.recv_data != answer.recv_data) return differs(*comm_, "recv_data", round);
  if (notify_.put_offset != answer.put_offset) return differs(*comm_, "put_offset", round);
  if (notify_.total_recv_tokens != answer.total_recv_tokens) return differs(*comm_, "total_recv_tokens", round);
  if (notify_.max_bs != answer.max_bs) return differs(*comm_, "max_bs", round);
  if (notify_.recv_tokens_per_expert != answer.recv_tokens_per_expert[me()]) {
    return differs(*comm_, "recv_tokens_per_expert", round);
  }
  if (notify_.group_list != answer.group_counts[me()]) return differs(*comm_, "group_list", round);
  const auto rows = static_cast<std::size_t>(notify_.padded_rows);
  if (rows != answer.rows[me()].size()) return differs(*comm_, "padded_rows", round);
  const auto padding = std::count_if(answer.rows[me()].begin(), answer.rows[me()].end(),
                                     [](const ops::reference::Origin& row) { return row.padding(); });
  if (notify_.recv_rows != notify_.padded_rows - padding) return differs(*comm_, "recv_rows", round);
  return {};
}

Result<void> EpSteps::make_room(std::size_t /*round*/) {
  if (Result<void> room = buffers_->reserve(notify_); !room) return room;
  return comm_->barrier();
}

Result<void> EpSteps::dispatch(std::size_t round) {
  if (Result<void> room = buffers_->reserve(notify_); !room) return room;
  Result<void> sent = ops::dispatch_normal(*comm_, {.x = at(round).x[me()],
                                                    .dtype = kCheckedType,
                                                    .hidden = kCheckedHidden,
                                                    .topk_idx = at(round).routing[me()].topk_idx_i32(),
                                                    .experts = problem_->experts,
                                                    .layout = layout_,
                                                    .notify = notify_,
                                                    .recv_x = buffers_->recv_x(),
                                                    .capacity = buffers_->capacity(),
                                                    .quant = extras().quant,
                                                    .recv_scales = buffers_->recv_scales(),
                                                    .wait_cost = wait_cost_});
  return sent ? check_costs(round) : sent;
}

/// The clock of a checked world may stand still, so a cost may be 0.
Result<void> EpSteps::check_costs(std::size_t round) const {
  if (wait_cost_.empty()) return {};
  const bool negative = std::any_of(wait_cost_.begin(), wait_cost_.end(), [](std::int64_t cost) { return cost < 0; });
  if (negative || wait_cost_[me()] != 0) return differs(*comm_, "wait_cost", round);
  return {};
}

void EpSteps::expert(runtime::CoreContext& context, std::size_t round, std::size_t row, char& wrong) {
  const std::size_t size = ops::row_bytes(kCheckedType, kCheckedHidden, extras().quant);
  const Rank rank = context.rank();
  const auto expected = std::span{at(round).received[me()]}.subspan(row * size, size);
  std::byte bytes[kCheckedRow];
  const auto x = std::span{bytes}.first(size);
  context.get(rank, buffers_->recv_x() + Bytes{row * size}, x, shmem::Witness::own());
  if (!std::equal(x.begin(), x.end(), expected.begin())) wrong = 1;
  if (extras().quant == ops::Quant::int8) {
    float scale = 0;
    context.get(rank, buffers_->recv_scales() + Bytes{row * 4}, std::span{&scale, 1}, shmem::Witness::own());
    if (scale != at(round).scales[me()][row]) wrong = 1;
  }
  context.put(rank, buffers_->expert_out() + Bytes{row * kCheckedRow},
              std::span{at(round).answers[me()]}.subspan(row * kCheckedRow, kCheckedRow));
  if (!extras().gradients) return;
  context.put(rank, prob_grad_ + Bytes{row * kCheckedElement},
              std::span{at(round).prob_grad[me()]}.subspan(row * kCheckedElement, kCheckedElement));
}

Result<void> EpSteps::experts(std::size_t round) {
  const std::vector<ops::reference::Origin>& rows = at(round).answer.rows[me()];
  std::vector<char> wrong(static_cast<std::size_t>(comm_->cores()));
  Result<void> done = comm_->launch("experts", [&](runtime::CoreContext& context) {
    const Slice own = context.slice(std::ssize(rows));
    for (auto row = static_cast<std::size_t>(own.first); row < static_cast<std::size_t>(own.last); ++row) {
      if (!rows[row].padding()) expert(context, round, row, wrong[context.core().index()]);
    }
  });
  for (const char core : wrong) {
    if (core != 0) return differs(*comm_, "recv_x", round);
  }
  return done;
}

Result<void> EpSteps::combine(std::size_t round) {
  std::vector<std::byte> x(at(round).x[me()].size());
  const std::vector<std::byte>& gradients = at(round).grad_out[me()];
  std::vector<std::byte> grad_out(extras().gradients ? gradients.size() : 0);
  Result<void> done =
      ops::combine_normal(*comm_, {.expert_out = buffers_->expert_out(),
                                   .capacity = buffers_->capacity(),
                                   .dtype = kCheckedType,
                                   .hidden = kCheckedHidden,
                                   .topk_idx = at(round).routing[me()].topk_idx_i32(),
                                   .weights = at(round).routing[me()].weights(),
                                   .experts = problem_->experts,
                                   .layout = layout_,
                                   .notify = notify_,
                                   .x = x,
                                   .prob_grad = extras().gradients ? std::optional{prob_grad_} : std::nullopt,
                                   .grad_out = grad_out,
                                   .wait_cost = wait_cost_});
  if (done && x != at(round).combined[me()]) return differs(*comm_, "the combined rows", round);
  if (done && extras().gradients && grad_out != gradients) return differs(*comm_, "grad_out", round);
  return done ? check_costs(round) : done;
}

}  // namespace shmoe::apps
