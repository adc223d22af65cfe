#pragma once
// A job that stands still, put together by hand: what each core waits for, the words, the ledgers and the events.

#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/diagnosis/root_cause.hpp"
#include "tests/runtime/contains.hpp"

namespace shmoe::runtime::test {

class Scene {
 public:
  Scene(std::int32_t ranks, std::int32_t cores) : plan_(ranks, cores) {
    const auto sources = static_cast<std::uint32_t>(ranks);
    plan_.declare({.name = "barrier", .base = Offset{0}, .buffers = 2, .sources = sources});
    plan_.declare({.name = "flag", .base = Offset{0x10000}, .buffers = 2, .sources = sources, .events = 4});
    plan_.declare({.name = "sync_all",
                   .base = Offset{0x80000},
                   .writers = shmem::Writers::own_cores,
                   .op = shmem::SignalOp::add});
    plan_.declare({.name = "abort", .base = Offset{0x90000}, .writers = shmem::Writers::any_rank});
    plan_.declare({.name = "count", .base = Offset{0xA0000}, .sources = sources, .op = shmem::SignalOp::add});
    plan_.declare(
        {.name = "credit", .base = Offset{0xC0000}, .sources = sources, .writers = shmem::Writers::source_and_owner});
    plan_.declare({.name = "window", .base = Offset{0xE0000}, .sources = sources});
    plan_.declare({.name = "progress", .base = Offset{0xF0000}, .writers = shmem::Writers::own_cores});
    for (Rank rank{0}; rank.value() < ranks; ++rank) {
      for (Core core{0}; core.value() < cores; ++core) {
        cores_.push_back({.rank = rank, .core = core, .busy = true, .op = "step", .launch = 1, .blocks = 1});
      }
    }
  }

  Slot slot(const char* family, int source, std::uint32_t event = 0, std::uint64_t buffer = 0) const {
    return plan_.family(family).at(buffer, Rank{source}, event);
  }
  CoreSight& core(int rank, int core = 0) {
    return cores_[static_cast<std::size_t>(rank) * (cores_.size() / static_cast<std::size_t>(plan_.ranks())) +
                  static_cast<std::size_t>(core)];
  }
  void waits(CoreSight& core, int where, Slot slot, std::uint64_t value, Compare compare = Compare::equal) {
    core.wait = WaitSight{.where = Rank{where}, .slots = {slot}, .compare = compare, .value = value};
    core.site = "here.cpp:1";
  }
  void word(int rank, Slot slot, std::uint64_t value) { words_[{rank, slot.value()}] = value; }
  void ledger(int writer, int owner, Slot slot, std::uint64_t count, std::uint64_t value,
              shmem::Side side = shmem::Side::source, int core = 0) {
    // Of a slot that its writer alone writes the number of the source says nothing.
    ledger_[{writer, owner, plan_.ledger_index(Rank{owner}, slot, Core{0}, side)}] = {
        .count = count, .value = value, .core = Core{core}};
  }
  void magic(int rank, int core, std::uint64_t value) { magics_[{rank, core}] = value; }

  // Events of a core, in the order in which they are told.
  void enter(int rank, int core, const char* op) { event(rank, core, {.kind = shmem::EventKind::enter}, op); }
  void takes(int rank, int core, std::uint64_t round) {
    event(rank, core, {.round = Round{round}, .kind = shmem::EventKind::enter}, "again");
  }
  void leave(int rank, int core) { event(rank, core, {.kind = shmem::EventKind::leave}, ""); }
  void sets(int rank, int core, int owner, Slot slot, std::uint64_t value, std::uint16_t count = 1) {
    event(rank, core,
          {.value = value, .rank = Rank{owner}, .slot = slot, .count = count, .kind = shmem::EventKind::set}, "a.cpp");
  }
  /// A launch of core 0 that is over, with what it set.
  void launched(int rank, const char* op, int owner, Slot slot, std::initializer_list<std::uint64_t> values) {
    enter(rank, 0, op);
    for (const std::uint64_t value : values) sets(rank, 0, owner, slot, value);
    leave(rank, 0);
  }
  /// Of every core.
  void launch(std::uint64_t number) {
    for (CoreSight& core : cores_) core.launch = number;
  }

  Sight sight() {
    return {.slots = &plan_,
            .ranks = plan_.ranks(),
            .cores = cores_,
            .word =
                [this](Rank rank, Slot slot) {
                  return words_[{rank.value(), slot.value()}];
                },
            .looked_at = [](Rank, Slot) { return false; },
            .ledger =
                [this](Rank writer, Rank owner, Slot slot, shmem::Side side) {
                  ++ledger_reads;
                  return ledger_[{writer.value(), owner.value(), plan_.ledger_index(owner, slot, Core{0}, side)}];
                },
            .magic =
                [this](Rank rank, Core core) {
                  return magics_[{rank.value(), core.value()}];
                },
            .flag_word = FlagWord::magic32_value32,
            .events =
                [this](Rank rank, Core core) {
                  ++ring_reads;
                  return events_[{rank.value(), core.value()}];
                }};
  }

  std::vector<Cause> causes(VerdictKind kind = VerdictKind::deadlock_cycle) { return causes_of(sight(), kind); }
  /// "double reset, merged notifies"
  std::string names(VerdictKind kind = VerdictKind::deadlock_cycle) {
    std::string all;
    for (const Cause& cause : causes(kind)) all += (all.empty() ? "" : ", ") + std::string(name_of(cause.kind));
    return all;
  }

  int ledger_reads = 0;
  int ring_reads = 0;

 private:
  void event(int rank, int core, shmem::Event event, const char* text) {
    event.time_ns = ++now_;
    event.set_text(text);
    events_[{rank, core}].push_back(event);
  }

  shmem::SlotPlan plan_;
  std::vector<CoreSight> cores_;
  std::map<std::pair<int, std::uint32_t>, std::uint64_t> words_;
  std::map<std::tuple<int, int, std::uint32_t>, LedgerSight> ledger_;
  std::map<std::pair<int, int>, std::uint64_t> magics_;
  std::map<std::pair<int, int>, std::vector<shmem::Event>> events_;
  std::int64_t now_ = 0;
};

/// Two ranks; core 0 of rank 0 waits for rank 1's signal, and rank 1 waits for nothing that matters here.
struct Pair : Scene {
  explicit Pair(std::int32_t cores = 1) : Scene(2, cores) {}

  void ran(int rank, int core, const char* op) {
    enter(rank, core, op);
    leave(rank, core);
  }
};

/// Rank 1 fills credit slots of rank 0, whose core 0 waits for the next fill.
struct Consumer : Pair {
  explicit Consumer(std::int32_t cores = 1) : Pair(cores), credit(slot("credit", 1)) { waits(core(0), 0, credit, 1); }

  void counts(std::uint64_t filled, std::uint64_t reset) {
    ledger(1, 0, credit, filled, 1);
    ledger(0, 0, credit, reset, 0, shmem::Side::owner);
  }
  void begin() {
    for (const int rank : {0, 1}) {
      for (int core = 0; core < static_cast<int>(sight().cores_a_rank()); ++core) enter(rank, core, "step");
    }
  }
  void fill() { sets(1, 0, 0, credit, 1); }
  void give_back(int core) { sets(0, core, 0, credit, 0); }

  Slot credit;
};

}  // namespace shmoe::runtime::test
