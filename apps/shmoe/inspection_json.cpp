// What `shmoe inspect --json` says; described by inspect.schema.json.

#include "apps/shmoe/inspection.hpp"

namespace shmoe::apps {
namespace {

using nlohmann::ordered_json;
using runtime::CommunicatorLook;
using runtime::CoreSight;

/// Words do not fit into the numbers of every reader.
std::string hex(std::uint64_t word) { return fmt::format("{:#x}", word); }

ordered_json numbers(const std::vector<Rank>& ranks) {
  ordered_json list = ordered_json::array();
  for (const Rank rank : ranks) list.push_back(rank.value());
  return list;
}

ordered_json wait_json(const CommunicatorLook& look, const CoreSight& core) {
  if (!core.wait) return nullptr;
  const runtime::WaitSight& wait = *core.wait;
  ordered_json json{{"for_s", look.job->waited_s(core)}, {"site", core.site}, {"text", wait_text(look, wait)}};
  json["where"] = wait.where.value();
  if (wait.slots.empty()) return json;
  json["slot"] = look.view->peers.slots->describe(wait.slot());
  json["slots"] = look.view->record(core.rank, core.core).count.load(std::memory_order_relaxed);
  json["expects"] = hex(wait.value);
  json["sees"] = hex(look.sight->word(wait.where, wait.slot()));
  json["writers"] = numbers(look.sight->writers_of(wait));
  return json;
}

ordered_json core_json(const CommunicatorLook& look, const CoreSight& core) {
  const shmem::WaitRecord& record = look.view->record(core.rank, core.core);
  return {{"rank", core.rank.value()},
          {"core", core.core.value()},
          {"life", name_of(life_of(record))},
          {"operator", core.op},
          {"round", core.round.value()},
          {"launch", core.launch},
          {"block", record.block.load(std::memory_order_relaxed)},
          {"blocks", record.blocks.load(std::memory_order_relaxed)},
          {"wait", wait_json(look, core)}};
}

ordered_json heap_json(const CommunicatorLook& look, Rank rank) {
  const shmem::Membership& own = look.view->membership(rank);
  return {{"rank", rank.value()},
          {"used", own.heap_used.load()},
          {"blocks", own.heap_blocks.load()},
          {"largest_free", own.heap_largest_free.load()}};
}

ordered_json rank_json(const CommunicatorLook& look, Rank rank) {
  const Rank world = look.sight->world(rank);
  return {{"rank", rank.value()},
          {"world_rank", world.value()},
          {"standing", name_of(look.standing(rank))},
          {"waits_for", numbers(look.job->graph().waits_for(world))}};
}

ordered_json group_json(const CommunicatorLook& look, const runtime::RankGroup& group) {
  ordered_json communicator;
  if (group.in != nullptr) {
    const auto index = static_cast<std::size_t>(group.in - look.job->sights().data());
    communicator = look.job->views()[index].id().value();
  }
  return {{"ranks", numbers(group.ranks)},
          {"standing", name_of(group.standing)},
          {"communicator", std::move(communicator)},
          {"operator", group.op},
          {"round", group.round.value()}};
}

ordered_json communicator_json(const Inspection& inspection, const CommunicatorLook& look) {
  ordered_json json{{"id", look.view->id().value()}};
  const runtime::Assessment assessment = look.assess();
  json["condition"] = name_of(assessment.condition);
  json["rank"] = assessment.rank ? ordered_json(assessment.rank->value()) : ordered_json();
  json["text"] = assessment.text;
  const auto root = look.job->graph().root(*look.sight);
  json["root"] = root ? ordered_json{{"rank", root->rank.value()}, {"behind", numbers(root->behind)}} : ordered_json();
  for (const char* list : {"ranks", "groups", "cores", "heaps"}) json[list] = ordered_json::array();
  for (const runtime::RankGroup& group : look.job->graph().groups(*look.sight))
    json["groups"].push_back(group_json(look, group));
  for (const CoreSight& core : look.sight->cores) json["cores"].push_back(core_json(look, core));
  for (Rank rank{0}; rank.value() < look.view->peers.size(); ++rank) {
    json["ranks"].push_back(rank_json(look, rank));
    json["heaps"].push_back(heap_json(look, rank));
  }
  if (inspection.choice.slots.empty()) return json;
  const shmem::SlotFamily& family = look.view->peers.slots->family(inspection.choice.slots);
  json["slots"] = {{"family", family.name},
                   {"buffers", family.buffers},
                   {"sources", family.sources},
                   {"events", family.events},
                   {"words", ordered_json::array()}};
  for (Rank rank{0}; rank.value() < look.view->peers.size(); ++rank) {
    ordered_json row = ordered_json::array();
    for (std::uint32_t i = 0; i < family.count(); ++i)
      row.push_back(hex(look.sight->word(rank, Slot{family.first + i})));
    json["slots"]["words"].push_back(std::move(row));
  }
  return json;
}

ordered_json event_json(const PlacedEvent& placed) {
  const shmem::Event& event = placed.event;
  return {{"communicator", placed.communicator.value()},
          {"rank", placed.rank.value()},
          {"core", placed.core.value()},
          {"time_ns", event.time_ns},
          {"kind", shmem::name_of(event.kind)},
          {"round", event.round.value()},
          {"peer", event.rank.value()},
          {"slot", event.slot.value()},
          {"count", event.count},
          {"value", hex(event.value)},
          {"text", event.text.data()},
          {"line", event.line}};
}

ordered_json job_json(const runtime::RunningJob& job) {
  ordered_json json{{"name", job.name}, {"ranks", job.ranks}, {"age_s", job.age_s()}, {"pids", ordered_json::array()}};
  for (const runtime::RankProcess& process : job.processes) json["pids"].push_back(process.pid);
  return json;
}

}  // namespace

ordered_json to_json(const Inspection& inspection) {
  const runtime::JobView& job = *inspection.job;
  ordered_json json{{"schema", 1}, {"command", "shmoe inspect"}};
  json["job"] = {{"name", job.job().name},
                 {"ranks", job.shape().ranks},
                 {"cores", job.shape().control.cores},
                 {"profile", name_of(job.shape().profile)},
                 {"heap", job.shape().map.heap.size.value()},
                 {"age_s", job.age_s()}};
  for (const char* list : {"processes", "communicators", "events"}) json[list] = ordered_json::array();
  for (Rank rank{0}; rank.value() < job.shape().ranks; ++rank) {
    const auto pid = job.pid_of(rank);
    const runtime::ProcessState state = job.state_of(rank);
    json["processes"].push_back({{"rank", rank.value()},
                                 {"pid", pid ? ordered_json(*pid) : ordered_json()},
                                 {"state", state.letter == 0 ? "" : std::string(1, state.letter)},
                                 {"text", state.text()}});
  }
  for (const CommunicatorLook& look : inspection.communicators) {
    json["communicators"].push_back(communicator_json(inspection, look));
  }
  for (const PlacedEvent& placed : inspection.events) json["events"].push_back(event_json(placed));
  return json;
}

ordered_json to_json(const std::vector<runtime::RunningJob>& jobs) {
  ordered_json json{{"schema", 1}, {"command", "shmoe inspect"}, {"jobs", ordered_json::array()}};
  for (const runtime::RunningJob& job : jobs) json["jobs"].push_back(job_json(job));
  return json;
}

}  // namespace shmoe::apps
