#include "ops/afd/published.hpp"

#include <algorithm>

namespace shmoe::ops {

namespace {

constexpr std::int64_t kElement = 2;  // bf16

/// What one core of either operator knows.
class PublishedCore {
 public:
  PublishedCore(runtime::CoreContext& context, const AfdPlace& place)
      : context_(&context),
        shape_(&place.shape),
        place_(&place),
        window_(place.shape),
        sync_(context),
        round_(sync_, context) {}

  void send_batch(const A2eArgs& args) {
    const std::int64_t batch = rows_of(args.x.size());
    const Offset block = data_of(context_->rank());
    const std::int32_t last = context_->cores() - 1;
    const bool gate = shape_->compute_gate;
    if (gate && context_->core() >= Core{last - 1}) {
      const bool ids = context_->core() == Core{last};
      if (ids) context_->put(context_->rank(), block + PublishedWindow::ids(), args.expert_ids);
      if (!ids) context_->put(context_->rank(), block + window_.scales(batch), args.scales);
      raise(ids ? AfdFlag::expert_ids : AfdFlag::scales);
      context_->sync_all();
      return;
    }
    const Slice part = published_slice(batch * shape_->hidden, gate ? last - 1 : last + 1, context_->core());
    if (part.size() > 0) {
      context_->put(context_->rank(), block + window_.x(batch) + Bytes{2} * static_cast<std::uint64_t>(part.first),
                    args.x.subspan(bytes(part.first), bytes(part.size())));
    }
    context_->sync_all();
    raise(AfdFlag::x);
  }

  void receive_batches(const A2eArgs& args, A2eTables& tables) {
    const std::int64_t rows = rows_of(args.expand_x.size()) / published_ratio(shape_->ranks);
    const std::int32_t last = context_->cores() - 1;
    for (std::int32_t index = 0; index < shape_->ranks.served(context_->rank()); ++index) {
      const Rank source = shape_->ranks.attention_rank(context_->rank(), index);
      const Offset block = data_of(source);
      if (shape_->compute_gate && context_->core() == Core{last}) {
        const shmem::Witness there = await(source, AfdFlag::expert_ids);
        const Slice pairs{0, rows * shape_->topk};
        fetch(source, block + PublishedWindow::ids(), pairs, std::span{tables.expert_ids}, index * pairs.size(), there);
        continue;
      }
      if (shape_->compute_gate) {
        const shmem::Witness there = await(source, AfdFlag::scales);
        const Slice pairs = published_slice(rows * shape_->topk, last, context_->core());
        fetch(source, block + window_.scales(rows), pairs, std::span{tables.expert_scales}, index * rows * shape_->topk,
              there);
      }
      const shmem::Witness there = await(source, AfdFlag::x);
      const Slice part = published_slice(rows * shape_->hidden, last, context_->core());
      fetch(source, block + window_.x(rows), {part.first * kElement, part.last * kElement}, args.expand_x,
            index * rows * shape_->hidden * kElement, there);
    }
  }

  void send_answers(const E2aArgs& args) {
    const std::int32_t served = shape_->ranks.served(context_->rank());
    const std::int64_t elements = rows_of(args.answers.size()) / served * shape_->hidden;
    const Slice part = published_slice(elements, context_->cores(), context_->core());
    for (std::int32_t index = 0; index < served; ++index) {
      const Rank to = shape_->ranks.attention_rank(context_->rank(), index);
      if (part.size() == 0) continue;
      context_->put(to, data_of(to) + Bytes{2} * static_cast<std::uint64_t>(part.first),
                    args.answers.subspan(bytes(index * elements + part.first), bytes(part.size())));
    }
    context_->sync_all();
    for (std::int32_t index = 0; index < served; ++index) {
      round_.raise(*context_, shape_->ranks.attention_rank(context_->rank(), index),
                   place_->signals.e2a.at(round_.half(), context_->rank()));
    }
  }

  void receive_answers(const E2aArgs& args) {
    const Rank expert = shape_->ranks.expert_of(context_->rank());
    const shmem::Witness there = round_.await(*context_, place_->signals.e2a.at(round_.half(), expert));
    const Slice part = published_slice(rows_of(args.x.size()) * shape_->hidden, context_->cores(), context_->core());
    fetch(context_->rank(), data_of(context_->rank()), {part.first * kElement, part.last * kElement}, args.x, 0, there);
  }

 private:
  [[nodiscard]] std::int64_t rows_of(std::size_t size) const {
    return static_cast<std::int64_t>(size / shape_->row_bytes());
  }
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements * kElement); }
  [[nodiscard]] Offset data_of(Rank rank) const { return place_->window + window_.data(rank, round_.number()); }
  [[nodiscard]] Slot slot(Rank attention, AfdFlag flag) const {
    return place_->signals.a2e.at(round_.half(), attention, static_cast<std::uint32_t>(flag));
  }
  void raise(AfdFlag flag) {
    round_.raise(*context_, shape_->ranks.expert_of(context_->rank()), slot(context_->rank(), flag));
  }
  shmem::Witness await(Rank source, AfdFlag flag) { return round_.await(*context_, slot(source, flag)); }

  /// Elements `part` from `from` on -> the same ones of a table from `first` on.
  template <class T>
  void fetch(Rank source, Offset from, const Slice& part, std::span<T> table, std::int64_t first,
             const shmem::Witness& ordered) {
    if (part.size() == 0) return;
    context_->get(source, from + Bytes{sizeof(T)} * static_cast<std::uint64_t>(part.first),
                  table.subspan(static_cast<std::size_t>(first + part.first), static_cast<std::size_t>(part.size())),
                  ordered);
  }

  runtime::CoreContext* context_;
  const AfdShape* shape_;
  const AfdPlace* place_;
  PublishedWindow window_;
  runtime::ZeroBufferSync sync_;
  AfdRound round_;
};

}  // namespace

Bytes PublishedWindow::flag(std::uint64_t k, Rank attention, std::uint64_t magic) const {
  const Rank expert = shape_->ranks.expert_of(attention);
  const auto ratio = static_cast<std::uint64_t>(shape_->ranks.served(expert));
  const auto index = static_cast<std::uint64_t>(shape_->ranks.index_of(attention));
  return base(expert, magic) + Bytes{shmem::kSlotStride} * (k * ratio + index);
}

Bytes published_window_bytes(const AfdShape& shape) {
  const PublishedWindow window(shape);
  return window.data(Rank{shape.ranks.ranks() - 1}, 1) + window.end(shape.max_batch);
}

Slice published_slice(std::int64_t n, std::int64_t used, Core core) {
  const std::int64_t per = (n + used - 1) / used;
  const std::int64_t first = std::min(per * core.value(), n);
  return core.value() < used ? Slice{first, std::min(first + per, n)} : Slice{n, n};
}

std::int64_t published_ratio(const Assignment& ranks) { return ranks.served(Rank{0}); }

std::string published_refusal(const AfdShape& shape, const runtime::Communicator& comm) {
  if (shape.dtype != DType::bf16 || shape.quant != Quant::none) {
    return fmt::format(
        "the published kernel is empty for {}{}: nothing would be sent, and its peers would wait for ever. "
        "Take bf16 as it is, or the profile safe",
        name_of(shape.dtype), shape.quant == Quant::int8 ? " sent as int8" : "");
  }
  if (shape.ranks.experts() > shape.ranks.attention()) {
    return fmt::format(
        "{} expert ranks for {} attention ranks: the published one takes no more than there are attention "
        "ranks. Take the profile safe",
        shape.ranks.experts(), shape.ranks.attention());
  }
  if (shape.hidden < 1024 || shape.hidden > 7168 || shape.hidden % 256 != 0) {
    return fmt::format(
        "hidden is {}; the published host takes multiples of 256 from 1024 to 7168: pad the rows, or take the profile "
        "safe",
        shape.hidden);
  }
  if (shape.topk > 8)
    return fmt::format("topk is {}; the published host takes 1 to 8: pass fewer, or take the profile safe", shape.topk);
  if (comm.cores() < 4) {
    return fmt::format(
        "{} cores: the published kernel needs 4 at least, two of them for ids and scales: raise SHMOE_CORES, or take "
        "the "
        "profile safe",
        comm.cores());
  }
  return {};
}

std::string published_refusal(std::int64_t batch, std::span<const std::uint8_t> active_mask) {
  if (!active_mask.empty()) return "the published kernel ignores the active mask: take the profile safe";
  if (batch >= 1 && batch <= 1024) return {};
  return fmt::format("a batch of {} rows; the published host takes 1 to 1024: cut it, or take the profile safe", batch);
}

void published_a2e_kernel(runtime::CoreContext& context, const A2eArgs& args, A2eTables& tables) {
  PublishedCore core(context, args.place);
  if (args.place.shape.ranks.is_expert(context.rank())) {
    core.receive_batches(args, tables);
  } else {
    core.send_batch(args);
  }
}

void published_e2a_kernel(runtime::CoreContext& context, const E2aArgs& args) {
  PublishedCore core(context, args.place);
  if (args.place.shape.ranks.is_expert(context.rank())) {
    core.send_answers(args);
  } else {
    core.receive_answers(args);
  }
}

}  // namespace shmoe::ops
