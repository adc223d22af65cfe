// shmoe bench: hands over to the program beside this one that has the benchmarks and MPI.

#include <cerrno>
#include <filesystem>

#include <unistd.h>

#include "apps/shmoe/command.hpp"
#include "runtime/telling.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Measures dispatch and combine, barriers, the heap and the start of a job, and verifies what it measures.\n\n"
    "  mpirun -np 2 shmoe bench ep          dispatch and combine, beside MPI and beside the limits of the machine\n"
    "  mpirun -np 2 shmoe bench ll          the same for few tokens: median and 99th percentile, beside MPI\n"
    "  mpirun -np 2 shmoe bench topk        what a row costs at top 9 against top 8\n"
    "  mpirun -np 2 shmoe bench int8        what int8 rows save in dispatch\n"
    "  mpirun -np 2 shmoe bench afd         a2e and e2a, beside sends and receives of MPI\n"
    "  mpirun -np 2 shmoe bench barrier     a round of the barrier, beside MPI_Barrier\n"
    "  mpirun -np 2 shmoe bench collectives all-to-all and reduce-scatter, beside MPI\n"
    "  mpirun -np 2 shmoe bench notes       what records, ledger and events cost dispatch and combine\n"
    "  mpirun -np 2 shmoe bench inspection  what it costs them to be looked at\n"
    "  shmoe bench diagnose                 from a deadlock to its printed proof, 8 ranks of 4 cores\n"
    "  shmoe bench start                    from exec to the end of the first operator, 8 ranks\n"
    "  shmoe bench heap                     what the symmetric heap costs and how full it gets\n"
    "  shmoe bench ep --help                more about one of them\n\n"
    "Under `shmoe run` instead of mpirun ours is measured alone. Figures are medians over many blocks of one job, in\n"
    "which all contenders take turns; only their ratios mean something on a machine that is not quiet. More ranks "
    "than\n"
    "CPUs need `mpirun --oversubscribe`. Exit code: 0 measured and verified; 1 a wrong result or an error.\n\n"
    "The benchmarks are the program shmoe-bench beside shmoe, built where Open MPI's headers are (libopenmpi-dev).";

/// Only comes back where it could not.
int hand_over(const std::vector<std::string>& words) {
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path() / "shmoe-bench";
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  const int why = errno;
  const Error unknown{.code = Errc::system, .context = "cannot find shmoe-bench beside this program: mount /proc"};
  const Error error{.code = Errc::not_found,
                    .context = fmt::format("cannot run {}: install libopenmpi-dev, then `scripts/build.sh release "
                                           "shmoe-bench shmoe-first-operator`",
                                           program.native()),
                    .sys = why};
  runtime::tell_alike([&] { failed("shmoe bench", unreadable ? unknown : error); });
  return 1;
}

}  // namespace

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("bench", kDescription);
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, &invocation] {
    std::vector<std::string> words = command->remaining();
    if (words.empty() || words.front() == "--help" || words.front() == "-h") {
      fmt::print(words.empty() ? stderr : stdout, "{}\n", kDescription);
      invocation.exit_code = words.empty() ? 1 : 0;
      return;
    }
    invocation.exit_code = hand_over(words);
  });
}

}  // namespace shmoe::apps
