#include "runtime/check/story.hpp"

namespace shmoe::runtime::check {
namespace {

std::string what(const Step& step, const shmem::SlotPlan& slots, bool own) {
  const auto bytes = [&] { return fmt::format("[{:#x}, +{}) of rank {}", step.at.value(), step.size, step.rank); };
  const auto slot = [&] { return fmt::format("{} of rank {}", slots.describe(step.slot), step.rank); };
  switch (step.kind) {
    case Step::Kind::enter: return fmt::format("enters {}", step.op);
    case Step::Kind::put: return fmt::format("{} {}", own ? "writes" : "puts", bytes());
    case Step::Kind::get: return fmt::format("reads {}", bytes());
    case Step::Kind::signal: return fmt::format("signals {} with {:#x}", slot(), step.value);
    case Step::Kind::put_landed: return fmt::format("  its put has landed at {}", bytes());
    case Step::Kind::signal_landed: return fmt::format("  its signal has landed: {} is {:#x}", slot(), step.value);
    case Step::Kind::fence: return fmt::format("fence({})", step.rank);
    case Step::Kind::quiet: return "quiet";
    case Step::Kind::wait: return fmt::format("waits for {} {} {:#x}", slot(), sign_of(step.compare), step.value);
    case Step::Kind::seen: return fmt::format("sees {} is {:#x}", slot(), step.value);
  }
  return "";
}

}  // namespace

std::string_view name_of(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::enter: return "enter";
    case Step::Kind::put: return "put";
    case Step::Kind::get: return "get";
    case Step::Kind::signal: return "signal";
    case Step::Kind::put_landed: return "put_landed";
    case Step::Kind::signal_landed: return "signal_landed";
    case Step::Kind::fence: return "fence";
    case Step::Kind::quiet: return "quiet";
    case Step::Kind::wait: return "wait";
    case Step::Kind::seen: return "seen";
  }
  return "unknown";
}

std::string to_string(const Step& step, const shmem::SlotPlan& slots, std::int32_t cores) {
  const auto per_rank = static_cast<std::size_t>(cores);
  const std::size_t rank = step.core / per_rank;
  return fmt::format("rank {} core {}  {:<28} {}", rank, step.core % per_rank,
                     fmt::format("{}:{}", step.site.file, step.site.line),
                     what(step, slots, rank == step.rank.index()));
}

}  // namespace shmoe::runtime::check
