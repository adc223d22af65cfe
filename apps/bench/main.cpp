// The benchmarks behind `shmoe bench`. A program of its own, so that `shmoe` stays free of MPI and its ranks start fast.

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>

#include <fmt/ranges.h>
#include <sys/prctl.h>

#include "apps/bench/afd_bench.hpp"
#include "apps/bench/barrier_bench.hpp"
#include "apps/bench/collectives_bench.hpp"
#include "apps/bench/diagnose_bench.hpp"
#include "apps/bench/ep_bench.hpp"
#include "apps/bench/heap_bench.hpp"
#include "apps/bench/help.hpp"
#include "apps/bench/ll_bench.hpp"
#include "apps/bench/start_bench.hpp"
#include "apps/shmoe/command.hpp"
#include "apps/standard_streams.hpp"
#include "ops/low_latency/region.hpp"
#include "runtime/telling.hpp"

namespace shmoe::apps {
namespace {

constexpr std::array kDtypes{DType::bf16, DType::fp16, DType::fp32};

/// What the parser fills in.
struct BenchOptions {
  EpPlan ep;
  std::string dtype = "bf16";
  std::int32_t against = 8;
  bool small_pages = false;
  AfdPlan afd;
  std::int64_t compute_us = 0;
  BarrierPlan barrier;
  CollectivesPlan collectives;
  StartPlan start;
  DiagnosePlan diagnose;
  std::optional<std::int32_t> cores;
  JsonTarget json;
};

std::string ep_words(const BenchOptions& options) {
  const EpShape& shape = options.ep.shape;
  return fmt::format("--tokens {} --hidden {} --topk {} --experts {} --dtype {} --seed {} --blocks {}{}{}",
                     shape.tokens, shape.hidden, shape.topk, shape.experts, options.dtype, shape.seed,
                     options.ep.blocks, options.ep.cold ? " --cold" : "", options.small_pages ? " --small-pages" : "",
                     options.cores ? fmt::format(" --cores {}", *options.cores) : "");
}

/// Before any rank meets another: all of them find the same.
int refuse(const std::string& name, const Error& error) {
  runtime::tell_alike([&] { bench_failed(name, error); });
  return 1;
}

Result<void> check_shape(const EpShape& shape) {
  if (shape.topk <= shape.experts) return {};
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("top {} of {} experts: give a smaller --topk or more --experts", shape.topk,
                                      shape.experts)};
}

/// A benchmark of rows at the shape of the options.
int run_rows(const std::string& name, const BenchOptions& options,
             Result<BenchReport> (*body)(BenchPlace&, const EpPlan&)) {
  if (auto right = check_shape(options.ep.shape); !right) return refuse(name, right.error());
  return run_bench_job({.name = name,
                        .options = ep_words(options),
                        .cores = options.cores,
                        .json = options.json,
                        .body = [&](BenchPlace& place) { return body(place, options.ep); }});
}

int run_ep(const BenchOptions& options) { return run_rows("shmoe bench ep", options, bench_ep); }

int run_notes(const BenchOptions& options) { return run_rows("shmoe bench notes", options, bench_notes); }

std::string own_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

int run_inspection(const BenchOptions& options) {
  return run_rows("shmoe bench inspection", options,
                  [](BenchPlace& place, const EpPlan& plan) { return bench_inspection(place, plan, own_folder()); });
}

int run_int8(const BenchOptions& options) { return run_rows("shmoe bench int8", options, bench_int8); }

int run_topk(const BenchOptions& options) {
  const BenchJob job{.name = "shmoe bench topk",
                     .options = fmt::format("{} --against {}", ep_words(options), options.against),
                     .cores = options.cores,
                     .json = options.json,
                     .body = [&](BenchPlace& place) { return bench_topk(place, options.ep, options.against); }};
  if (options.against == options.ep.shape.topk) {
    return refuse(job.name, {.code = Errc::invalid_argument, .context = "--against is --topk: nothing to compare"});
  }
  EpShape other = options.ep.shape;
  other.topk = options.against;
  for (const EpShape& shape : {options.ep.shape, other}) {
    if (auto right = check_shape(shape); !right) return refuse(job.name, right.error());
  }
  return run_bench_job(job);
}

int run_ll(const BenchOptions& options) {
  const std::string name = "shmoe bench ll";
  if (auto right = check_shape(options.ep.shape); !right) return refuse(name, right.error());
  const LlPlan plan{.shape = options.ep.shape, .blocks = options.ep.blocks, .compute_us = options.compute_us};
  return run_bench_job({.name = name,
                        .options = fmt::format("{} --compute {}", ep_words(options), plan.compute_us),
                        .cores = options.cores,
                        .json = options.json,
                        .body = [&](BenchPlace& place) { return bench_ll(place, plan); },
                        .declare_slots = ops::declare_low_latency});
}

int run_afd(const BenchOptions& options) {
  const AfdPlan& plan = options.afd;
  return run_bench_job(
      {.name = "shmoe bench afd",
       .options = fmt::format("--tokens {} --hidden {} --topk {} --dtype {} --seed {} --blocks {}{}{}", plan.tokens,
                              plan.hidden, plan.topk, options.dtype, plan.seed, plan.blocks,
                              plan.expert_ranks ? fmt::format(" --expert-ranks {}", *plan.expert_ranks) : "",
                              options.cores ? fmt::format(" --cores {}", *options.cores) : ""),
       .cores = options.cores,
       .json = options.json,
       .body = [&](BenchPlace& place) { return bench_afd(place, plan); },
       .declare_slots = declare_afd_bench});
}

int run_barrier(const BenchOptions& options) {
  return run_bench_job(
      {.name = "shmoe bench barrier",
       .options = fmt::format("--rounds {} --blocks {}{}", options.barrier.rounds, options.barrier.blocks,
                              options.cores ? fmt::format(" --cores {}", *options.cores) : ""),
       .cores = options.cores,
       .json = options.json,
       .body = [&](BenchPlace& place) { return bench_barrier(place, options.barrier); }});
}

int run_collectives(const BenchOptions& options) {
  const CollectivesPlan& plan = options.collectives;
  return run_bench_job({.name = "shmoe bench collectives",
                        .options = fmt::format("--blocks {} --most-kib {}{}", plan.blocks, plan.most_kib,
                                               options.cores ? fmt::format(" --cores {}", *options.cores) : ""),
                        .cores = options.cores,
                        .json = options.json,
                        .body = [&](BenchPlace& place) { return bench_collectives(place, plan); }});
}

/// A benchmark that is no rank of a job.
/// Errors:  invalid_argument where a launcher has started it
Result<void> check_alone(const char* instead) {
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return launch.error();
  if (launch->launcher == "none") return {};
  return Error{
      .code = Errc::invalid_argument,
      .context = fmt::format("it {}, but this one was started by {}: run it alone", instead, launch->launcher)};
}

int run_heap(const BenchOptions& options) {
  const std::string name = "shmoe bench heap";
  if (auto alone = check_alone("is one process"); !alone) return refuse(name, alone.error());
  if (auto writable = check_writable(options.json); !writable) return bench_failed(name, writable.error());
  const HeapFigures heap = measure_heap();
  BenchReport report;
  report.rows = {
      {.name = "heap.alloc", .ranks = 1, .ours_us = heap.alloc_us, .verified = heap.sound},
      {.name = "heap.free", .ranks = 1, .ours_us = heap.free_us, .verified = heap.sound},
      {.name = "heap.utilisation", .ranks = 1, .value = heap.utilisation_after, .verified = heap.sound},
      {.name = "heap.utilisation.mixed", .ranks = 1, .value = heap.utilisation_mixed, .verified = heap.sound}};
  report.text = fmt::format(
      "alloc {:.3f} us, free {:.3f} us at 10 000 live blocks\n"
      "utilisation {:.2f} % with the blocks of the mixed scenario, {:.2f} % at its end\n",
      heap.alloc_us, heap.free_us, 100 * heap.utilisation_mixed, 100 * heap.utilisation_after);
  const auto written = write_report(report, name, options.json);
  return written ? 0 : bench_failed(name, written.error());
}

/// A benchmark that starts its jobs itself, from programs beside this one.
template <class Plan>
int run_jobs(const std::string& name, const std::string& words, const BenchOptions& options, const Plan& plan,
             Result<BenchReport> (*body)(const Plan&, const std::string& folder)) {
  if (auto alone = check_alone("starts the ranks itself"); !alone) return refuse(name, alone.error());
  if (auto writable = check_writable(options.json); !writable) return bench_failed(name, writable.error());
  const auto report = body(plan, own_folder());
  if (!report) return bench_failed(name, report.error());
  const auto written = write_report(*report, fmt::format("{} {}", name, words), options.json);
  return written ? 0 : bench_failed(name, written.error());
}

int run_start(const BenchOptions& options) {
  const StartPlan& plan = options.start;
  return run_jobs("shmoe bench start", fmt::format("--ranks {} --repeats {}", plan.ranks, plan.repeats), options, plan,
                  bench_start);
}

int run_diagnose(const BenchOptions& options) {
  const DiagnosePlan& plan = options.diagnose;
  return run_jobs("shmoe bench diagnose",
                  fmt::format("--ranks {} --cores {} --repeats {}", plan.ranks, plan.cores, plan.repeats), options,
                  plan, bench_diagnose);
}

void add_json(CLI::App& command, BenchOptions& options) {
  command
      .add_option(
          "--json", options.json,
          "the rows as JSON, to a file; without a file to standard output, instead of the table; under shmoe run "
          "with --no-prefix")
      ->expected(0, 1)
      ->default_str("-")
      ->type_name("[FILE]");
}

void add_cores(CLI::App& command, BenchOptions& options) {
  command.add_option("--cores", options.cores, "cores of a rank, default SHMOE_CORES; MPI uses one a rank")
      ->check(CLI::Range(1, static_cast<int>(shmem::kMaxCores)).description(""))
      ->type_name("C");
}

/// Of one benchmark.
struct RowDefaults {
  std::int64_t tokens = EpShape{}.tokens;
  std::int32_t topk = EpShape{}.topk;
  std::int64_t blocks = EpPlan{}.blocks;
};
constexpr std::int64_t kFewTokens = 1;
constexpr std::int32_t kComparedTopk = 9;

void add_rows(CLI::App& command, BenchOptions& options, const RowDefaults& defaults) {
  EpShape& shape = options.ep.shape;
  std::vector<std::string> dtypes;
  for (const DType dtype : kDtypes) dtypes.emplace_back(name_of(dtype));
  command.add_option("--tokens", shape.tokens, fmt::format("tokens of a rank, default {}", defaults.tokens))
      ->check(CLI::Range(0, 1 << 20).description(""))
      ->type_name("T");
  command.add_option("--hidden", shape.hidden, "columns of a row, default 7168")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("H");
  command.add_option("--topk", shape.topk, fmt::format("experts of a token, default {}", defaults.topk))
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("K");
  command.add_option("--experts", shape.experts, "experts of all ranks, default 256")
      ->check(CLI::Range(1, 1 << 16).description(""))
      ->type_name("E");
  command.add_option("--dtype", options.dtype, "bf16, fp16 or fp32; default bf16")
      ->check(CLI::IsMember(dtypes).description(""))
      ->type_name("TYPE");
  command.add_option("--seed", shape.seed, "of the routing and the tokens, default 1")
      ->check(within<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S");
  command
      .add_option("--blocks", options.ep.blocks,
                  fmt::format("measured calls of each kind, default {}", defaults.blocks))
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N");
  add_cores(command, options);
  add_json(command, options);
}

void add_shape(CLI::App& command, BenchOptions& options, const RowDefaults& defaults = {}) {
  add_rows(command, options, defaults);
  command.add_flag("--cold", options.ep.cold, "sweep the caches before each call");
  command.add_flag("--small-pages", options.small_pages, "keep all rows off huge pages, ours too");
}

void add_afd(CLI::App& command, BenchOptions& options) {
  AfdPlan& plan = options.afd;
  std::vector<std::string> dtypes;
  for (const DType dtype : kDtypes) dtypes.emplace_back(name_of(dtype));
  command.add_option("--tokens", plan.tokens, "tokens of an attention rank, default 128")
      ->check(CLI::Range(0, 1 << 16).description(""))
      ->type_name("T");
  command.add_option("--hidden", plan.hidden, "columns of a row, default 7168")
      ->check(CLI::Range(1, 1 << 15).description(""))
      ->type_name("H");
  command.add_option("--topk", plan.topk, "experts of a token, default 8")
      ->check(CLI::Range(1, 64).description(""))
      ->type_name("K");
  command.add_option("--dtype", options.dtype, "bf16, fp16 or fp32; default bf16")
      ->check(CLI::IsMember(dtypes).description(""))
      ->type_name("TYPE");
  command.add_option("--expert-ranks", plan.expert_ranks, "ranks with experts, default half")
      ->check(CLI::Range(1, 4095).description(""))
      ->type_name("E");
  command.add_option("--seed", plan.seed, "of the tokens and answers, default 1")
      ->check(within<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S");
  command.add_option("--blocks", plan.blocks, "measured calls of each kind, default 40")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N");
  add_cores(command, options);
  add_json(command, options);
}

void add_count(CLI::App& command, const char* name, std::int64_t& value, const char* meaning) {
  command.add_option(name, value, meaning)->check(CLI::Range(1, 1'000'000).description(""))->type_name("N");
}

using Body = int (*)(const BenchOptions&);

struct Command {
  CLI::App* app;
  Body body;
};

class CommandLine {
 public:
  CommandLine() {
    add("ep", kEpHelp, run_ep, [&](CLI::App& app) { add_shape(app, options_); });
    add("topk", kTopkHelp, run_topk, [&](CLI::App& app) {
      add_shape(app, options_, {.topk = kComparedTopk});
      app.add_option("--against", options_.against, "the other top k, default 8")
          ->check(CLI::Range(1, 4096).description(""))
          ->type_name("K");
    });
    add("int8", kInt8Help, run_int8, [&](CLI::App& app) { add_shape(app, options_); });
    add("notes", kNotesHelp, run_notes, [&](CLI::App& app) { add_shape(app, options_); });
    add("inspection", kInspectionHelp, run_inspection, [&](CLI::App& app) { add_shape(app, options_); });
    add("ll", kLlHelp, run_ll, [&](CLI::App& app) {
      add_rows(app, options_, {.tokens = kFewTokens, .blocks = LlPlan{}.blocks});
      app.add_option("--compute", options_.compute_us, "microseconds of computing before each call, default 0")
          ->check(CLI::Range(0, 1'000'000).description(""))
          ->type_name("US");
    });
    add("afd", kAfdHelp, run_afd, [&](CLI::App& app) { add_afd(app, options_); });
    add("barrier", kBarrierHelp, run_barrier, [&](CLI::App& app) {
      add_count(app, "--rounds", options_.barrier.rounds, "rounds of a block, default 1000");
      add_count(app, "--blocks", options_.barrier.blocks, "blocks, default 20");
      add_cores(app, options_);
      add_json(app, options_);
    });
    add("collectives", kCollectivesHelp, run_collectives, [&](CLI::App& app) {
      add_count(app, "--blocks", options_.collectives.blocks, "blocks, default 20");
      add_count(app, "--most-kib", options_.collectives.most_kib, "KiB of a pair, at most; default 16384");
      add_cores(app, options_);
      add_json(app, options_);
    });
    add("start", kStartHelp, run_start, [&](CLI::App& app) {
      app.add_option("-n,--ranks", options_.start.ranks, "ranks, default 8")
          ->check(CLI::Range(1, 4096).description(""))
          ->type_name("R");
      add_count(app, "--repeats", options_.start.repeats, "starts, default 11");
      add_json(app, options_);
    });
    add("diagnose", kDiagnoseHelp, run_diagnose, [&](CLI::App& app) {
      app.add_option("-n,--ranks", options_.diagnose.ranks, "ranks, default 8")
          ->check(CLI::Range(2, 4096).description(""))
          ->type_name("R");
      app.add_option("--cores", options_.diagnose.cores, "cores of a rank, default 4")
          ->check(CLI::Range(1, static_cast<int>(shmem::kMaxCores)).description(""))
          ->type_name("C");
      add_count(app, "--repeats", options_.diagnose.repeats, "jobs, default 21");
      add_json(app, options_);
    });
    add("heap", kHeapHelp, run_heap, [&](CLI::App& app) { add_json(app, options_); });
    app_.require_subcommand(1);
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& asked) {
      return app_.exit(asked);
    } catch (const CLI::ParseError& error) {
      runtime::tell_alike([&] { say("{}", fault_of(error, argc, argv)); });
      return 1;
    }
    const auto chosen = std::ranges::find_if(commands_, [](const Command& command) { return command.app->parsed(); });
    finish_options(*chosen->app);
    for (const char* setting : {"SHMOE_LINKS", "SHMOE_FAULTS"}) {
      const char* value = std::getenv(setting);
      if (value == nullptr || *value == '\0') continue;
      runtime::tell_alike([&] {
        say("shmoe bench: {} holds our side back and not MPI beside it, so no ratio would mean anything: unset it",
            setting);
      });
      return 1;
    }
    return chosen->body(options_);
  }

 private:
  template <class AddOptions>
  void add(const char* name, const char* help, Body body, const AddOptions& add_options) {
    CLI::App* command = app_.add_subcommand(name, help);
    add_options(*command);
    commands_.push_back({command, body});
  }

  void finish_options(const CLI::App& chosen) {
    if (chosen.count("--json") > 0 && (!options_.json || options_.json->empty())) options_.json = "-";
    options_.ep.shape.dtype =
        *std::ranges::find_if(kDtypes, [&](DType dtype) { return options_.dtype == name_of(dtype); });
    options_.afd.dtype = options_.ep.shape.dtype;
    if (options_.small_pages) ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (chosen.get_name() == "ll") {
      if (chosen.count("--tokens") == 0) options_.ep.shape.tokens = kFewTokens;
      if (chosen.count("--blocks") == 0) options_.ep.blocks = LlPlan{}.blocks;
    }
    const bool compares = chosen.get_name() == "topk";
    if (compares && chosen.count("--topk") == 0) options_.ep.shape.topk = kComparedTopk;
  }

  [[nodiscard]] std::string fault_of(const CLI::ParseError& error, int argc, char** argv) const {
    const auto chosen = app_.get_subcommands();
    if (chosen.empty()) {
      const std::string what = argc > 1 ? fmt::format("there is no benchmark '{}'", argv[1]) : "which benchmark?";
      return fmt::format("shmoe bench: {}; see shmoe bench --help", what);
    }
    std::string text = error.what();
    std::ranges::replace(text, '\n', ' ');
    if (const auto at = text.find(": At Most 1 required"); at != std::string::npos)
      text.replace(at, text.npos, " given twice");
    const std::string name = "shmoe bench " + chosen.front()->get_name();
    return fmt::format("{}: {}; see {} --help", name, text, name);
  }

  CLI::App app_{"", "shmoe bench"};
  BenchOptions options_;
  std::vector<Command> commands_;
};

int run_command_line(int argc, char** argv) {
  const int code = CommandLine{}.run(argc, argv);
  if (standard_output_is_written()) return code;
  say("shmoe bench: standard output cannot be written: the report is lost");
  return code == 0 ? 1 : code;
}

}  // namespace
}  // namespace shmoe::apps

int main(int argc, char** argv) {
  shmoe::apps::hold_standard_streams();
  try {
    return shmoe::apps::run_command_line(argc, argv);
  } catch (const shmoe::ContractViolation& violation) {
    shmoe::apps::say("shmoe bench: {}", violation.what());
    return shmoe::kExitContract;
  } catch (const std::exception& error) {
    shmoe::apps::say("shmoe bench: {}", error.what());
    return 1;
  }
}
