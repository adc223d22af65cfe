#include "runtime/job.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

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

Result<void> create_own(Mappings& mappings, const JobShape& shape, Rank rank, const std::string& name) {
  Result<Segment> memory = Segment::create(name + ".mem", shape.memory(), mappings.window.claim(rank.index()));
  if (!memory) return std::move(memory).error();
  Result<Segment> control = Segment::create(name + ".ctl", shape.control_memory());
  if (!control) return std::move(control).error();
  if (Result<void> pages = control->commit(Offset{0}, control->size()); !pages) return pages;
  write_header(control->data(), shape, rank);
  mappings.memory.push_back(*std::move(memory));
  mappings.control.push_back(*std::move(control));
  return {};
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

bootstrap::IdCard make_card(bootstrap::IdCard card, const Config& config, const std::string& name) {
  card.agreements = {{"cores", fmt::to_string(config.cores)},
                     {"profile", std::string(name_of(config.profile.id))},
                     {"heap", fmt::format("{}", config.heap)},
                     {"buffsize", fmt::format("{} bytes", config.ipc_data), "SHMOE_BUFFSIZE"},
                     {"communicators", fmt::to_string(config.communicators)}};
  card.facts = {{kSegmentFact, name}};
  return card;
}

/// Whether the process of a card is gone. The cheap question is asked every time, the sure one now and then.
std::optional<std::string> process_gone(const bootstrap::IdCard& card) {
  const bootstrap::Owner owner{.pid = card.pid, .start_time = card.start_time};
  const bool missing = kill(static_cast<pid_t>(card.pid), 0) != 0 && errno == ESRCH;
  if (missing || !bootstrap::is_alive(owner)) return fmt::format("pid {} has ended", card.pid);
  return std::nullopt;
}

Result<void> map_everything(bootstrap::SocketExchange& exchange, const JobShape& shape, const std::string& name,
                            std::span<const bootstrap::IdCard> cards, Mappings& mappings) {
  const Rank rank = exchange.rank();
  const Result<void> created = create_own(mappings, shape, rank, name);
  if (Result<void> all = agree(exchange, created, "creating its segments"); !all) return all;
  const Result<void> attached = attach_peers(mappings, shape, rank, cards);
  if (Result<void> all = agree(exchange, attached, "mapping its peers"); !all) return all;
  for (Segment& segment : mappings.memory) segment.unlink();
  for (Segment& segment : mappings.control) segment.unlink();
  return {};
}

Result<bootstrap::SocketExchange> connect(const Config& config, const bootstrap::Launch& launch) {
  const bootstrap::Environment environment = bootstrap::process_environment();
  Result<bootstrap::Endpoint> endpoint = bootstrap::choose_endpoint(std::nullopt, environment, launch);
  if (!endpoint) return std::move(endpoint).error();
  return bootstrap::SocketExchange::connect({.launch = launch,
                                             .endpoint = *std::move(endpoint),
                                             .layout_version = shmem::kLayoutVersion,
                                             .timeout = config.bootstrap_timeout});
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
      slots(shmem::SlotPlan::of_block(map)),
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
    return std::make_unique<shmem::WeakFabric>(std::move(fabric), peers.rank, seed);
  };
}

Result<Job> join_processes(const Config& config) {
  Result<bootstrap::Launch> launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return std::move(launch).error();
  Log log = Log::to_stderr(find_log_level(config.log_level).value_or(LogLevel::warn), launch->rank);
  if (launch->rank == Rank{0}) (void)shmem::clean_stale(false);

  Result<bootstrap::SocketExchange> exchange = connect(config, *launch);
  if (!exchange) return std::move(exchange).error();
  for (const std::string& stranger : exchange->strangers()) log.warn("turned away a stranger: {}", stranger);

  Result<bootstrap::IdCard> me = bootstrap::id_card_of_this_process();
  if (!me) return std::move(me).error();
  const std::string name = segment_name(*launch);
  Result<std::vector<bootstrap::IdCard>> exchanged = exchange_cards(*exchange, make_card(*std::move(me), config, name));
  if (!exchanged) return std::move(exchanged).error();
  auto cards = std::make_shared<std::vector<bootstrap::IdCard>>(*std::move(exchanged));
  if (const int nodes = bootstrap::node_count(*cards); nodes > 1) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("the {} ranks run on {} hosts; shared memory joins the ranks of one host: start "
                               "all of them on one",
                               launch->size, nodes)};
  }

  const JobShape shape(config, launch->size);
  Result<AddressWindow> window = AddressWindow::reserve(static_cast<std::size_t>(launch->size), shape.memory());
  if (!window) return std::move(window).error();
  auto mappings = std::make_shared<Mappings>(Mappings{.window = *std::move(window), .memory = {}, .control = {}});
  if (Result<void> mapped = map_everything(*exchange, shape, name, *cards, *mappings); !mapped) {
    return std::move(mapped).error();
  }
  exchange->close();

  std::vector<std::byte*> memory;
  for (std::size_t rank = 0; rank < cards->size(); ++rank) memory.push_back(mappings->window.at(rank));
  return Job{.config = config,
             .shape = shape,
             .rank = launch->rank,
             .description = fmt::format("{}, {} cores a rank, 1 node, profile {}", launch->description(), config.cores,
                                        name_of(config.profile.id)),
             .log = log,
             .memory = std::move(memory),
             .control = mappings->control.front().data() + shmem::kControlHeaderBytes,
             .commit = [mappings](Offset at, Bytes size) { return mappings->memory.front().commit(at, size); },
             .gone = [cards](Rank rank) { return process_gone((*cards)[rank.index()]); },
             .make_fabric = fabric_maker(config, false),
             .oversubscribed = launch->size * config.cores > usable_cpus(),
             .backing = mappings};
}

}  // namespace shmoe::runtime
