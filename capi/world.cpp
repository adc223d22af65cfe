#include <string>
#include <string_view>
#include <vector>

#include "capi/handles.hpp"
#include "ops/afd/window.hpp"
#include "ops/low_latency/region.hpp"
#include "runtime/unknown_settings.hpp"

namespace shmoe::capi {
namespace {

runtime::World& world_of(const shmoe_world* world) {
  runtime::World* open = need(world, "world").hold->world;
  if (open == nullptr) refuse("the world has ended with the body of shmoe_run_as_threads");
  return *open;
}

bool is_setting(std::string_view name) {
  return std::ranges::any_of(runtime::settings(), [name](const runtime::Setting& row) { return name == row.variable; });
}

/// The settings of a caller before those of the environment.
class Settings {
 public:
  explicit Settings(const char* const* entries) {
    for (; entries != nullptr && *entries != nullptr; ++entries) add(*entries);
  }

  [[nodiscard]] std::optional<std::string> find(std::string_view name) const {
    const auto found = own_.find(name);
    return found == own_.end() ? bootstrap::process_environment()(name) : found->second;
  }

 private:
  void add(std::string_view entry) {
    const std::size_t equals = entry.find('=');
    const std::string name(entry.substr(0, equals));
    if (equals == std::string_view::npos) refuse(fmt::format("the setting '{}' has no '=': write NAME=VALUE", entry));
    if (const auto unknown = runtime::unknown_settings({&name, 1})) refuse(*unknown);
    if (!is_setting(name)) refuse(fmt::format("{} is no setting: `shmoe info` shows them all", name));
    own_[name] = entry.substr(equals + 1);
  }

  std::map<std::string, std::string, std::less<>> own_;
};

runtime::Config config_of(const shmoe_config* given) {
  const shmoe_config wanted = given == nullptr ? shmoe_config{} : taken(given, "config");
  constexpr std::uint32_t kKnown = SHMOE_USES_LOW_LATENCY | SHMOE_USES_AFD;
  if ((wanted.uses & ~kKnown) != 0) refuse(fmt::format("config->uses is {:#x}: {:#x} at most", wanted.uses, kKnown));
  const auto find = [settings = Settings(wanted.settings)](std::string_view name) { return settings.find(name); };
  runtime::Config config = value_of(runtime::Config::load(find));
  config.environment = find;
  if (wanted.comm_id != nullptr) config.comm_id = wanted.comm_id;
  config.declare_slots = [uses = wanted.uses](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    if ((uses & SHMOE_USES_LOW_LATENCY) != 0) ops::declare_low_latency(plan, map);
    if ((uses & SHMOE_USES_AFD) != 0) ops::declare_afd(plan, map);
  };
  return config;
}

/// What the body of a rank has ended with.
Result<void> outcome_of(shmoe_status status) {
  if (status == SHMOE_OK) return {};
  if (last_error().code == static_cast<Errc>(status)) return last_error();
  return Error{.code = Errc::system,
               .context = fmt::format("the body returned {} ({}), and no call of its thread failed with that",
                                      static_cast<int>(status), shmoe_status_name(status))};
}

}  // namespace

void check_experts(std::int32_t experts) {
  constexpr std::int32_t kMost = 65536;
  if (experts < 1 || experts > kMost) refuse(fmt::format("shape->experts is {}: it goes from 1 to {}", experts, kMost));
}

ops::ExpertMap owned_by(const std::int32_t* owners, std::int32_t experts, std::int32_t ranks) {
  return value_of(ops::ExpertMap::owned_by({owners, owners + experts}, ranks));
}

}  // namespace shmoe::capi

using namespace shmoe;
using namespace shmoe::capi;

shmoe_status shmoe_world_create(const shmoe_config* config, shmoe_world** world) {
  return call("shmoe_world_create", [&] {
    shmoe_world*& made = need(world, "world");
    auto hold = std::make_shared<Hold>();
    hold->own = value_of(runtime::World::create(config_of(config)));
    hold->world = hold->own.get();
    made = new shmoe_world{std::move(hold)};
  });
}

shmoe_status shmoe_world_rank(const shmoe_world* world, std::int32_t* rank) {
  return call("shmoe_world_rank", [&] { need(rank, "rank") = world_of(world).rank().value(); });
}

shmoe_status shmoe_world_size(const shmoe_world* world, std::int32_t* size) {
  return call("shmoe_world_size", [&] { need(size, "size") = world_of(world).ranks(); });
}

shmoe_status shmoe_world_finalize(shmoe_world* world) {
  return call("shmoe_world_finalize", [&] { done(world_of(world).finalize()); });
}

shmoe_status shmoe_world_abort(shmoe_world* world) {
  return call("shmoe_world_abort", [&] {
    Error reason = last_error();
    if (reason.code == Errc::ok) reason = {.code = Errc::aborted, .context = "the program gave up"};
    world_of(world).abort(reason);
  });
}

shmoe_status shmoe_world_destroy(shmoe_world* world) {
  return call("shmoe_world_destroy", [&] {
    if (!need(world, "world").hold->own) refuse("this world belongs to shmoe_run_as_threads, which ends it");
    delete world;
  });
}

shmoe_status shmoe_run_as_threads(std::int32_t ranks, const shmoe_config* config, shmoe_rank_body body,
                                  void* argument) {
  return call("shmoe_run_as_threads", [&] {
    if (body == nullptr) refuse("body is NULL");
    if (ranks < 1) refuse(fmt::format("{} ranks: 1 at least", ranks));
    done(runtime::World::run_as_threads(ranks, config_of(config), [&](runtime::World& world) {
      shmoe_world handle{std::make_shared<Hold>()};
      handle.hold->world = &world;
      const Result<void> outcome = outcome_of(body(&handle, argument));
      handle.hold->world = nullptr;
      return outcome;
    }));
  });
}

shmoe_status shmoe_communicator_all(shmoe_world* world, shmoe_communicator** all) {
  return call("shmoe_communicator_all", [&] {
    shmoe_communicator*& made = need(all, "all");
    runtime::Communicator& comm = world_of(world).all();
    made = new shmoe_communicator{Held(world->hold, comm)};
  });
}

shmoe_status shmoe_communicator_create(shmoe_world* world, std::int32_t id, const std::int32_t* members,
                                       std::size_t count, shmoe_communicator** made) {
  return call("shmoe_communicator_create", [&] {
    shmoe_communicator*& handle = need(made, "made");
    const std::int32_t* first = &need(members, "members");
    runtime::World& open = world_of(world);
    if (count > static_cast<std::size_t>(open.ranks())) {
      refuse(fmt::format("{} members of {} ranks", count, open.ranks()));
    }
    const std::vector<Rank> ranks(first, first + count);
    handle =
        new shmoe_communicator{Held(world->hold, *value_of(open.communicator(runtime::CommunicatorId{id}, ranks)))};
  });
}
