#include "runtime/job.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>

#include <sys/random.h>
#include <unistd.h>

#include "bootstrap/launch.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "runtime/machine.hpp"
#include "shmem/mapped_fabric.hpp"
#include "shmem/segment.hpp"
#include "shmem/weak_fabric.hpp"

namespace shmoe::runtime {
namespace {

using shmem::AddressWindow;
using shmem::ControlHeader;
using shmem::Segment;

constexpr const char* kSegmentFact = "segment";

/// Both objects of every rank, as mapped in this process.
struct Mappings {
  AddressWindow window;
  std::vector<Segment> memory;  // own first, then the peers' in rank order
  std::vector<Segment> control;
};

std::string segment_name(const bootstrap::Launch& launch) {
  std::uint32_t random = 0;
  while (getrandom(&random, sizeof random, 0) != sizeof random) {
  }
  std::string job;
  for (const char c : launch.job_id.substr(0, 40)) job += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fmt::format("{}{}.{:08x}.{}", shmem::kSegmentPrefix, job, random, launch.rank);
}

void write_header(std::byte* control, const JobShape& shape, Rank rank) {
  auto& header = *reinterpret_cast<ControlHeader*>(control);
  header.rank = rank.value();
  header.ranks = shape.ranks;
  header.pid = getpid();
  header.memory_bytes = shape.memory().value();
  header.version.store(shmem::kLayoutVersion, std::memory_order_release);
}

Result<void> check_header(const std::byte* control, const JobShape& shape, Rank peer) {
  const auto& header = *reinterpret_cast<const ControlHeader*>(control);
  const std::uint32_t version = header.version.load(std::memory_order_acquire);
  if (version != shmem::kLayoutVersion) {
    return Error{.code = Errc::version,
                 .context = fmt::format("rank {} has layout version {}, expected {}: start every "
                                        "rank from the same build",
                                        peer, version, shmem::kLayoutVersion),
                 .where = peer};
  }
  if (header.rank != peer.value() || header.ranks != shape.ranks) {
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("the segment of rank {} says rank {} of {}", peer, header.rank, header.ranks),
                 .where = peer};
  }
  return {};
}

Result<void> commit_block(Mappings& own, const JobShape& shape, std::uint64_t block) {
  const Offset memory = Offset{0} + shape.map.size * block;
  const Bytes meta = shape.map.error_text.end() - Offset{0};
  if (Result<void> pages = own.memory.front().commit(memory, meta); !pages) return pages;
  const Offset control = Offset{shmem::kControlHeaderBytes} + shape.control.size() * block;
  return own.control.front().commit(control, shape.control.size());
}

Result<void> create_own(Mappings& mappings, const JobShape& shape, Rank rank, const std::string& name) {
  Result<Segment> memory = Segment::create(name + ".mem", shape.memory(), mappings.window.claim(rank.index()));
  if (!memory) return std::move(memory).error();
  Result<Segment> control = Segment::create(name + ".ctl", shape.control_memory());
  if (!control) return std::move(control).error();
  if (Result<void> pages = control->commit(Offset{0}, Bytes{shmem::kControlHeaderBytes}); !pages) return pages;
  write_header(control->data(), shape, rank);
  mappings.memory.push_back(*std::move(memory));
  mappings.control.push_back(*std::move(control));
  return commit_block(mappings, shape, 0);
}

/// What a rank has before it looks at its peers.
struct OwnParts {
  std::unique_ptr<Grid> grid;
  std::shared_ptr<Mappings> mappings;
};

Result<OwnParts> set_up(const Config& config, const JobShape& shape, Rank rank, const std::string& name) {
  Result<std::unique_ptr<Grid>> grid = Grid::start(config.cores);
  if (!grid) return std::move(grid).error();
  Result<AddressWindow> window = AddressWindow::reserve(static_cast<std::size_t>(shape.ranks), shape.memory());
  if (!window) return std::move(window).error();
  auto mappings = std::make_shared<Mappings>(Mappings{.window = *std::move(window), .memory = {}, .control = {}});
  if (Result<void> created = create_own(*mappings, shape, rank, name); !created) return std::move(created).error();
  return OwnParts{.grid = *std::move(grid), .mappings = std::move(mappings)};
}

Result<void> attach_peers(Mappings& mappings, const JobShape& shape, Rank rank,
                          std::span<const bootstrap::IdCard> cards) {
  for (Rank peer{0}; peer.value() < shape.ranks; ++peer) {
    if (peer == rank) continue;
    const std::string& name = *cards[peer.index()].fact(kSegmentFact);
    Result<Segment> memory =
        Segment::attach(name + ".mem", shape.memory(), Segment::Mode::read_write, mappings.window.claim(peer.index()));
    if (!memory) return std::move(memory).error();
    Result<Segment> control = Segment::attach(name + ".ctl", shape.control_memory(), Segment::Mode::read_only);
    if (!control) return std::move(control).error();
    if (Result<void> header = check_header(control->data(), shape, peer); !header) return header;
    mappings.memory.push_back(*std::move(memory));
    mappings.control.push_back(*std::move(control));
  }
  return {};
}

bootstrap::IdCard make_card(bootstrap::IdCard card, const Config& config, const shmem::SlotPlan& slots,
                            const std::string& name) {
  card.agreements = {{"cores", fmt::to_string(config.cores)},
                     {"profile", std::string(name_of(config.profile.id))},
                     {"heap", fmt::format("{}", config.heap)},
                     {"buffsize", fmt::format("{} bytes", config.ipc_data), "SHMOE_BUFFSIZE"},
                     {"communicators", fmt::to_string(config.communicators)},
                     {"slots", fmt::format("{} ({:016x})", slots.size(), slots.digest()), "declare_slots"}};
  card.facts = {{kSegmentFact, name}};
  return card;
}

/// Whether the processes of the cards are gone. The cheap question is asked every time; the sure one, which also sees a
/// process that nobody has waited for, in turns, so that its cost does not grow with the ranks.
class ProcessWatch {
 public:
  explicit ProcessWatch(std::span<const bootstrap::IdCard> cards) : seats_(cards.size()) {
    for (std::size_t i = 0; i < cards.size(); ++i) {
      seats_[i].owner = {.pid = cards[i].pid, .start_time = cards[i].start_time};
    }
  }

  std::optional<std::string> gone(Rank rank) {
    const std::lock_guard lock(mutex_);  // all cores ask
    Seat& seat = seats_[rank.index()];
    if (!seat.ended) {
      const bool missing = kill(static_cast<pid_t>(seat.owner.pid), 0) != 0 && errno == ESRCH;
      if (!missing && (!due(seat) || bootstrap::is_alive(seat.owner))) return std::nullopt;
      seat.ended = true;
    }
    return fmt::format("pid {} has ended", seat.owner.pid);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Seat {
    bootstrap::Owner owner;
    Clock::time_point next = Clock::time_point::min();
    bool ended = false;
  };

  bool due(Seat& seat) {
    const auto now = Clock::now();
    if (now < seat.next) return false;
    seat.next = now + std::chrono::milliseconds(10) * seats_.size();
    return true;
  }

  std::mutex mutex_;
  std::vector<Seat> seats_;
};

template <class T>
Result<void> outcome_of(const Result<T>& result) {
  if (result) return {};
  return result.error();
}

/// Everybody's own parts, mapped here.
Result<OwnParts> map_everything(bootstrap::SocketExchange& exchange, const Config& config, const JobShape& shape,
                                const std::string& name, std::span<const bootstrap::IdCard> cards) {
  const Rank rank = exchange.rank();
  Result<OwnParts> own = set_up(config, shape, rank, name);
  if (Result<void> all = agree(exchange, outcome_of(own), "setting up"); !all) return std::move(all).error();
  const Result<void> attached = attach_peers(*own->mappings, shape, rank, cards);
  if (Result<void> all = agree(exchange, attached, "mapping its peers"); !all) return std::move(all).error();
  for (Segment& segment : own->mappings->memory) segment.unlink();
  for (Segment& segment : own->mappings->control) segment.unlink();
  return own;
}

Result<bootstrap::SocketExchange> connect(const Config& config, const bootstrap::Launch& launch) {
  const bootstrap::Environment environment = bootstrap::process_environment();
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
    SHMOE_EXPECTS(place.end() <= map.user_data.end(), "slot family {} ends at {:#x}, beyond the user data, {:#x}",
                  family.name, place.end().value(), map.user_data.end().value());
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
      map(shmem::block_map(config.profile, {.ranks = rank_count,
                                            .cores = config.cores,
                                            .slots = config.cores,
                                            .ipc_data = config.ipc_data,
                                            .heap = config.heap})),
      slots(slot_plan(config, map)),
      control{.cores = config.cores, .ledger_entries = slots.ledger_size()} {}

FabricMaker fabric_maker(const Config& config, bool threads) {
  return [threads, seed = config.weak_seed](const shmem::Peers& peers, Core core) -> std::unique_ptr<shmem::Fabric> {
    std::unique_ptr<shmem::Fabric> fabric;
    if (threads) {
      fabric = std::make_unique<shmem::ThreadFabric>(peers, core);
    } else {
      fabric = std::make_unique<shmem::ShmFabric>(peers, core);
    }
    if (seed == 0) return fabric;
    return std::make_unique<shmem::WeakFabric>(std::move(fabric), peers.rank, core, seed);
  };
}

Result<Job> join_processes(const Config& config) {
  Result<bootstrap::Launch> launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return std::move(launch).error();
  Log log = Log::to_stderr(find_log_level(config.log_level).value_or(LogLevel::warn), launch->rank);
  if (launch->rank == Rank{0}) clean_up_after_the_dead();

  Result<bootstrap::SocketExchange> exchange = connect(config, *launch);
  if (!exchange) return std::move(exchange).error();
  for (const std::string& stranger : exchange->strangers()) log.warn("turned away a stranger: {}", stranger);

  Result<bootstrap::IdCard> me = bootstrap::id_card_of_this_process();
  if (Result<void> all = agree(*exchange, outcome_of(me), "reading its id card"); !all) return std::move(all).error();
  const JobShape shape(config, launch->size);
  const std::string name = segment_name(*launch);
  Result<std::vector<bootstrap::IdCard>> exchanged =
      exchange_cards(*exchange, make_card(*std::move(me), config, shape.slots, name));
  if (!exchanged) return std::move(exchanged).error();
  const std::vector<bootstrap::IdCard>& cards = *exchanged;
  if (const int nodes = bootstrap::node_count(cards); nodes > 1) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("the {} ranks run on {} hosts; shared memory joins the ranks of one host: start "
                               "all of them on one",
                               launch->size, nodes)};
  }

  Result<OwnParts> own = map_everything(*exchange, config, shape, name, cards);
  if (!own) return std::move(own).error();
  exchange->close();

  const std::shared_ptr<Mappings> mappings = own->mappings;
  std::vector<std::byte*> memory;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) memory.push_back(mappings->window.at(rank));
  return Job{.config = config,
             .shape = shape,
             .rank = launch->rank,
             .description = fmt::format("{}, {} cores a rank, 1 node, profile {}", launch->description(), config.cores,
                                        name_of(config.profile.id)),
             .log = log,
             .memory = std::move(memory),
             .control = mappings->control.front().data() + shmem::kControlHeaderBytes,
             .commit = [mappings](Offset at, Bytes size) { return mappings->memory.front().commit(at, size); },
             .commit_block = [mappings, shape](std::uint64_t block) { return commit_block(*mappings, shape, block); },
             .grid = std::move(own->grid),
             .gone = [watch = std::make_shared<ProcessWatch>(cards)](Rank rank) { return watch->gone(rank); },
             .make_fabric = fabric_maker(config, false),
             .oversubscribed = launch->size * config.cores > usable_cpus(),
             .backing = mappings};
}

}  // namespace shmoe::runtime
