// shmoe moe: the main job, started by itself or by any launcher.

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <limits>
#include <memory>
#include <new>

#include <fmt/ranges.h>
#include <unistd.h>

#include "apps/shmoe/command.hpp"
#include "apps/shmoe/moe_job.hpp"
#include "apps/shmoe/process_group.hpp"
#include "bootstrap/launch.hpp"
#include "ops/afd/window.hpp"
#include "ops/low_latency/region.hpp"
#include "runtime/config.hpp"
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
    "Exit code: 0 verified; 1 failed; 85 broken contract; 86 proven deadlock; 128 + signal for a killed rank.";

constexpr std::int32_t kDefaultRanks = 4;
constexpr std::array kDtypes{DType::bf16, DType::fp16, DType::fp32};

/// Of a name that the parser has let pass.
DType dtype_named(std::string_view name) {
  return *std::ranges::find_if(kDtypes, [name](DType dtype) { return name == name_of(dtype); });
}

struct MoeOptions {
  std::optional<std::int32_t> ranks;
  std::optional<std::int32_t> cores;
  std::optional<std::string> profile;
  std::string dtype = "bf16";
  std::string quant = "none";
  std::string mode = name_of(MoeMode::normal);
  MoePlan plan;
  std::optional<std::string> faults;  // a file
  std::optional<std::string> links;   // likewise
  std::optional<std::string> json;    // a file, or "-"
};

/// Every option but --json, which only rank 0 looks at, and what the routing files say.
std::vector<bootstrap::Agreement> agreements_of(const MoeOptions& options, const runtime::Config& config,
                                                const Result<RoutingSource>& source) {
  const auto text_of = [](const auto& given) { return given ? fmt::to_string(*given) : std::string{"default"}; };
  const MoePlan& plan = options.plan;
  return {{"cores", fmt::to_string(config.cores), "--cores or SHMOE_CORES"},
          {"profile", std::string{name_of(config.profile.id)}, "--profile or SHMOE_PROFILE"},
          {"ranks", text_of(options.ranks), "--ranks"},
          {"routing", plan.routing.files.empty() ? "drawn" : fmt::to_string(fmt::join(plan.routing.files, ",")),
           "--routing"},
          {"routing content", source ? fmt::format("{:016x}", source->digest()) : to_string(source.error()),
           "files for --routing"},
          {"tokens", text_of(plan.routing.tokens), "--tokens"},
          {"topk", text_of(plan.routing.topk), "--topk"},
          {"experts", fmt::to_string(plan.routing.experts), "--experts"},
          {"seed", fmt::to_string(plan.routing.seed), "--seed"},
          {"dtype", options.dtype, "--dtype"},
          {"hidden", fmt::to_string(plan.shape.hidden), "--hidden"},
          {"quant", options.quant, "--quant"},
          {"mode", options.mode, "--mode"},
          {"expert ranks", text_of(plan.expert_ranks), "--expert-ranks"},
          {"steps", fmt::to_string(plan.steps), "--steps"},
          {"warmup", fmt::to_string(plan.warmup), "--warmup"}};
}

Result<runtime::Config> config_of(const MoeOptions& options, const Result<RoutingSource>& source) {
  auto config = runtime::Config::load();
  if (!config) return config;
  config->communicators = 1;  // as many as it makes: at hundreds of ranks each costs page tables
  if (options.cores) config->cores = *options.cores;
  if (options.faults) {
    auto faults = runtime::FaultPlan::load(*options.faults);
    if (!faults) return std::move(faults).error();
    config->faults = *std::move(faults);
  }
  if (options.links) {
    auto links = runtime::LinkSpeeds::load(*options.links);
    if (!links) return std::move(links).error();
    config->links.emplace(*std::move(links));
  }
  if (options.profile) config->profile = *find_profile(*options.profile);
  if (options.plan.mode == MoeMode::afd) {
    config->declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); };
  }
  if (options.plan.mode == MoeMode::low_latency) {
    config->declare_slots = ops::declare_low_latency;
    // As published, the flags of combine lie over the rounds of barriers: the operators get a communicator of their own,
    // where strict mode would find the round of its first barrier in a flag.
    config->communicators = config->profile.handshake ? 1 : 2;
    config->strict = config->strict && config->profile.handshake;
  }
  if (options.json && config->verdict_file.empty())
    config->verdict_file = *options.json == "-" ? "/dev/stdout" : *options.json;
  config->agreements = agreements_of(options, *config, source);
  return config;
}

/// Before the steps rather than behind them.
Result<void> check_report_file(const MoeOptions& options) {
  if (!options.json || *options.json == "-") return {};
  if (std::ofstream{*options.json, std::ios::app}) return {};
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("cannot write {}: give --json a file that can be written", *options.json),
               .sys = errno};
}

/// What all ranks would otherwise find out for themselves.
Result<void> check_before_start(const MoeOptions& options) {
  auto source = RoutingSource::open(options.plan.routing);
  if (auto config = config_of(options, source); !config) return std::move(config).error();
  if (!source) return std::move(source).error();
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

void add_routing_options(CLI::App& command, MoePlan& plan) {
  command
      .add_option("--routing", plan.routing.files,
                  "files of recorded routing; several are layers used by turns. A line is a batch: ids and weights\n"
                  "separated by tabs, or JSON with topk_ids and topk_weights")
      ->delimiter(',')
      ->type_name("FILE[,FILE]");
  command
      .add_option("--tokens", plan.routing.tokens,
                  "tokens of a rank and step, default 128; with --routing: at most so many of a line")
      ->check(CLI::Range(0, 1 << 24).description(""))
      ->type_name("T");
  command.add_option("--topk", plan.routing.topk, "experts of a token, default 8; with --routing: 6")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("K");
  command.add_option("--experts", plan.routing.experts, "routed experts, default 64")
      ->check(CLI::Range(1, 1 << 16).description(""))
      ->type_name("E");
  command.add_option("--seed", plan.routing.seed, "of drawn routing and of the tokens, default 1")
      ->check(within<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S");
}

void add_mode_options(CLI::App& command, MoeOptions& options) {
  std::vector<std::string> modes;
  for (const MoeMode mode : kMoeModes) modes.emplace_back(name_of(mode));
  command.add_option("--mode", options.mode, fmt::format("{}; default {}", fmt::join(modes, " or "), options.mode))
      ->check(CLI::IsMember(modes).description(""))
      ->type_name("MODE");
  command.add_option("--expert-ranks", options.plan.expert_ranks, "with --mode afd: ranks with experts, default half")
      ->check(CLI::Range(1, 4095).description(""))
      ->type_name("E");
}

void add_job_options(CLI::App& command, MoeOptions& options) {
  std::vector<std::string> dtypes;
  for (const DType dtype : kDtypes) dtypes.emplace_back(name_of(dtype));
  std::vector<std::string> profiles;
  for (const Profile& profile : kProfiles) profiles.emplace_back(name_of(profile.id));
  command
      .add_option("-n,--ranks", options.ranks,
                  fmt::format("processes to start, default {}; under a launcher it must agree", kDefaultRanks))
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("R");
  command.add_option("--cores", options.cores, "cores of a rank, default SHMOE_CORES")
      ->check(CLI::Range(1, static_cast<int>(shmem::kMaxCores)).description(""))
      ->type_name("C");
  command.add_option("--dtype", options.dtype, "bf16, fp16 or fp32; default bf16")
      ->check(CLI::IsMember(dtypes).description(""))
      ->type_name("TYPE");
  command
      .add_option("--quant", options.quant,
                  "none, or int8: rows are sent as int8 with a scale, and experts open them; default none")
      ->check(CLI::IsMember({name_of(ops::Quant::none), name_of(ops::Quant::int8)}).description(""))
      ->type_name("HOW");
  command.add_option("--hidden", options.plan.shape.hidden, "columns of a row, default 2048")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("H");
  command.add_option("--steps", options.plan.steps, "measured steps, default 20")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N");
  command.add_option("--warmup", options.plan.warmup, "steps before them, checked but not measured; default 2")
      ->check(CLI::Range(0, 1'000'000).description(""))
      ->type_name("N");
  command
      .add_option("--profile", options.profile,
                  fmt::format("protocol: {}; default SHMOE_PROFILE", fmt::join(profiles, ", ")))
      ->check(CLI::IsMember(profiles).description(""))
      ->type_name("NAME");
  command
      .add_option("--faults", options.faults,
                  "faults to inject, one a line, instead of those of SHMOE_FAULTS; apps/11_faults/README.md tells how\n"
                  "they are written")
      ->type_name("FILE");
  command
      .add_option("--links", options.links,
                  "how fast links are, for puts, instead of those of SHMOE_LINKS; shmoe choose --help tells how they\n"
                  "are written")
      ->type_name("FILE");
  command
      .add_option(
          "--json", options.json,
          "the report as JSON, to a file; without a file to standard output, instead of the table. Of a proven\n"
          "deadlock it is the verdict, unless SHMOE_VERDICT says where that goes")
      ->expected(0, 1)
      ->default_str("-")
      ->type_name("[FILE]");
}

}  // namespace

void add_moe(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<MoeOptions>();
  CLI::App* command = app.add_subcommand("moe", kDescription);
  command->footer("\nSettings from the environment: `shmoe info` shows them with their values.");
  add_mode_options(*command, *options);
  add_job_options(*command, *options);
  add_routing_options(*command, options->plan);
  command->callback([options, command, &invocation] {
    if (command->count("--json") > 0 && (!options->json || options->json->empty())) options->json = "-";
    options->plan.shape.seed = options->plan.routing.seed;
    options->plan.shape.dtype = dtype_named(options->dtype);
    options->plan.mode = *std::ranges::find_if(kMoeModes, [&](MoeMode mode) { return options->mode == name_of(mode); });
    options->plan.shape.quant = options->quant == name_of(ops::Quant::int8) ? ops::Quant::int8 : ops::Quant::none;
    invocation.exit_code = moe(*options, invocation);
  });
}

}  // namespace shmoe::apps
