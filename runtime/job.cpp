#include "runtime/job.hpp"

#include <cctype>
#include <iterator>
#include <set>
#include <sstream>

#include <fmt/ranges.h>
#include <sys/random.h>
#include <unistd.h>

#include "bootstrap/launch.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/text.hpp"
#include "runtime/copy_choice.hpp"
#include "runtime/machine.hpp"
#include "runtime/mappings.hpp"
#include "runtime/process_watch.hpp"
#include "runtime/throttled_fabric.hpp"
#include "runtime/unknown_settings.hpp"
#include "shmem/hash.hpp"
#include "shmem/mapped_fabric.hpp"
#include "shmem/segment.hpp"
#include "shmem/weak_fabric.hpp"

namespace shmoe::runtime {
namespace {

constexpr const char* kSegmentFact = "segment";
constexpr const char* kCopyFact = "copy";
constexpr const char* kNearFact = "copied near";
constexpr const char* kCpusFact = "cpus";
constexpr const char* kUserFact = "user";

/// Of a rank, beside a connection to each other one: standard streams, poller, segments, and some of the program.
constexpr std::int32_t kOpenFilesOfItsOwn = 32;

std::string segment_name(const bootstrap::Launch& launch) {
  std::uint32_t random = 0;
  while (getrandom(&random, sizeof random, 0) != sizeof random) {
  }
  std::string job;
  for (const char c : launch.job_id.substr(0, 40)) job += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fmt::format("{}{}.{:08x}.{}", shmem::kSegmentPrefix, job, random, launch.rank);
}

/// A card of another build may lack some.
Result<void> check_facts(std::span<const bootstrap::IdCard> cards) {
  for (Rank rank{0}; rank.index() < cards.size(); ++rank) {
    for (const char* name : {kSegmentFact, kCopyFact, kNearFact, kUserFact, kCpusFact, kPidsFact}) {
      if (cards[rank.index()].fact(name) != nullptr) continue;
      return Error{
          .code = Errc::mismatch,
          .context = fmt::format("rank {} does not state its {}: start the same build on every rank", rank, name),
          .where = rank};
    }
  }
  return {};
}

/// Of the CPUs that any rank may use: a launcher may have bound each to its own.
shmem::Crowd crowd_of(const Config& config, std::span<const bootstrap::IdCard> cards) {
  std::set<std::string> all;
  for (const bootstrap::IdCard& card : cards) {
    std::istringstream names(*card.fact(kCpusFact));
    all.insert(std::istream_iterator<std::string>(names), {});
  }
  const std::int32_t cpus = within_quota(std::max(1, static_cast<std::int32_t>(all.size())));
  const std::int32_t cores = static_cast<std::int32_t>(cards.size()) * config.cores;
  return {.cores_a_cpu = (cores + cpus - 1) / cpus};
}

/// What a rank has before it looks at its peers.
struct OwnParts {
  std::unique_ptr<Grid> grid;
  std::shared_ptr<Mappings> mappings;
};

Result<OwnParts> set_up(const Config& config, const JobShape& shape, Rank rank, const std::string& name,
                        std::uint64_t job, shmem::Crowd crowd) {
  Result<std::unique_ptr<Grid>> grid = Grid::start(config.cores, crowd);
  if (!grid) return std::move(grid).error();
  Result<std::shared_ptr<Mappings>> mappings = Mappings::create(shape, rank, name, job);
  if (!mappings) return std::move(mappings).error();
  return OwnParts{.grid = *std::move(grid), .mappings = *std::move(mappings)};
}

/// Numbers alone would refuse ranks of one user whom two containers call differently.
Error not_attached(Error error, const bootstrap::IdCard& mine, Rank peer, const bootstrap::IdCard& card) {
  const std::string& user = *card.fact(kUserFact);
  if (error.code != Errc::permission || user == *mine.fact(kUserFact)) return error;
  error.context =
      fmt::format("the memory of rank {} belongs to user {}, this rank to user {}: start all ranks as one user", peer,
                  user, *mine.fact(kUserFact));
  return error;
}

Result<void> attach_peers(Mappings& mappings, Rank rank, std::span<const bootstrap::IdCard> cards) {
  for (Rank peer{0}; peer.index() < cards.size(); ++peer) {
    if (peer == rank) continue;
    const std::string& name = *cards[peer.index()].fact(kSegmentFact);
    if (Result<void> attached = mappings.attach(peer, name); !attached)
      return not_attached(std::move(attached).error(), cards[rank.index()], peer, cards[peer.index()]);
  }
  return {};
}

bootstrap::IdCard make_card(bootstrap::IdCard card, const Config& config, const shmem::SlotPlan& slots,
                            const std::string& name, const shmem::CopyPlan& copy, const std::string& pids) {
  card.agreements = {
      {"cores", fmt::to_string(config.cores)},
      {"profile", std::string(name_of(config.profile.id))},
      {"heap", fmt::format("{}", config.heap)},
      {"buffsize", fmt::format("{} bytes", config.ipc_data), "SHMOE_BUFFSIZE"},
      {"communicators", fmt::to_string(config.communicators)},
      {"slots", fmt::format("{} ({:016x})", slots.size(), slots.digest()), "declare_slots"},
      {"faults", fmt::format("{:016x}", shmem::fnv1a(to_string(config.faults))), "--faults or SHMOE_FAULTS"},
      {"links", config.links ? fmt::format("{:016x}", config.links->digest()) : "none", "--links or SHMOE_LINKS"}};
  // First, because the program may know an option by another name.
  card.agreements.insert(card.agreements.begin(), config.agreements.begin(), config.agreements.end());
  card.facts = {{kSegmentFact, name},
                {kCopyFact, std::string(shmem::name_of(copy.kind))},
                {kNearFact, fmt::to_string(copy.near_bytes)},
                {kUserFact, fmt::to_string(geteuid())},
                {kCpusFact, fmt::format("{}", fmt::join(allowed_cpus(), " "))},
                {kPidsFact, pids}};
  return card;
}

/// What the rank of the card says.
shmem::CopyPlan copy_plan_of(const bootstrap::IdCard& card) {
  shmem::CopyPlan plan;
  plan.kind = shmem::find_copy_kind(*card.fact(kCopyFact)).value_or(plan.kind);
  plan.near_bytes = bootstrap::parse_whole<std::uint64_t>(*card.fact(kNearFact)).value_or(plan.near_bytes);
  return plan;
}

template <class T>
Result<void> outcome_of(const Result<T>& result) {
  if (result) return {};
  return result.error();
}

/// Says once that rows lie on small pages.
std::function<Result<void>(Offset, Bytes)> committer(const std::shared_ptr<Mappings>& mappings, const Log& log) {
  return [mappings, log, told = false](Offset at, Bytes size) mutable {
    Result<void> committed = mappings->commit(at, size);
    if (!told && mappings->no_huge_pages()) {
      log.info("no huge pages: {}", *mappings->no_huge_pages());
      told = true;
    }
    return committed;
  };
}

/// Everybody's own parts, mapped here.
Result<OwnParts> map_everything(bootstrap::SocketExchange& exchange, const Config& config, const JobShape& shape,
                                const std::string& name, std::span<const bootstrap::IdCard> cards, shmem::Crowd crowd) {
  const Rank rank = exchange.rank();
  const std::uint64_t job = shmem::fnv1a(*cards.front().fact(kSegmentFact));
  Result<OwnParts> own = set_up(config, shape, rank, name, job, crowd);
  if (Result<void> all = agree(exchange, outcome_of(own), "setting up"); !all) return std::move(all).error();
  const Result<void> attached = attach_peers(*own->mappings, rank, cards);
  if (Result<void> all = agree(exchange, attached, "mapping its peers"); !all) return std::move(all).error();
  own->mappings->unlink();
  return own;
}

bootstrap::Environment environment_of(const Config& config) {
  return config.environment ? config.environment : bootstrap::process_environment();
}

/// Whoever wanted a job of its own inside another one learns why it waits for ranks.
Error taken_for_a_rank(Error error, const bootstrap::Launch& launch) {
  if (error.code == Errc::deadline) {
    error.context += fmt::format(
        "; this is rank {} of {} because of {}: inside another job, start one of its own by "
        "`shmoe run -n N -- PROGRAM`",
        launch.rank, launch.size, launch.found_by);
  }
  return error;
}

Result<bootstrap::SocketExchange> connect(const Config& config, const bootstrap::Launch& launch) {
  const bootstrap::Environment environment = environment_of(config);
  const auto argument = config.comm_id.empty() ? std::nullopt : std::optional<std::string_view>(config.comm_id);
  Result<bootstrap::Endpoint> endpoint = bootstrap::choose_endpoint(argument, environment, launch);
  if (!endpoint) return std::move(endpoint).error();
  return bootstrap::SocketExchange::connect({.launch = launch,
                                             .endpoint = *std::move(endpoint),
                                             .layout_version = shmem::kLayoutVersion,
                                             .timeout = config.bootstrap_timeout});
}

shmem::SlotPlan slot_plan(const Config& config, const shmem::BlockMap& map) {
  shmem::SlotPlan plan = shmem::SlotPlan::of_block(map);
  const std::size_t built_in = plan.families().size();
  if (config.declare_slots) config.declare_slots(plan, map);
  for (std::size_t i = built_in; i < plan.families().size(); ++i) {
    const shmem::SlotFamily& family = plan.families()[i];
    const shmem::Region place{family.base, Bytes{shmem::kSlotStride * family.count()}};
    const auto lies_in = [&](const shmem::Region& region) {
      return place.at >= region.at && place.end() <= region.end();
    };
    SHMOE_EXPECTS(lies_in(map.low_latency) || lies_in(map.ipc_data) || place.end() <= map.user_data.end(),
                  "slot family {} ends at {:#x}, beyond the user data, {:#x}", family.name, place.end().value(),
                  map.user_data.end().value());
  }
  return plan;
}

/// What jobs left that were killed while they started. Whatever cannot be cleaned does not stop this job.
void clean_up_after_the_dead() {
  (void)shmem::clean_stale(false);
  const auto folder = bootstrap::runtime_folder(bootstrap::process_environment(), "/tmp");
  if (folder) bootstrap::remove_stale_meetings(*folder, false);
}

}  // namespace

JobShape::JobShape(const Config& config, std::int32_t rank_count)
    : ranks(rank_count),
      communicators(config.communicators),
      profile(config.profile.id),
      map(shmem::block_map(config.profile, {.ranks = rank_count,
                                            .cores = config.cores,
                                            .slots = config.cores,
                                            .communicators = config.communicators,
                                            .ipc_data = config.ipc_data,
                                            .heap = config.heap})),
      slots(slot_plan(config, map)),
      control{.cores = config.cores, .ledger_entries = slots.ledger_size(), .ranks = rank_count} {}

std::shared_ptr<RankFaults> faults_of(const Config& config, Rank rank) {
  auto faults = std::make_shared<RankFaults>(config.faults, rank);
  return faults->empty() ? nullptr : faults;
}

Result<void> check_plans(const Config& config, const JobShape& shape, bool threads) {
  if (config.links && config.links->ranks() != shape.ranks) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format(
                     "{}: links of {} ranks, the job has {}: write \"ranks {}\" and their links there, or "
                     "start {} ranks",
                     config.links->name(), config.links->ranks(), shape.ranks, shape.ranks, config.links->ranks())};
  }
  return config.faults.check({.ranks = shape.ranks, .cores = config.cores, .slots = shape.slots, .threads = threads});
}

/// A fault happens on the way: what it loses has been on the link all the same.
FabricMaker fabric_maker(const Config& config, Rank rank, bool threads, std::shared_ptr<RankFaults> faults) {
  const auto links = config.links ? std::make_shared<RankLinks>(*config.links, rank) : nullptr;
  return [threads, seed = config.weak_seed, links, faults = std::move(faults)](
             const shmem::Peers& peers, std::span<const Rank> members, Core core) -> std::unique_ptr<shmem::Fabric> {
    std::unique_ptr<shmem::Fabric> fabric;
    if (threads) {
      fabric = std::make_unique<shmem::ThreadFabric>(peers, core);
    } else {
      fabric = std::make_unique<shmem::ShmFabric>(peers, core);
    }
    if (seed != 0) fabric = std::make_unique<shmem::WeakFabric>(std::move(fabric), peers.rank, core, seed);
    if (faults) fabric = std::make_unique<FaultFabric>(std::move(fabric), faults, peers, core);
    if (links) fabric = std::make_unique<ThrottledFabric>(std::move(fabric), links, peers, members);
    return fabric;
  };
}

Result<Job> join_processes(const Config& config) {
  Result<bootstrap::Launch> launch = bootstrap::detect_launch(environment_of(config));
  if (!launch) return std::move(launch).error();
  if (config.generation > 0) launch->job_id += fmt::format(".{}", config.generation);
  Log log = Log::to_stderr(find_log_level(config.log_level).value_or(LogLevel::warn), launch->rank);
  if (launch->rank == Rank{0}) {
    if (const auto unknown = unknown_settings(environment_names())) log.warn("{}", *unknown);
    clean_up_after_the_dead();
  }
  if (Result<void> allowed = allow_open_files(launch->size, launch->size + kOpenFilesOfItsOwn); !allowed) {
    return std::move(allowed).error();
  }

  Result<bootstrap::SocketExchange> exchange = connect(config, *launch);
  if (!exchange) return taken_for_a_rank(std::move(exchange).error(), *launch);
  for (const std::string& stranger : exchange->strangers()) log.warn("turned away a stranger: {}", stranger);

  // One rank measures, before the others go on: many at once would measure each other.
  const bool measures = launch->rank == Rank{0} && !config.copy;
  const shmem::CopyPlan measured =
      measures ? copy_plan(measure_copies(), launch->size * config.cores) : shmem::CopyPlan{};
  Result<bootstrap::IdCard> me = bootstrap::id_card_of_this_process();
  const Result<std::string> pids = pid_namespace();
  const Result<void> known = me ? outcome_of(pids) : outcome_of(me);
  if (Result<void> all = agree(*exchange, known, "reading its id card"); !all) return std::move(all).error();
  const JobShape shape(config, launch->size);
  const std::string name = segment_name(*launch);
  Result<std::vector<bootstrap::IdCard>> exchanged =
      exchange_cards(*exchange, make_card(*std::move(me), config, shape.slots, name, measured, *pids));
  if (!exchanged) return std::move(exchanged).error();
  const std::vector<bootstrap::IdCard>& cards = *exchanged;
  if (Result<void> complete = check_facts(cards); !complete) return std::move(complete).error();
  if (const int nodes = bootstrap::node_count(cards); nodes > 1) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("the {} ranks run on {} hosts; shared memory joins the ranks of one host: start "
                               "all of them on one",
                               launch->size, nodes)};
  }

  if (Result<void> watched = check_pid_namespaces(cards); !watched) return std::move(watched).error();
  const Result<void> possible = check_plans(config, shape, false);
  if (Result<void> all = agree(*exchange, possible, "reading its faults and links"); !all) {
    return std::move(all).error();
  }

  const shmem::Crowd crowd = crowd_of(config, cards);
  Result<OwnParts> own = map_everything(*exchange, config, shape, name, cards, crowd);
  if (!own) return std::move(own).error();
  exchange->close();

  const shmem::CopyPlan copy = config.copy ? shmem::CopyPlan{.kind = *config.copy} : copy_plan_of(cards.front());
  log.debug("long rows are copied: {}", to_text(copy));
  const std::shared_ptr<Mappings> mappings = own->mappings;
  const std::shared_ptr<RankFaults> rank_faults = faults_of(config, launch->rank);
  std::vector<std::byte*> memory;
  std::vector<std::byte*> control;
  for (Rank rank{0}; rank.index() < cards.size(); ++rank) {
    memory.push_back(mappings->memory_of(rank));
    control.push_back(mappings->control_of(rank));
  }
  return Job{.config = config,
             .shape = shape,
             .rank = launch->rank,
             .description = fmt::format("{}, {} cores a rank, 1 node, profile {}", launch->description(), config.cores,
                                        name_of(config.profile.id)),
             .log = log,
             .memory = std::move(memory),
             .control = std::move(control),
             .shared = true,
             .commit = committer(mappings, log),
             .commit_block = [mappings](std::uint64_t block) { return mappings->commit_block(block); },
             .grid = std::move(own->grid),
             .gone = [watch = std::make_shared<ProcessWatch>(cards)](Rank rank) { return watch->gone(rank); },
             .make_fabric = fabric_maker(config, launch->rank, false, rank_faults),
             .faults = rank_faults,
             .copy = copy,
             .crowd = crowd,
             .backing = mappings};
}

}  // namespace shmoe::runtime
