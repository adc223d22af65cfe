#include "runtime/diagnosis/overseer.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "runtime/diagnosis/last_step.hpp"
#include "runtime/diagnosis/verdict_json.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

/// When a wait is worth a line: many ranks on few CPUs take longer to come round.
std::chrono::nanoseconds late_after(std::size_t members) {
  return std::chrono::seconds(5) + std::chrono::milliseconds(100) * static_cast<std::int64_t>(members / 8);
}

/// The member whose end means that the wait cannot end, with how it ended.
struct Loss {
  Rank member;
  std::string how;
  Slot slot;  // that it should have written
};

class LossFinder {
 public:
  LossFinder(const shmem::Peers& peers, const Gone& gone) : peers_(&peers), gone_(&gone) {}

  [[nodiscard]] std::optional<Loss> find(const shmem::SleepingWait& wait) const {
    switch (wait.spec.match) {
      case shmem::Match::all: return gone_before_all(wait);
      case shmem::Match::any: return all_gone(wait.spec);
      case shmem::Match::sum: return gone_without_a_part(wait.spec);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::optional<Loss> writer_gone(Slot slot, Rank owner, Compare compare, std::uint64_t value) const {
    const std::optional<Rank> writer = shmem::awaited_writer(*peers_->slots, slot, owner, compare, value);
    for (Rank member{0}; member.value() < peers_->size(); ++member) {
      if (member != writer.value_or(member) || member == peers_->rank || ended_in_order(*peers_, member)) continue;
      if (!peers_->slots->may_write(slot, owner, member)) continue;
      if (std::optional<std::string> how = (*gone_)(member)) return Loss{member, *std::move(how), slot};
    }
    return std::nullopt;
  }
  /// Slots before the first unsatisfied one have been seen true, whatever they hold now.
  [[nodiscard]] std::optional<Loss> gone_before_all(const shmem::SleepingWait& wait) const {
    const shmem::WaitSpec& spec = wait.spec;
    const auto holds = [&](Slot slot) {
      return shmem::satisfies(spec.compare, shmem::load_slot(*peers_, spec.where, slot), spec.value);
    };
    for (auto slot = std::ranges::find(spec.slots, wait.slot); slot != spec.slots.end(); ++slot) {
      if (holds(*slot)) continue;
      std::optional<Loss> loss = writer_gone(*slot, spec.where, spec.compare, spec.value);
      if (loss && !holds(*slot)) return loss;  // looked at again: it may have ended right after its signal
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Loss> all_gone(const shmem::WaitSpec& spec) const {
    std::optional<Loss> loss;
    for (const Slot slot : spec.slots) {
      loss = writer_gone(slot, spec.where, spec.compare, spec.value);
      if (!loss) return std::nullopt;
    }
    return loss;
  }
  /// Whoever has added to the sum may have ended in good order; whoever has not never will.
  [[nodiscard]] std::optional<Loss> gone_without_a_part(const shmem::WaitSpec& spec) const {
    for (const Slot slot : spec.slots) {
      const auto empty = [&] { return shmem::load_slot(*peers_, spec.where, slot) == 0; };
      if (!empty()) continue;
      std::optional<Loss> loss = writer_gone(slot, spec.where, Compare::not_equal, 0);
      if (loss && empty()) return loss;
    }
    return std::nullopt;
  }

  const shmem::Peers* peers_;
  const Gone* gone_;
};

/// `lost`: its world rank. `step`: the last one that is known of it.
Error peer_lost(Rank lost, const std::string& how, const std::string& step, const shmem::SleepingWait& wait,
                const shmem::Peers& peers) {
  return Error{.code = Errc::peer_lost,
               .context = fmt::format("rank {} is gone ({}){}; {}; see what it printed, or go on without it: "
                                      "World::without_lost",
                                      lost, how, step.empty() ? "" : "; its last step: " + step, describe(wait, peers)),
               .where = lost,
               .site = wait.site};
}

/// A proof may rest on the end of a rank, because others found it before whoever waits for that rank.
Error lost_behind(const Proof& proof, const shmem::SleepingWait& wait, const shmem::Peers& peers,
                  const std::vector<Rank>& members, const Gone& gone) {
  const Rank lost = proof.lost.front();
  const auto member = std::ranges::find(members, lost);
  if (member == members.end()) return peer_lost(lost, "it has ended", "", wait, peers);
  const Rank at{member - members.begin()};
  return peer_lost(lost, gone(at).value_or("it has ended"), last_step(peers, at), wait, peers);
}

bool is_sync_all(Slot slot, const shmem::SlotPlan& slots) {
  return slots.family_of(slot).name == slots.sync_all().name;
}

/// In a SyncAll, while another core of the rank waits for something else: that core has a line of its own.
bool comes_after_own_core(const shmem::SleepingWait& wait, const shmem::Peers& peers) {
  if (peers.control == nullptr || !is_sync_all(wait.slot, *peers.slots)) return false;
  for (Core core{0}; core.value() < peers.control_map.cores; ++core) {
    const shmem::WaitRecord& record = peers.control_map.record(peers.control, core);
    const bool waits = record.epoch.load(std::memory_order_acquire) % 2 == 1;
    if (core != wait.core && waits && !is_sync_all(Slot{record.slot.load(std::memory_order_relaxed)}, *peers.slots))
      return true;
  }
  return false;
}

}  // namespace

shmem::Overseer make_overseer(const shmem::Peers& peers, std::vector<Rank> members, std::int32_t cores, Gone gone,
                              Log log, std::string verdict_file, AskForProof ask, ToldElsewhere told) {
  // One cell a core: how often the core's current wait was reported. Each core touches its own.
  auto reported = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(cores));
  // A copy, for its names: the communicator's own Peers moves.
  auto names = std::make_shared<shmem::Peers>(peers);
  return [=, members = std::move(members),
          gone = std::move(gone)](const shmem::SleepingWait& wait) -> std::optional<Error> {
    // First, because whoever has proven it may have left by now.
    if (std::optional<Error> proven = told ? told() : std::nullopt) return proven;
    if (const std::optional<Loss> loss = LossFinder(*names, gone).find(wait)) {
      shmem::SleepingWait at = wait;
      at.slot = loss->slot;
      if (wait.spec.match == shmem::Match::all) at.seen = shmem::load_slot(*names, wait.spec.where, at.slot);
      return peer_lost(members[loss->member.index()], loss->how, last_step(*names, loss->member), at, *names);
    }
    if (const std::optional<Proof> proof = ask ? ask(wait.core) : std::nullopt) {
      if (!proof->lost.empty()) return lost_behind(*proof, wait, *names, members, gone);
      const Result<void> written = verdict_file.empty() ? Result<void>{} : write_json(proof->verdict, verdict_file);
      if (!written) log.warn("{}", to_string(written.error()));
      return Error{.code = Errc::deadlock,
                   .context = to_string(proof->verdict),
                   .where = members[names->rank.index()],
                   .site = wait.site};
    }
    const std::optional<Rank> writer =
        shmem::awaited_writer(*names->slots, wait.slot, wait.spec.where, wait.spec.compare, wait.spec.value);
    const std::int64_t periods = wait.waited / late_after(members.size());
    std::int64_t& last = (*reported)[wait.core.index() % reported->size()];
    // One line each time that the wait has doubled: it may last for hours.
    const auto doubled = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(periods)));
    if (doubled == 0) last = 0;
    if (doubled > last && !comes_after_own_core(wait, *names)) {
      last = doubled;
      log.warn("straggler: {}; {} {}", describe(wait, *names),
               writer ? fmt::format("rank {}, which writes it, is alive", members[writer->index()])
                      : std::string("its writers are alive"),
               is_overrun(wait, *names->slots) ? "but has gone on: if the word only grows, the wait never ends"
                                               : "and may still come");
    }
    return std::nullopt;
  };
}

}  // namespace shmoe::runtime
