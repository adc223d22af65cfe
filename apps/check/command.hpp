#pragma once
// The command that checks programs: `shmoe check`, and the same for a program that brings protocols of its own.
//
//   int main(int argc, char** argv) { return shmoe::apps::check_main(argc, argv, "my_protocols", my_programs()); }

#include <string>

#include <CLI/CLI.hpp>

#include "apps/check/registry.hpp"

namespace shmoe::apps {

inline constexpr int kExitUsage = 2;

/// How the command is called, and where its exit code goes.
struct CheckCommand {
  std::string name = "shmoe check";
  int* exit_code;
};

/// Gives `app` the commands list, run, replay, shrink and explain. The programs are copied.
void add_check_command(CLI::App& app, Programs programs, const CheckCommand& command);

/// The main function of a program that does nothing else. Returns the exit code.
int check_main(int argc, char** argv, const std::string& name, Programs programs);

}  // namespace shmoe::apps
