#include "apps/check/programs.hpp"

#include <algorithm>
#include <iterator>

#include "apps/check/operators.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

using WordPair = std::uint64_t[2];

/// Every round has a row of its own, so that nothing is overwritten.
Offset row_of(std::uint64_t round) { return Offset{round * sizeof(WordPair)}; }

void send_rows(CoreContext& context, const Setting& setting, bool fence) {
  const Slot slot = context.slots().flag().at(0, Rank{0});
  for (std::uint64_t round = 0; round < static_cast<std::uint64_t>(setting.rounds); ++round) {
    const WordPair row = {round, round + 1};
    context.put(Rank{1}, row_of(round), row);
    if (fence) context.fence(Rank{1});
    context.signal(Rank{1}, slot, shmem::SignalOp::set, round + 1);
  }
}

void receive_rows(CoreContext& context, const Setting& setting) {
  const Slot slot = context.slots().flag().at(0, Rank{0});
  for (std::uint64_t round = 0; round < static_cast<std::uint64_t>(setting.rounds); ++round) {
    const shmem::Witness arrived = consume_token(context.wait(slot, Compare::at_least, round + 1));
    WordPair row = {};
    context.get(Rank{1}, row_of(round), row, arrived);
  }
}

/// Rank 0 writes a row at rank 1 and notifies; rank 1 waits and reads. Other ranks and cores look on.
Body hand_over(const Setting& setting, bool fence) {
  return [setting, fence](Communicator& comm) {
    return comm.launch("hand_over", [&](CoreContext& context) {
      if (context.core() != Core{0}) return;
      if (context.ranks() == 1) return;
      if (context.rank() == Rank{0}) send_rows(context, setting, fence);
      if (context.rank() == Rank{1}) receive_rows(context, setting);
    });
  };
}

}  // namespace

std::vector<Program> all_programs() {
  std::vector<Program> programs;
  programs.push_back({.name = "hand_over",
                      .what = "put, fence, signal; the other rank waits and reads",
                      .make = [](const Setting& setting) { return hand_over(setting, true); }});
  programs.push_back({.name = "hand_over_unfenced",
                      .what = "the same without the fence",
                      .make = [](const Setting& setting) { return hand_over(setting, false); },
                      .expected = VerdictKind::unordered_read});
  for (const auto list :
       {sync_programs, flag_programs, legacy_programs, handshake_programs, heap_programs, operator_programs,
        low_latency_programs, afd_programs, detour_programs, tile_programs, tile_word_programs, fault_programs}) {
    std::ranges::move(list(), std::back_inserter(programs));
  }
  return programs;
}

}  // namespace shmoe::apps
