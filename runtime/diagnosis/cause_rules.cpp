#include "runtime/diagnosis/cause_rules.hpp"

namespace shmoe::runtime::rules {

std::string times(std::uint64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

bool has_magic(const Evidence& known, const Edge& edge) {
  return known.has_rounds(edge) && known.sight().flag_word == FlagWord::magic32_value32;
}

std::string word_text(const Evidence& known, const Edge& edge, std::uint64_t word) {
  if (has_magic(known, edge)) {
    return fmt::format("{:#x} (magic {}, value {})", word, word >> 32, word & 0xFFFF'FFFFU);
  }
  return known.is_barrier(edge) ? fmt::format("{:#x} (barrier {})", word, word >> 8) : fmt::format("{:#x}", word);
}

std::string slot_text(const Evidence& known, const Edge& edge) {
  return fmt::format("{} of rank {}", known.sight().slots->describe(edge.slot), edge.where);
}

bool by_source(const Edge& edge) { return edge.family->has_sources() && edge.side == shmem::Side::source; }

bool by_word(const Edge& edge) {
  const WaitSight& wait = *edge.core->wait;
  const bool of_several = wait.match == shmem::Match::sum && wait.slots.size() > 1;
  return by_source(edge) && (!of_several || edge.seen == 0);
}

}  // namespace shmoe::runtime::rules
