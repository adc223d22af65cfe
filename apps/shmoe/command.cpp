#include "apps/shmoe/command.hpp"

#include <algorithm>
#include <cctype>
#include <new>

#include "apps/standard_streams.hpp"

namespace shmoe::apps {

int exit_code_of(const Error& error) {
  switch (error.code) {
    case Errc::deadlock: return kExitDeadlock;
    case Errc::broken_contract: return kExitContract;
    default: return 1;
  }
}

int failed(std::string_view command, const Error& error) {
  say("{}: {}", command, to_string(error));
  return exit_code_of(error);
}

std::string one_line(std::string fault) {
  std::ranges::replace(fault, '\n', ' ');
  while (!fault.empty() && fault.back() == ' ') fault.pop_back();
  const auto is_capital = [&](std::size_t at) {
    return at < fault.size() && std::isupper(static_cast<unsigned char>(fault[at])) != 0;
  };
  if (is_capital(0) && !is_capital(1)) {
    fault.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(fault.front())));
  }
  if (const auto at = fault.find(": At Most 1 required"); at != std::string::npos) {
    fault.replace(at, fault.npos, " given twice");
  }
  return fault;
}

int run_program(std::string_view name, const std::function<int()>& body) {
  hold_standard_streams();
  try {
    const int code = body();
    if (standard_output_is_written()) return code;
    say("{}: standard output cannot be written: the report is lost", name);
    return code == 0 ? 1 : code;
  } catch (const ContractViolation& violation) {
    say("{}: {}", name, violation.what());
    return kExitContract;
  } catch (const std::bad_alloc&) {
    say("{}: out of memory: lower --tokens or --hidden, or raise `ulimit -v`", name);
    return 1;
  } catch (const std::exception& error) {
    say("{}: {}", name, error.what());
    return 1;
  }
}

}  // namespace shmoe::apps
