#include "runtime/legacy_sync.hpp"

#include <string>

namespace shmoe::runtime {
namespace {

using shmem::SlotFamily;
using shmem::Witness;

constexpr std::uint32_t kMostSteps = 0xFFFF;  // in safe

std::string family_name(std::string_view name, const char* kind) { return fmt::format("{} {}", name, kind); }

}  // namespace

LegacySync::Flags LegacySync::declare(shmem::SlotPlan& plan, std::string_view name, Offset base, std::int32_t ranks,
                                      std::int32_t cores) {
  const auto events = static_cast<std::uint32_t>(cores);
  const Bytes of_cores{shmem::kSlotStride * static_cast<std::uint64_t>(cores)};
  Flags flags;
  flags.inner = plan.declare(
      {.name = family_name(name, "inner"), .base = base, .events = events, .writers = shmem::Writers::own_cores});
  flags.outer = plan.declare({.name = family_name(name, "outer"),
                              .base = base + of_cores,
                              .events = events,
                              .writers = shmem::Writers::own_cores});
  flags.sync = plan.declare(
      {.name = family_name(name, "sync"), .base = base + of_cores * 2, .sources = static_cast<std::uint32_t>(ranks)});
  return flags;
}

LegacySync::Flags LegacySync::of(const shmem::SlotPlan& plan, std::string_view name) {
  return {.inner = plan.family(family_name(name, "inner")),
          .outer = plan.family(family_name(name, "outer")),
          .sync = plan.family(family_name(name, "sync"))};
}

std::uint64_t LegacySync::word(std::uint32_t step) const {
  if (context_->profile().flag_word == FlagWord::magic32_value32) return shmem::published_word(magic_.value(), step);
  SHMOE_EXPECTS(step <= kMostSteps, "step {} of a flag; {} is the largest", step, kMostSteps);
  return magic_.value() << 16 | step;
}

/// Between this step and the last of the same magic.
shmem::WaitSpec LegacySync::spec(Rank memory, const Slot& slot, std::uint32_t step) const {
  const bool published = context_->profile().flag_word == FlagWord::magic32_value32;
  return {.where = memory,
          .slots = {&slot, 1},
          .match = shmem::Match::sum,
          .value = word(step),
          .upper = word(published ? 0xFFFF'FFFFU : kMostSteps)};
}

void LegacySync::set(Rank memory, Slot slot, std::uint32_t step, SourceSite site) {
  context_->quiet(site);
  context_->signal(memory, slot, shmem::SignalOp::set, word(step), site);
}

shmem::Token LegacySync::wait(Rank memory, Slot slot, std::uint32_t step, SourceSite site) {
  return context_->wait(spec(memory, slot, step), site);
}

bool LegacySync::check(Rank memory, Slot slot, std::uint32_t step, SourceSite site) {
  std::optional<shmem::Token> seen = context_->test(spec(memory, slot, step), site);
  if (!seen) return false;
  std::move(*seen).ordering_only();
  return true;
}

void LegacySync::set_inner(std::uint32_t step, SourceSite site) {
  set(context_->rank(), slot_of(flags_.inner, context_->core()), step, site);
}
void LegacySync::set_outer(std::uint32_t step, SourceSite site) {
  set(context_->rank(), slot_of(flags_.outer, context_->core()), step, site);
}
void LegacySync::set_sync(Rank memory, std::uint32_t step, SourceSite site) {
  set(memory, flags_.sync.at(0, context_->rank()), step, site);
}

shmem::Token LegacySync::wait_inner(Rank rank, Core core, std::uint32_t step, SourceSite site) {
  return wait(rank, slot_of(flags_.inner, core), step, site);
}
shmem::Token LegacySync::wait_outer(Rank rank, Core core, std::uint32_t step, SourceSite site) {
  return wait(rank, slot_of(flags_.outer, core), step, site);
}
shmem::Token LegacySync::wait_sync(Rank memory, Rank source, std::uint32_t step, SourceSite site) {
  return wait(memory, flags_.sync.at(0, source), step, site);
}

Witness LegacySync::wait_rank_inner(Rank rank, std::uint32_t step, SourceSite site) {
  Witness arrived = Witness::own();
  for (Core core{0}; core.value() < context_->cores(); ++core) {
    arrived = consume_token(wait_inner(rank, core, step, site));
  }
  return arrived;
}

Witness LegacySync::wait_one_rank_outer(Rank rank, std::uint32_t step, SourceSite site) {
  Witness arrived = Witness::own();
  for (Core core{0}; core.value() < context_->cores(); ++core) {
    arrived = consume_token(wait_outer(rank, core, step, site));
  }
  return arrived;
}

Witness LegacySync::wait_all_rank_part_outer(Core first, std::int32_t count, std::uint32_t step, SourceSite site) {
  Witness arrived = Witness::own();
  for (std::int32_t away = 0; away < context_->ranks(); ++away) {
    const Rank rank{(context_->rank().value() + away) % context_->ranks()};
    for (std::int32_t core = first.value(); core < first.value() + count; ++core) {
      arrived = consume_token(wait_outer(rank, Core{core}, step, site));
    }
  }
  return arrived;
}

Witness LegacySync::wait_all_rank_outer(std::uint32_t step, SourceSite site) {
  return wait_all_rank_part_outer(Core{0}, context_->cores(), step, site);
}

bool LegacySync::check_inner(Rank rank, Core core, std::uint32_t step, SourceSite site) {
  return check(rank, slot_of(flags_.inner, core), step, site);
}
bool LegacySync::check_outer(Rank rank, Core core, std::uint32_t step, SourceSite site) {
  return check(rank, slot_of(flags_.outer, core), step, site);
}
bool LegacySync::check_sync(Rank memory, Rank source, std::uint32_t step, SourceSite site) {
  return check(memory, flags_.sync.at(0, source), step, site);
}

bool LegacySync::check_all_rank_outer(std::uint32_t step, SourceSite site) {
  for (std::int32_t away = 0; away < context_->ranks(); ++away) {
    const Rank rank{(context_->rank().value() + away) % context_->ranks()};
    for (Core core{0}; core.value() < context_->cores(); ++core) {
      if (!check_outer(rank, core, step, site)) return false;
    }
  }
  return true;
}

}  // namespace shmoe::runtime
