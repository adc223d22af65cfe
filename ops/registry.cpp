#include "ops/registry.hpp"

namespace shmoe::ops {

runtime::Registry all_operators() {
  runtime::Registry registry;
  register_ep(registry);
  register_low_latency(registry);
  register_afd(registry);
  register_detour(registry);
  register_tile(registry);
  register_skeleton(registry);
  return registry;
}

}  // namespace shmoe::ops
