#include "ops/afd/window.hpp"

#include <algorithm>

#include "ops/afd/published.hpp"

namespace shmoe::ops {

namespace {

std::string shape_text(const AfdShape& shape, std::int32_t ranks) {
  if (shape.ranks.ranks() != ranks) {
    return fmt::format("{} expert ranks and {} attention ranks, but the communicator has {} ranks",
                       shape.ranks.experts(), shape.ranks.attention(), ranks);
  }
  const auto within = [](std::int64_t value, std::int64_t most) { return value >= 1 && value <= most; };
  if (!within(shape.max_batch, kMostAfdBatch)) {
    return fmt::format("max_batch is {}, not in [1, {}]", shape.max_batch, kMostAfdBatch);
  }
  if (!within(shape.hidden, kMostAfdHidden)) {
    return fmt::format("hidden is {}, not in [1, {}]", shape.hidden, kMostAfdHidden);
  }
  if (!within(shape.topk, kMostAfdTopk)) return fmt::format("topk is {}, not in [1, {}]", shape.topk, kMostAfdTopk);
  if (!is_known(shape.dtype) || !is_known(shape.quant)) {
    return fmt::format("dtype {} and quantisation {}: take a DType and a Quant that there are",
                       static_cast<int>(shape.dtype), static_cast<int>(shape.quant));
  }
  return {};
}

std::string signals_text(const AfdSignals& signals, std::int32_t ranks) {
  const auto fits = [&](const shmem::SlotFamily& family, std::uint32_t events) {
    return family.buffers == 2 && family.sources >= static_cast<std::uint32_t>(ranks) && family.events == events &&
           family.writers == shmem::Writers::source_rank;
  };
  if (fits(signals.a2e, kAfdFlags) && fits(signals.e2a, 1)) return {};
  if (signals.a2e.name.empty() || signals.e2a.name.empty()) {
    return "the slots of a2e and e2a are not declared: call ops::declare_afd in Config::declare_slots";
  }
  return fmt::format("the slots {} and {} are not those of {} ranks: take what ops::afd_signals(comm.slots()) returns",
                     signals.a2e.name, signals.e2a.name, ranks);
}

}  // namespace

std::string describe(const AfdShape& shape) {
  return fmt::format("E {}, A {}, max_batch {}, hidden {}, top-k {}, {}{}, gate {}", shape.ranks.experts(),
                     shape.ranks.attention(), shape.max_batch, shape.hidden, shape.topk, shmoe::name_of(shape.dtype),
                     shape.quant == Quant::int8 ? " sent as int8" : "", shape.compute_gate ? "on" : "off");
}

AfdWindow AfdWindow::of(const AfdShape& shape) {
  const auto rows = static_cast<std::uint64_t>(shape.max_batch);
  const std::uint64_t pairs = shape.compute_gate ? rows * static_cast<std::uint64_t>(shape.topk) : 0;
  std::uint64_t next = 0;
  const auto part = [&next](std::uint64_t bytes) {
    const Bytes at{next};
    next = round_up(next + bytes, 64);
    return at;
  };
  AfdWindow window{};
  window.batch_size = part(sizeof(std::int32_t));
  window.active_mask = part(rows);
  window.expert_ids = part(pairs * sizeof(std::int32_t));
  window.scales = part(pairs * sizeof(float));
  window.row_scales = part(shape.quant == Quant::int8 ? rows * sizeof(float) : 0);
  window.rows = part(rows * shape.row_bytes());  // e2a's are never shorter than a2e's
  window.size = Bytes{next};
  return window;
}

Bytes afd_window_bytes(const AfdShape& shape, const Profile& profile) {
  return profile.handshake ? AfdWindow::of(shape).size : published_window_bytes(shape);
}

AfdSignals declare_afd(shmem::SlotPlan& plan, const shmem::BlockMap& map, Offset base) {
  const auto ranks = static_cast<std::uint32_t>(map.shape.ranks);
  const std::uint64_t a2e_bytes = std::uint64_t{2} * ranks * kAfdFlags * shmem::kSlotStride;
  const std::uint64_t e2a_bytes = std::uint64_t{2} * ranks * shmem::kSlotStride;
  SHMOE_EXPECTS(base + Bytes{a2e_bytes + e2a_bytes} <= map.user_data.end(),
                "a2e and e2a of {} ranks need {} bytes of slots from offset {} on; the user data end at {}: start with "
                "fewer ranks",
                ranks, a2e_bytes + e2a_bytes, base, map.user_data.end());
  return {.a2e = plan.declare({.name = "a2e", .base = base, .buffers = 2, .sources = ranks, .events = kAfdFlags}),
          .e2a = plan.declare({.name = "e2a", .base = base + Bytes{a2e_bytes}, .buffers = 2, .sources = ranks})};
}

AfdSignals afd_signals(const shmem::SlotPlan& plan) {
  const auto find = [&](std::string_view name) {
    const auto& families = plan.families();
    const auto found = std::ranges::find(families, name, &shmem::SlotFamily::name);
    return found == families.end() ? shmem::SlotFamily{} : *found;
  };
  return {.a2e = find("a2e"), .e2a = find("e2a")};
}

RowBuffer afd_window(const AfdPlace& place, const runtime::Communicator& comm) {
  return {.name = "window",
          .at = place.window,
          .rows = 1,
          .row_bytes = afd_window_bytes(place.shape, comm.profile()).value(),
          .alignment = 64};
}

Handshake afd_handshake(const char* op, const AfdPlace& place, const runtime::Communicator& comm) {
  const AfdShape& shape = place.shape;
  runtime::CallCard card(op);
  card.with("expert ranks", shape.ranks.experts())
      .with("attention ranks", shape.ranks.attention())
      .with("max batch", shape.max_batch)
      .with("hidden", shape.hidden)
      .with("topk", shape.topk)
      .with("dtype", static_cast<std::int64_t>(shape.dtype))
      .with("quantisation", static_cast<std::int64_t>(shape.quant))
      .with("compute gate", shape.compute_gate ? 1 : 0)
      .with("window offset", static_cast<std::int64_t>(place.window.value()))
      .with("first slot", place.signals.a2e.first)
      .with("heap history", static_cast<std::int64_t>(comm.heap_history()));
  Handshake handshake{card, std::nullopt};
  std::string text = shape_text(shape, comm.ranks());
  if (text.empty()) text = signals_text(place.signals, comm.ranks());
  if (text.empty() && !comm.profile().handshake) text = published_refusal(shape, comm);
  if (!text.empty()) {
    handshake.fault = fault_of(comm.rank(), Errc::invalid_argument, std::move(text));
    return handshake;
  }
  handshake.fault = place_fault(afd_window(place, comm), comm);
  return handshake;
}

}  // namespace shmoe::ops
