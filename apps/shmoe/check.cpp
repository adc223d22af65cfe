// shmoe check: the checker, for the programs of this project.

#include "apps/check/command.hpp"
#include "apps/check/programs.hpp"
#include "apps/shmoe/command.hpp"

namespace shmoe::apps {

void add_check(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("check");
  add_check_command(*command, all_programs(), {.name = "shmoe check", .exit_code = &invocation.exit_code});
}

}  // namespace shmoe::apps
