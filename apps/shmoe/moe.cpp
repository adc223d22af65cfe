// shmoe moe: the main job, started by itself or by any launcher.

#include <chrono>
#include <fstream>
#include <memory>
#include <new>

#include <unistd.h>

#include "apps/shmoe/command.hpp"
#include "apps/shmoe/moe_job.hpp"
#include "apps/shmoe/moe_options.hpp"
#include "apps/shmoe/process_group.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/launch.hpp"
#include "shmem/segment.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kName = "shmoe moe";
constexpr const char* kDescription =
    "Runs the communication of mixture-of-experts layers between processes and checks every byte.\n\n"
    "  shmoe moe --ranks 8                                    routing drawn from measured load\n"
    "  shmoe moe --ranks 8 --routing law_layer8.txt           recorded routing, a batch a line\n"
    "  mpirun --oversubscribe -np 8 shmoe moe --routing a.txt,b.txt   under another launcher; two layers by turns\n\n"
    "Each step goes layout -> notify -> dispatch -> experts -> combine. The experts are known linear maps, so every\n"
    "received row and every combined token is compared with a sequential reference, to the bit. At the end: the times "
    "of\n"
    "each stage by rank, and 'verified: bit-exact' if all ranks found everything right.\n\n"
    "Modes: normal, as above, where every rank runs attention and holds experts. low-latency, likewise, for few "
    "tokens:\n"
    "dispatch -> experts -> combine, where one kernel fetches the counts of all ranks and then sends the rows, and "
    "each\n"
    "rank has room for all that may come. afd, where the first ranks hold experts and the others run attention:\n"
    "attention -> a2e -> experts -> e2a. Each attention rank hands its whole batch, with expert ids and weights, to "
    "one\n"
    "expert rank, which answers with the weighted sums.\n"
    "  shmoe moe --ranks 8 --mode low-latency --tokens 4      a few tokens a rank\n"
    "  shmoe moe --ranks 7 --mode afd --expert-ranks 2        attention rank r belongs to expert rank r mod 2\n\n"
    "Routing files, rank r of R taking line (step * R + r) mod lines:\n"
    "  id <tab> id ... <tab><tab> weight <tab> weight ...     as ESFT publishes them; token t owns K of each\n"
    "  {\"topk_ids\": [[3, -1]], \"topk_weights\": [[0.6, 0]]}   -1 drops a pair; weights may be left out\n\n"
    "Profiles: safe, our corrected protocol, which also compares the calls of all ranks before a row is written;\n"
    "faithful-2026-07, the published one, whose second barrier in a kernel may overrun the first, since flags are\n"
    "compared for equality and the parity of the kernel selects the buffer; faithful-2026-08, a later state, where\n"
    "the number of the barrier in the kernel counts as well, and the next kernel's first may overrun the last. In "
    "mode\n"
    "low-latency both are the same, and right with one core a rank; of several cores rows may come behind the flag.\n"
    "Its operators then have a communicator of their own, without strict mode, since combine's flags lie over the\n"
    "rounds of barriers (S5 of the museum). Mode afd then needs 4 cores a rank, attention ranks that are a multiple "
    "of\n"
    "the expert ranks, bf16 rows as they are, hidden a multiple of 256 from 1024 to 7168, top-k up to 8, and 1024 "
    "rows\n"
    "an expert rank at most; batches of a step are filled up to the longest, and the expert ranks add up, since the\n"
    "published e2a does not:\n"
    "  shmoe moe --mode afd --profile faithful-2026-07 --cores 4 --ranks 4 --expert-ranks 2\n\n"
    "The table, over the measured steps: tokens and rows received are sums; ranks/token is the mean of the different\n"
    "ranks that a token goes to; GB/s is the rows that a rank sends by the first operator, and those that it gets "
    "back\n"
    "by the second, by the time there, waiting for other ranks included. In mode afd expert ranks have none.\n"
    "Exit code: 0 verified; 1 failed; 85 broken contract; 86 proven deadlock; 87 shared memory went away;\n"
    "128 + signal for a killed rank.";

/// Before the steps rather than behind them.
Result<void> check_report_file(const MoeOptions& options) {
  if (!options.json || *options.json == "-") return {};
  if (std::ofstream{*options.json, std::ios::app}) return {};
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("cannot write {}: give --json a file that can be written", *options.json),
               .sys = errno};
}

/// Whether ranks can meet at all, in the runtime folder or where SHMOE_COMM_ID says.
Result<void> check_meeting(std::int32_t ranks) {
  const bootstrap::Environment environment = bootstrap::process_environment();
  const bootstrap::Launch launch{.launcher = "shmoe",
                                 .rank = Rank{0},
                                 .size = ranks,
                                 .job_id = "not-yet",
                                 .secret = environment("SHMOE_SECRET"),
                                 .found_by = {}};
  if (auto endpoint = bootstrap::choose_endpoint(std::nullopt, environment, launch); !endpoint)
    return std::move(endpoint).error();
  return {};
}

/// What all ranks would otherwise find out for themselves.
Result<void> check_before_start(const MoeOptions& options) {
  auto source = RoutingSource::open(options.plan.routing);
  if (auto config = config_of(options, source); !config) return std::move(config).error();
  if (!source) return std::move(source).error();
  if (auto meeting = check_meeting(options.ranks.value_or(kDefaultRanks)); !meeting) return meeting;
  return check_report_file(options);
}

int start_ranks(const MoeOptions& options, const Invocation& invocation) {
  if (auto checked = check_before_start(options); !checked) return failed(kName, checked.error());
  GroupPlan plan{.name = kName,
                 .ranks = options.ranks.value_or(kDefaultRanks),
                 .command = invocation.words,
                 .prefix = false,
                 .report_exits = false};
  plan.command.front() = "/proc/self/exe";
  const auto end = run_group(plan);
  static_cast<void>(shmem::clean_stale(false));
  return end ? end->code : failed(kName, end.error());
}

/// On a terminal one line that is rewritten, elsewhere a line a second.
class Progress {
 public:
  void operator()(std::int64_t done, std::int64_t of) {
    const auto now = std::chrono::steady_clock::now();
    if (terminal_) {
      fmt::print(stderr, "\rstep {}/{} {}", done, of, done == of ? "\n" : "");
    } else if (now - last_ >= std::chrono::seconds{1}) {
      say("step {}/{}", done, of);
      last_ = now;
    }
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Result<void> write_report(const MoeOptions& options, const MoeReport& report) {
  const bool to_stdout = options.json == "-";
  if (!to_stdout) fmt::print("{}", to_text(report));
  if (!options.json) return {};
  const std::string json = to_json(report, look_at_machine()).dump(2) + '\n';
  if (to_stdout) {
    fmt::print("{}", json);
    return {};
  }
  std::ofstream out{*options.json};
  out << json << std::flush;
  if (out) return {};
  return Error{.code = Errc::io,
               .context = fmt::format("cannot write {}: give --json a file that can be written", *options.json),
               .sys = errno};
}

int fail_to_start(const Error& error) {
  runtime::tell_failed_start(error, [&] { failed(kName, error); });
  return exit_code_of(error);
}

Result<void> check_ranks(const MoeOptions& options, const bootstrap::Launch& launch) {
  if (options.ranks && *options.ranks != launch.size) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("--ranks is {} but {} started {} ranks ({}): leave --ranks out, or start a job "
                                        "of its own by `shmoe run -n {} -- shmoe moe`",
                                        *options.ranks, launch.launcher, launch.size, launch.found_by, *options.ranks)};
  }
  return {};
}

Error with_a_smaller_job(Error error) {
  if (error.code == Errc::out_of_memory)
    error.context += "; fewer --tokens, a smaller --hidden or fewer --ranks need less";
  return error;
}

Result<void> be_rank(const MoeOptions& options, const bootstrap::Launch& launch, runtime::World& world,
                     Result<RoutingSource> source) {
  if (auto right = check_ranks(options, launch); !right) return right;
  if (launch.rank == Rank{0} && source) {
    if (auto writable = check_report_file(options); !writable) source = std::move(writable).error();
  }
  MoePlan plan = options.plan;
  if (launch.rank == Rank{0}) plan.progress = Progress{};
  try {
    auto report = run_moe_job(world, plan, std::move(source));
    if (!report) return with_a_smaller_job(std::move(report).error());
    report->launcher = launch.launcher;
    if (auto ended = world.finalize(); !ended) return ended;
    return launch.rank == Rank{0} ? write_report(options, *report) : Result<void>{};
  } catch (const ContractViolation& violation) {
    const Error error{.code = Errc::broken_contract, .context = violation.what(), .where = launch.rank};
    world.abort(error);
    return error;
  } catch (const std::bad_alloc&) {
    const Error error{.code = Errc::out_of_memory,
                      .context = "lower --tokens or --hidden, or raise `ulimit -v`",
                      .where = launch.rank};
    world.abort(error);
    return error;
  } catch (const std::exception& exception) {
    // A thread that cannot be had, in the main: no operator throws anything else.
    const Error error{
        .code = Errc::system,
        .context = fmt::format("rank {}: {}: raise `ulimit -u`, or lower SHMOE_CORES", launch.rank, exception.what()),
        .where = launch.rank};
    world.abort(error);
    return error;
  }
}

int moe(const MoeOptions& options, const Invocation& invocation) {
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return failed(kName, launch.error());
  if (launch->launcher == "none") return start_ranks(options, invocation);
  auto source = RoutingSource::open(options.plan.routing);
  const auto config = config_of(options, source);
  if (!config) return fail_to_start(config.error());
  const auto world = runtime::World::create(*config);
  if (!world) return fail_to_start(world.error());
  const auto done = be_rank(options, *launch, **world, std::move(source));
  if (done) return 0;
  (*world)->tell_once(done.error(), [&] { failed(kName, done.error()); });
  return exit_code_of(done.error());
}

}  // namespace

void add_moe(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<MoeOptions>();
  CLI::App* command = app.add_subcommand("moe", kDescription);
  command->footer("\nSettings from the environment: `shmoe info` shows them with their values.");
  add_moe_options(*command, *options);
  command->callback([options, command, &invocation] {
    finish_moe_options(*command, *options);
    invocation.exit_code = moe(*options, invocation);
  });
}

}  // namespace shmoe::apps
