#include "ops/afd/assignment.hpp"

namespace shmoe::ops {

Result<Assignment> Assignment::of(std::int32_t experts, std::int32_t attention) {
  if (experts < 1 || attention < 1) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("{} expert ranks and {} attention ranks: there must be one of each at least",
                                        experts, attention)};
  }
  return Assignment{experts, attention};
}

}  // namespace shmoe::ops
