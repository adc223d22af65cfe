#include "apps/shmoe/command.hpp"

#include "bootstrap/launch.hpp"

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

bool is_silent_rank() {
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  return launch && launch->rank != Rank{0};
}

}  // namespace shmoe::apps
