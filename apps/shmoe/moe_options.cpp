#include "apps/shmoe/moe_options.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/ranges.h>

#include "apps/shmoe/command.hpp"
#include "ops/afd/window.hpp"
#include "ops/low_latency/region.hpp"

namespace shmoe::apps {
namespace {

constexpr std::array kDtypes{DType::bf16, DType::fp16, DType::fp32};

/// Of a name that the parser has let pass.
DType dtype_named(std::string_view name) {
  return *std::ranges::find_if(kDtypes, [name](DType dtype) { return name == name_of(dtype); });
}

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
}

void add_file_options(CLI::App& command, MoeOptions& options) {
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

void add_moe_options(CLI::App& command, MoeOptions& options) {
  add_mode_options(command, options);
  add_job_options(command, options);
  add_file_options(command, options);
  add_routing_options(command, options.plan);
}

void finish_moe_options(const CLI::App& command, MoeOptions& options) {
  if (command.count("--json") > 0 && (!options.json || options.json->empty())) options.json = "-";
  options.plan.shape.seed = options.plan.routing.seed;
  options.plan.shape.dtype = dtype_named(options.dtype);
  options.plan.mode = *std::ranges::find_if(kMoeModes, [&](MoeMode mode) { return options.mode == name_of(mode); });
  options.plan.shape.quant = options.quant == name_of(ops::Quant::int8) ? ops::Quant::int8 : ops::Quant::none;
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

}  // namespace shmoe::apps
