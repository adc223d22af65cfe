// The benchmarks behind `shmoe bench`. A program of its own, so that `shmoe` stays free of MPI and its ranks start fast.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include <sys/prctl.h>

#include "apps/bench/commands.hpp"
#include "apps/bench/help.hpp"
#include "apps/bench/ll_bench.hpp"
#include "apps/shmoe/command.hpp"
#include "runtime/telling.hpp"

namespace shmoe::apps {
namespace {

constexpr std::array kDtypes{DType::bf16, DType::fp16, DType::fp32};

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

void add_count(CLI::App& command, const char* name, std::int64_t& value, const std::string& meaning) {
  command.add_option(name, value, meaning)->check(CLI::Range(1, 1'000'000).description(""))->type_name("N");
}

void add_dtype(CLI::App& command, BenchOptions& options) {
  std::vector<std::string> dtypes;
  for (const DType dtype : kDtypes) dtypes.emplace_back(name_of(dtype));
  command.add_option("--dtype", options.dtype, "bf16, fp16 or fp32; default bf16")
      ->check(CLI::IsMember(dtypes).description(""))
      ->type_name("TYPE");
}

void add_seed(CLI::App& command, std::uint64_t& seed, const char* meaning) {
  command.add_option("--seed", seed, meaning)
      ->check(within<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S");
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
  add_dtype(command, options);
  add_seed(command, shape.seed, "of the routing and the tokens, default 1");
  add_count(command, "--blocks", options.ep.blocks,
            fmt::format("measured calls of each kind, default {}", defaults.blocks));
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
  command.add_option("--tokens", plan.tokens, "tokens of an attention rank, default 128")
      ->check(CLI::Range(0, 1 << 16).description(""))
      ->type_name("T");
  command.add_option("--hidden", plan.hidden, "columns of a row, default 7168")
      ->check(CLI::Range(1, 1 << 15).description(""))
      ->type_name("H");
  command.add_option("--topk", plan.topk, "experts of a token, default 8")
      ->check(CLI::Range(1, 64).description(""))
      ->type_name("K");
  add_dtype(command, options);
  command.add_option("--expert-ranks", plan.expert_ranks, "ranks with experts, default half")
      ->check(CLI::Range(1, 4095).description(""))
      ->type_name("E");
  add_seed(command, plan.seed, "of the tokens and answers, default 1");
  add_count(command, "--blocks", plan.blocks, "measured calls of each kind, default 40");
  add_cores(command, options);
  add_json(command, options);
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
    const std::string name = "shmoe bench " + chosen.front()->get_name();
    return fmt::format("{}: {}; see {} --help", name, one_line(error.what()), name);
  }

  CLI::App app_{"", "shmoe bench"};
  BenchOptions options_;
  std::vector<Command> commands_;
};

}  // namespace
}  // namespace shmoe::apps

int main(int argc, char** argv) {
  return shmoe::apps::run_program("shmoe bench", [&] { return shmoe::apps::CommandLine{}.run(argc, argv); });
}
