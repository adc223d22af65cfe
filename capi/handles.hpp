#pragma once
// What the handles of C stand for. A world lives until its last handle is destroyed; one that shmoe_run_as_threads has made
// ends with its body, and whatever was made of it is refused from then on.

#include <memory>

#include "capi/call.hpp"
#include "ops/ep/expert_map.hpp"
#include "runtime/world.hpp"

namespace shmoe::capi {

struct Hold {
  std::unique_ptr<runtime::World> own;  // nothing where the world is that of a thread
  runtime::World* world = nullptr;      // nothing once it has ended
};

/// A communicator as a handle has it.
class Held {
 public:
  Held(std::shared_ptr<Hold> hold, runtime::Communicator& comm) : hold_(std::move(hold)), comm_(&comm) {}

  [[nodiscard]] bool ended() const { return hold_->world == nullptr; }
  [[nodiscard]] runtime::Communicator& comm() const {
    if (ended()) refuse("its world has ended with the body of shmoe_run_as_threads");
    return *comm_;
  }

 private:
  std::shared_ptr<Hold> hold_;
  runtime::Communicator* comm_;
};

/// Refuses a number of experts whose tables could not be held.
void check_experts(std::int32_t experts);

/// [E] owners of a caller.
/// Errors:  invalid_argument: an owner that is no rank
ops::ExpertMap owned_by(const std::int32_t* owners, std::int32_t experts, std::int32_t ranks);

}  // namespace shmoe::capi

struct shmoe_world {
  std::shared_ptr<shmoe::capi::Hold> hold;
};

struct shmoe_communicator {
  shmoe::capi::Held held;
};
