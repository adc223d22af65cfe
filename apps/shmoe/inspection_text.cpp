// What `shmoe inspect` shows on a terminal.

#include <algorithm>

#include <fmt/ranges.h>

#include "apps/shmoe/inspection.hpp"
#include "apps/shmoe/machine.hpp"
#include "apps/shmoe/say.hpp"
#include "bootstrap/text.hpp"

namespace shmoe::apps {
namespace {

using runtime::CommunicatorLook;
using runtime::CoreSight;
using runtime::Standing;

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", bootstrap::name_ranks(numbers));
}

std::string head(const runtime::JobView& job) {
  const runtime::JobShape& shape = job.shape();
  return fmt::format("job {}: {} of {}, profile {}, for {:.1f} s\n", job.job().name, counted(shape.ranks, "rank"),
                     counted(shape.control.cores, "core"), name_of(shape.profile), job.age_s());
}

std::string processes(const runtime::JobView& job) {
  std::string text = "processes:";
  for (Rank rank{0}; rank.value() < job.shape().ranks; ++rank) {
    const auto pid = job.pid_of(rank);
    text += fmt::format("{} rank {} {} {}", rank == Rank{0} ? "" : ",", rank,
                        pid ? fmt::format("pid {}", *pid) : std::string("gone"), pid ? job.state_of(rank).text() : "");
  }
  return text + "\n";
}

/// "block 2 of 48, 1 more queued" where a launch has more blocks than cores.
std::string batch_text(const shmem::WaitRecord& record, std::int32_t cores) {
  const int block = record.block.load(std::memory_order_relaxed);
  const int blocks = record.blocks.load(std::memory_order_relaxed);
  if (blocks <= cores) return "";
  return fmt::format(" (block {} of {}, {} more queued)", block, blocks, (blocks - 1 - block) / cores);
}

std::string core_line(const CommunicatorLook& look, const CoreSight& core) {
  const shmem::WaitRecord& record = look.view->record(core.rank, core.core);
  std::string text = fmt::format("{:>4} {:>4}  ", core.rank, core.core);
  const bool ended = look.standing(core.rank) == Standing::ended;
  if (!core.busy) return text + fmt::format("{}\n", ended ? "ended" : name_of(life_of(record)));
  text += fmt::format("{} round {}{}", core.op, core.round, batch_text(record, look.view->peers.control_map.cores));
  if (ended) return text + ", its process has ended\n";
  if (!core.wait) return text + " runs\n";
  text += fmt::format(" waits {:.1f} s at {} for {}", look.job->waited_s(core), core.site, wait_text(look, *core.wait));
  if (core.wait->slots.empty()) return text + "\n";
  return text + fmt::format("; written by {}\n", ranks_text(look.sight->writers_of(*core.wait)));
}

/// Of hundreds of ranks those that do the same are one line.
std::string groups(const CommunicatorLook& look) {
  std::vector<std::string> parts;
  for (const runtime::RankGroup& group : look.job->graph().groups(*look.sight)) {
    const bool one = group.ranks.size() == 1;
    const std::string who = ranks_text(group.ranks);
    const std::string of = group.in == nullptr || group.in == look.sight ? "" : " of " + group.in->name();
    switch (group.standing) {
      case Standing::goes_on:
        parts.push_back(fmt::format("{} {} in {} round {}{}", who, one ? "is" : "are", group.op, group.round, of));
        break;
      case Standing::waits:
        parts.push_back(fmt::format("{} {} in {} round {}{}", who, one ? "waits" : "wait", group.op, group.round, of));
        break;
      case Standing::outside: parts.push_back(fmt::format("{} {} between operators", who, one ? "is" : "are")); break;
      case Standing::ended: parts.push_back(fmt::format("{} {} ended", who, one ? "has" : "have")); break;
    }
  }
  return fmt::format("{}\n", fmt::join(parts, "; "));
}

/// World ranks.
std::vector<Rank> writers_of(const CommunicatorLook& look, const runtime::WaitSight& wait) {
  std::vector<Rank> writers = look.sight->writers_of(wait);
  for (Rank& writer : writers) writer = look.sight->world(writer);
  return writers;
}

/// The root first, and behind it who waits for whom.
std::string graph_text(const CommunicatorLook& look) {
  const auto root = look.job->graph().root(*look.sight);
  if (!root) return "";
  std::string text = fmt::format("wait graph, from its root: rank {}\n", root->rank);
  for (const Rank rank : root->behind) {
    for (const CoreSight& core : look.sight->of(*look.sight->member(rank))) {
      if (!core.busy || !core.wait || core.wait->slots.empty()) continue;
      text += fmt::format("  rank {} core {} -> {}  ({})\n", rank, core.core, ranks_text(writers_of(look, *core.wait)),
                          look.view->peers.slots->describe(core.wait->slot()));
    }
  }
  return text;
}

std::string heap_text(const CommunicatorLook& look) {
  std::string text = "heap:";
  for (Rank rank{0}; rank.value() < look.view->peers.size(); ++rank) {
    const shmem::Membership& own = look.view->membership(rank);
    text += fmt::format("{} rank {} {} in {}", rank == Rank{0} ? "" : ",", rank, human(Bytes{own.heap_used.load()}),
                        counted(static_cast<std::int64_t>(own.heap_blocks.load()), "block"));
  }
  return text + fmt::format("; of {} each\n", human(look.view->peers.map->heap.size));
}

/// A row a rank, a column a slot of the family; "-" is a zero.
std::string matrix(const CommunicatorLook& look, const std::string& name) {
  const shmem::SlotFamily& family = look.view->peers.slots->family(name);
  std::string text = fmt::format("slots of {}: of each rank {} x {} x {} (buffer, source, event)\n", name,
                                 family.buffers, family.sources, family.events);
  for (Rank rank{0}; rank.value() < look.view->peers.size(); ++rank) {
    text += fmt::format("{:>4} ", rank);
    for (std::uint32_t i = 0; i < family.count(); ++i) {
      const std::uint64_t word = look.sight->word(rank, Slot{family.first + i});
      text += i > 0 && i % (family.sources * family.events) == 0 ? " |" : "";
      text += word == 0 ? " -" : fmt::format(" {:#x}", word);
    }
    text += "\n";
  }
  return text;
}

std::string communicator_text(const Inspection& inspection, const CommunicatorLook& look) {
  const bool all = look.view->id() == runtime::CommunicatorId{0};
  const std::string title = all ? std::string("communicator 0") : look.view->group.scope();
  std::string text = fmt::format("\n{}: {}", title, groups(look));
  text += fmt::format("{}\n{:>4} {:>4}  {}\n", look.assess().text, "rank", "core", "doing");
  for (const CoreSight& core : look.sight->cores) text += core_line(look, core);
  text += graph_text(look) + heap_text(look);
  if (!inspection.choice.slots.empty()) text += matrix(look, inspection.choice.slots);
  return text;
}

/// Of a signal to several ranks.
std::string and_more(std::int64_t destinations) {
  return destinations > 1 ? fmt::format(" and of {}", counted(destinations - 1, "more rank")) : "";
}

std::string event_line(const Inspection& inspection, const PlacedEvent& placed) {
  const shmem::Event& event = placed.event;
  const shmem::SlotPlan& slots = inspection.job->shape().slots;
  const double age_s = static_cast<double>(event.time_ns - inspection.job->job().begun_ns) / 1e9;
  std::string text = fmt::format("  {:>12.6f} s  rank {} core {} round {}  {}", age_s, placed.rank, placed.core,
                                 event.round, shmem::name_of(event.kind));
  const auto at = [&] { return fmt::format(" at {}:{}", event.text.data(), event.line); };
  using enum shmem::EventKind;
  switch (event.kind) {
    case enter: return text + fmt::format(" {}", event.text.data());
    case leave: return text;
    case set:
      text += fmt::format(" {} of rank {} to {:#x}", slots.describe(event.slot), event.rank, event.value);
      return text + and_more(event.count) + at();
    case add:
      text += fmt::format(" {:#x} to {} of rank {}", event.value, slots.describe(event.slot), event.rank);
      return text + and_more(event.count) + at();
    case fence: return text + fmt::format(" to rank {}, {} put", event.rank, human(Bytes{event.value})) + at();
    case quiet: return text + fmt::format(", {} put", human(Bytes{event.value})) + at();
    case wait_begin:
    case wait_end:
    case wait_failed:
      return text +
             fmt::format(" {} of rank {}, {} {:#x}", slots.describe(event.slot), event.rank,
                         event.kind == wait_begin ? "for" : "saw", event.value) +
             at();
  }
  return text;
}

}  // namespace

std::string to_text(const Inspection& inspection) {
  std::string text = head(*inspection.job) + processes(*inspection.job);
  for (const CommunicatorLook& look : inspection.communicators) text += communicator_text(inspection, look);
  if (inspection.communicators.empty()) text += "no communicator yet\n";
  if (inspection.choice.events > 0) text += "\nevents, the newest last; times since the start of the job:\n";
  for (const PlacedEvent& placed : inspection.events) text += event_line(inspection, placed) + "\n";
  return text;
}

std::string to_text(const std::vector<runtime::RunningJob>& jobs) {
  std::string text;
  for (const runtime::RunningJob& job : jobs) text += job.description() + "\n";
  return text;
}

}  // namespace shmoe::apps
