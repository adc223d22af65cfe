#include "runtime/world.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>

#include "runtime/diagnosis/overseer.hpp"
#include "runtime/diagnosis/prover.hpp"
#include "runtime/job.hpp"
#include "runtime/losses.hpp"
#include "runtime/memory_watch.hpp"
#include "runtime/pinning.hpp"
#include "shmem/hash.hpp"

namespace shmoe::runtime {
namespace {

std::int64_t hash_of(std::span<const Rank> members) {
  std::uint64_t hash = shmem::kFnvStart;
  for (const Rank member : members) hash = shmem::fnv1a(hash, member.index());
  return static_cast<std::int64_t>(hash);
}

}  // namespace

struct World::State {
  Job job;
  std::mutex mutex;  // of `communicators`: a core may end them all while the host makes one
  std::map<CommunicatorId, std::unique_ptr<Communicator>> communicators;
  std::shared_ptr<const shmem::BlockMap> map;
  std::shared_ptr<const shmem::SlotPlan> slots;
  std::optional<Prover> prover;
  std::map<const Communicator*, Communicator*> origins;  // of those made of survivors
  Communicator* everyone = nullptr;                      // that is left
  std::vector<Rank> lost;
  std::vector<shmem::BusErrorWatch> watches;  // last: of memory that is still mapped

  explicit State(Job joined);

  Result<void> check_members(CommunicatorId id, std::span<const Rank> members) const;
  Result<Communicator*> add(CommunicatorId id, std::vector<Rank> members);
  [[nodiscard]] shmem::Peers block_of(const Group& group) const;
  [[nodiscard]] shmem::Peers peers_of(CommunicatorId id, const std::vector<Rank>& members);
  /// All communicators of the job, also those that this rank is not in.
  [[nodiscard]] Prover::Views views() const;
  void abort(const Error& reason, Core core);
  /// As one of this rank's communicators has been told.
  [[nodiscard]] std::optional<Error> proven_deadlock();
  [[nodiscard]] Result<std::vector<Rank>> settle(CommunicatorId id, std::span<const Rank> members) const;
};

World::State::State(Job joined)
    : job(std::move(joined)),
      map(std::make_shared<const shmem::BlockMap>(job.shape.map)),
      slots(std::make_shared<const shmem::SlotPlan>(job.shape.slots)) {
  if (job.shared) watches.push_back(watch_objects(job));
  if (!job.config.prove) return;
  prover.emplace(Prover::Parts{.self = job.rank,
                               .ranks = job.shape.ranks,
                               .views = [this] { return views(); },
                               .gone = [this](Rank rank) { return job.gone(rank).has_value(); }});
}

/// What every member sees alike.
shmem::Peers World::State::block_of(const Group& group) const {
  shmem::Peers peers;
  peers.rank = kOutside;
  peers.scope = group.scope();
  const Bytes block = job.shape.map.size * group.id.index();
  const std::uint64_t control_block = job.shape.control.size().value() * group.id.index();
  for (const Rank member : group.members) {
    peers.mem.push_back(job.memory[member.index()] + block.value());
    if (job.config.prove) peers.controls.push_back(job.control[member.index()] + control_block);
  }
  peers.map = map;
  peers.slots = slots;
  peers.control_map = job.shape.control;
  peers.flag_word = job.config.profile.flag_word;
  peers.sharing = job.shared ? shmem::Sharing::processes : shmem::Sharing::threads;
  return peers;
}

Prover::Views World::State::views() const {
  Prover::Views views;
  for (Group& group : groups_in(job.shape.control, job.shape.communicators, job.control)) {
    shmem::Peers peers = block_of(group);
    views.push_back({.group = std::move(group), .peers = std::move(peers)});
  }
  return views;
}

shmem::Peers World::State::peers_of(CommunicatorId id, const std::vector<Rank>& members) {
  shmem::Peers peers = block_of({.id = id, .members = members});
  peers.rank = Rank{std::find(members.begin(), members.end(), job.rank) - members.begin()};
  peers.control = job.control[job.rank.index()] + job.shape.control.size().value() * id.index();
  if (job.commit) {
    const Bytes block = job.shape.map.size * id.index();
    peers.commit = [commit = job.commit, block](Offset at, Bytes size) { return commit(at + block, size); };
  }
  if (job.config.wait_limit.count() > 0) peers.wait_limit = job.config.wait_limit;
  peers.crowd = job.crowd;
  peers.strict = job.config.strict;
  peers.copy = job.copy;
  peers.views = job.config.views;
  Gone gone = [gone = job.gone, members](Rank member) { return gone(members[member.index()]); };
  AskForProof ask;
  if (prover) ask = [this, id](Core core) { return prover->ask(id, core); };
  peers.overseer = make_overseer(peers, members, job.config.cores, std::move(gone), job.log, job.config.verdict_file,
                                 std::move(ask), [this] { return proven_deadlock(); });
  return peers;
}

void World::State::abort(const Error& reason, Core core) {
  std::vector<Communicator*> all;
  {
    const std::lock_guard lock(mutex);
    for (auto& [id, communicator] : communicators) all.push_back(communicator.get());
  }
  for (Communicator* communicator : all) communicator->abort(reason, core);
}

std::optional<Error> World::State::proven_deadlock() {
  const std::lock_guard lock(mutex);
  for (const auto& [id, communicator] : communicators) {
    std::optional<Error> told = communicator->aborted();
    if (told && told->code == Errc::deadlock) return told;
  }
  return std::nullopt;
}

Result<void> World::State::check_members(CommunicatorId id, std::span<const Rank> members) const {
  const auto invalid = [](std::string text) {
    return Error{.code = Errc::invalid_argument, .context = std::move(text)};
  };
  if (id.value() < 0 || id.value() >= job.config.communicators) {
    const std::int32_t count = job.config.communicators;
    const bool may_grow = id.value() >= count && id.value() < Config::kMostCommunicators;
    return invalid(
        fmt::format("communicator {} of {}, numbered from 0: {}", id, count,
                    may_grow ? "raise SHMOE_COMMUNICATORS, or take a lower number" : "take a number of them"));
  }
  if (communicators.contains(id)) return invalid(fmt::format("communicator {} is in use on rank {}", id, job.rank));
  std::set<Rank> seen;
  for (const Rank member : members) {
    if (member.value() < 0 || member.value() >= job.shape.ranks || !seen.insert(member).second) {
      return invalid(fmt::format("communicator {}: rank {} is listed twice or is none of the {} ranks", id, member,
                                 job.shape.ranks));
    }
  }
  if (!seen.contains(job.rank)) {
    return invalid(fmt::format("communicator {}: rank {} is no member; only members take part", id, job.rank));
  }
  return {};
}

Result<Communicator*> World::State::add(CommunicatorId id, std::vector<Rank> members) {
  if (job.commit_block && id != CommunicatorId{0}) {
    if (Result<void> pages = job.commit_block(id.index()); !pages) {
      return std::move(pages).error().within(fmt::format("creating communicator {}", id));
    }
  }
  shmem::Peers peers = peers_of(id, members);
  if (job.shared) {
    Result<shmem::MetaWindow> meta = shmem::MetaWindow::map(peers.mem, job.shape.map.meta_window());
    if (!meta) return std::move(meta).error().within(fmt::format("creating communicator {}", id));
    peers.meta = std::make_shared<const shmem::MetaWindow>(*std::move(meta));
    watches.push_back(watch_communicator(job, id, peers, members));
  }
  // Members whose lists do not fit together may wait at slots that nobody writes: the start is bounded.
  const std::optional<shmem::Time> usual_limit = peers.wait_limit;
  if (!peers.wait_limit) peers.wait_limit = job.config.bootstrap_timeout;
  const std::int64_t agreement = hash_of(members);
  auto made = std::make_unique<Communicator>(
      Communicator::Parts{.peers = std::move(peers),
                          .members = std::move(members),
                          .profile = job.config.profile,
                          .grid = job.grid.get(),
                          .make_fabric = job.make_fabric,
                          .id = id,
                          .deadlocked = [this](const Error& why, Core core) { abort(why, core); }});
  Communicator* communicator = made.get();
  {
    const std::lock_guard lock(mutex);
    communicators[id] = std::move(made);
  }
  job.shape.control.membership(job.control[job.rank.index()])
      .made.fetch_or(std::uint64_t{1} << id.index(), std::memory_order_release);
  if (Result<void> met = communicator->barrier(agreement); !met) {
    communicator->abort(met.error());
    return std::move(met).error().within(fmt::format("creating communicator {}", id));
  }
  communicator->set_wait_limit(usual_limit);
  job.log.debug("communicator {}: rank {} of {}", id, communicator->rank(), communicator->ranks());
  return communicator;
}

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}

/// A misspelt operator shows as a fault that nothing has met.
World::~World() {
  const Job& job = state_->job;
  if (!job.faults) return;
  for (const Fault& fault : job.faults->missed())
    job.log.info("{}:{}: never came to its point: {}", job.config.faults.name, fault.line, to_string(fault));
}

Result<std::unique_ptr<World>> World::create(const Config& config) {
  Result<Job> job = join_processes(config);
  if (!job) return std::move(job).error();
  pin_cores(*job->grid, config, job->rank, job->shape.ranks, job->log);  // last: who asks for CPUs now sees one
  return start(*std::move(job));
}

Result<std::unique_ptr<World>> World::start(Job&& job) {
  std::vector<Rank> everyone;
  for (Rank rank{0}; rank.value() < job.shape.ranks; ++rank) everyone.push_back(rank);
  std::unique_ptr<World> world(new World(std::make_unique<State>(std::move(job))));
  world->log().info("{}", world->description());
  const FaultPlan& faults = world->config().faults;
  if (world->rank() == Rank{0} && !faults.faults.empty())
    world->log().info("faults of {} that are injected: {}", faults.name, faults.faults.size());
  Result<Communicator*> all = world->state_->add(CommunicatorId{0}, std::move(everyone));
  if (!all) return std::move(all).error();
  world->state_->everyone = *all;
  return world;
}

Rank World::rank() const { return state_->job.rank; }
std::int32_t World::ranks() const { return state_->job.shape.ranks; }
const Config& World::config() const { return state_->job.config; }
const std::string& World::description() const { return state_->job.description; }
const Log& World::log() const { return state_->job.log; }
Communicator& World::all() { return *state_->communicators.at(CommunicatorId{0}); }

Result<Communicator*> World::communicator(CommunicatorId id, std::span<const Rank> members) {
  if (Result<void> valid = state_->check_members(id, members); !valid) return std::move(valid).error();
  return state_->add(id, {members.begin(), members.end()});
}

Result<std::vector<Rank>> World::State::settle(CommunicatorId id, std::span<const Rank> members) const {
  const auto roll_call = [this, id](Rank rank) {
    std::byte* place = job.memory[rank.index()] + job.shape.map.roll_call(id.index()).value();
    return shmem::RollCall(place, job.shape.ranks);
  };
  return settle_losses({.self = job.rank,
                        .members = members,
                        .roll_call = roll_call,
                        .gone = job.gone,
                        .limit = job.config.bootstrap_timeout});
}

Result<Communicator*> World::without_lost(CommunicatorId id, Communicator& of) {
  // Who has got a communicator of survivors and who has not, because one more ended, look at the same members.
  const auto made = state_->origins.find(&of);
  Communicator& origin = made == state_->origins.end() ? of : *made->second;
  std::vector<Rank> members = origin.members();
  if (Result<void> valid = state_->check_members(id, members); !valid) return std::move(valid).error();
  of.abort({.code = Errc::peer_lost, .context = "it goes on without those who are gone", .where = rank()});
  const Result<std::vector<Rank>> lost = state_->settle(id, members);
  if (!lost) return Error(lost.error()).within(fmt::format("creating communicator {}", id));
  std::erase_if(members, [&](Rank member) { return std::ranges::binary_search(*lost, member); });
  std::vector<Rank> all_lost;
  std::ranges::set_union(state_->lost, *lost, std::back_inserter(all_lost));
  state_->lost = std::move(all_lost);
  Result<Communicator*> left = state_->add(id, std::move(members));
  if (!left) return left;
  state_->origins[*left] = &origin;
  if (&origin == &all()) state_->everyone = *left;
  return left;
}

const std::vector<Rank>& World::lost() const { return state_->lost; }

Result<void> World::finalize() {
  Communicator& all = *state_->everyone;
  all.set_wait_limit(state_->job.config.bootstrap_timeout);
  if (Result<void> met = all.barrier(); !met) return std::move(met).error().within("finalize");
  return {};
}

void World::abort(const Error& reason) { state_->abort(reason, Core{0}); }

void World::tell_once(const Error& error, const Tell& tell) {
  std::vector<shmem::LastWords*> words;
  for (std::byte* memory : state_->job.memory) {
    words.push_back(reinterpret_cast<shmem::LastWords*>(memory + state_->job.shape.map.last_words().value()));
  }
  runtime::tell_once({.self = rank(), .words = words, .gone = state_->job.gone}, error, tell);
}

}  // namespace shmoe::runtime
