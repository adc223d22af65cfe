#include "apps/check/usage_fault.hpp"

#include <vector>

#include <fmt/format.h>

#include "apps/check/nearest_name.hpp"

namespace shmoe::apps {
namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// "need is required: all-to-all or dispatch"
std::string missing_option(const CLI::App& app, std::string fault) {
  for (const CLI::Option* option : app.get_options()) {
    if (fault == option->get_name() + " is required") return fmt::format("{}: {}", fault, option->get_description());
  }
  return fault;
}

/// "--ranks: R is missing" for the parser's "--ranks: 1 required R missing"
std::string missing_value(std::string fault) {
  constexpr std::string_view kOne = ": 1 required ";
  constexpr std::string_view kMissing = " missing";
  const auto at = fault.find(kOne);
  if (at == fault.npos || !fault.ends_with(kMissing)) return fault;
  fault.insert(fault.size() - kMissing.size(), " is");
  return fault.replace(at, kOne.size(), ": ");
}

}  // namespace

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const auto nearest = nearest_name(commands_of(app), word);
  return fmt::format("there is no command '{}'{}", word, nearest ? fmt::format("; did you mean {}?", *nearest) : "");
}

std::string usage_fault(const CLI::App& understood, const CLI::ParseError& error) {
  const std::vector<std::string> rest = understood.remaining();
  const std::vector<std::string> commands = commands_of(understood);
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (commands.empty()) return missing ? missing_option(understood, error.what()) : missing_value(error.what());
  if (!rest.empty() && !rest.front().starts_with("-")) return unknown_command(understood, rest.front());
  return missing ? fmt::format("a command is missing, one of: {}", fmt::join(commands, ", ")) : error.what();
}

}  // namespace shmoe::apps
