#include "apps/shmoe/command.hpp"

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

}  // namespace shmoe::apps
