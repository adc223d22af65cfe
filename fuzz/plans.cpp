// Files that a user writes for --faults and --links. Every input is read as either.

#include <tuple>

#include "fuzz/target.hpp"
#include "runtime/fault_plan.hpp"
#include "runtime/link_speeds.hpp"
#include "shmem/signal.hpp"

namespace shmoe::fuzz {
namespace {

using runtime::Fault;
using runtime::FaultPlan;
using runtime::LinkSpeeds;

auto parts_of(const Fault& fault) {
  const runtime::FaultPoint& at = fault.at;
  return std::tie(at.rank, at.core, at.op, at.launch, at.call, at.first, at.last, at.family, fault.action, fault.amount,
                  fault.shortest, fault.longest);
}

bool same(const FaultPlan& a, const FaultPlan& b) {
  const auto equal = [](const Fault& x, const Fault& y) { return parts_of(x) == parts_of(y); };
  return a.seed == b.seed && std::ranges::equal(a.faults, b.faults, equal);
}

void check_faults(std::string_view text) {
  const auto plan = FaultPlan::parse(text, "faults");
  if (!plan) return is_told(plan.error(), "faults:");
  const auto again = FaultPlan::parse(to_string(*plan), "faults");
  holds(again && same(*again, *plan), "a plan of faults is parsed again to the same", text);
  static const auto kSlots = shmem::SlotPlan::of_block(shmem::block_map(kSafe, {.ranks = 4, .cores = 2}));
  const auto possible = plan->check({.ranks = 4, .cores = 2, .slots = kSlots, .threads = true});
  if (!possible) is_told(possible.error(), "faults:");
}

/// A plan of so many ranks takes a table of their square, which is no fault and takes all the time.
bool has_many_ranks(std::string_view text) {
  const std::size_t word = text.find("ranks");
  if (word == std::string_view::npos) return false;
  const std::size_t digit = text.find_first_of("123456789", word);
  return digit != std::string_view::npos &&
         text.substr(digit, 3).find_first_not_of("0123456789") == std::string_view::npos;
}

void check_links(std::string_view text) {
  if (has_many_ranks(text)) return;
  const auto links = LinkSpeeds::parse(text, "links");
  if (!links) return is_told(links.error(), "links:");
  const auto again = LinkSpeeds::parse(to_string(*links), "links");
  holds(again && again->digest() == links->digest(), "links are parsed again to the same", text);
}

}  // namespace
}  // namespace shmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = shmoe::fuzz::text_of(data, size);
  shmoe::fuzz::check_faults(text);
  shmoe::fuzz::check_links(text);
  return 0;
}
