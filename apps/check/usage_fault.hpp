#pragma once
// What is wrong with a command line, in words for whoever typed it.

#include <string>

#include <CLI/CLI.hpp>

namespace shmoe::apps {

/// Of the last command that was understood.
std::string usage_fault(const CLI::App& understood, const CLI::ParseError& error);

/// "there is no command 'rum'; did you mean run?"
std::string unknown_command(const CLI::App& app, const std::string& word);

}  // namespace shmoe::apps
