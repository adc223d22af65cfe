#include "shmem/result.hpp"

#include <system_error>

namespace shmoe {

std::string to_string(const Error& error) {
  std::string text = fmt::format("{}: {}", name_of(error.code), error.context);
  if (error.sys != 0) text += fmt::format(" ({})", std::generic_category().message(error.sys));
  return text;
}

void contract_violated(const char* condition, SourceSite site, std::string message) {
  const std::string which = *condition == '\0' ? "" : fmt::format(" [{}]", condition);
  throw ContractViolation(fmt::format("contract violated: {}{} at {}:{}", message, which, site.file, site.line));
}

}  // namespace shmoe
