#include <string>
#include <vector>

#include "bootstrap/launch.hpp"
#include "capi/handles.hpp"
#include "runtime/comm_args.hpp"

using namespace shmoe;
using namespace shmoe::capi;

struct CamCommunicator {
  shmoe_world* world;
  std::unique_ptr<runtime::CommArgs> args;
};

namespace {

/// Of "a.b.c.d:port", and room for one that is wrong: what it is then says the error.
constexpr std::uint32_t kMostAddress = 64;

enum Code : std::int32_t { kOk = 0, kWrongParameter = -3, kInternal = -4 };

Code code_of(shmoe_status status) {
  if (status == SHMOE_OK) return kOk;
  return status == SHMOE_INVALID_ARGUMENT ? kWrongParameter : kInternal;
}

shmoe_status create_world(std::uint32_t rank_size, std::uint32_t rank, const char* address, shmoe_world** world) {
  // The job keeps the name that a launcher has given it.
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  std::vector<std::string> texts{fmt::format("SHMOE_RANK={}", rank), fmt::format("SHMOE_SIZE={}", rank_size)};
  if (launch && launch->launcher != "none") texts.push_back(fmt::format("SHMOE_JOB={}", launch->job_id));
  std::vector<const char*> settings;
  for (const std::string& text : texts) settings.push_back(text.c_str());
  settings.push_back(nullptr);
  const shmoe_config config{.size = sizeof(shmoe_config), .settings = settings.data(), .comm_id = address, .uses = 0};
  return shmoe_world_create(&config, world);
}

}  // namespace

std::int32_t CamCreateComm(std::uint32_t rank_size, std::uint32_t rank, const char* server_ip_port,
                           std::uint32_t length, CamComm* comm) {
  std::string address;
  const shmoe_status checked = call("CamCreateComm", [&] {
    need(comm, "comm");
    if (rank_size < 1 || rank_size > runtime::CommArgs::kMaxRanks || rank >= rank_size) {
      refuse(
          fmt::format("rank {} of {}: 1 to {} ranks, counted from 0", rank, rank_size, runtime::CommArgs::kMaxRanks));
    }
    if (length > kMostAddress) refuse(fmt::format("length is {}: an address has {} at most", length, kMostAddress));
    if (length > 0) address.assign(&need(server_ip_port, "server_ip_port"), length);
  });
  if (checked != SHMOE_OK) return code_of(checked);
  shmoe_world* world = nullptr;
  if (create_world(rank_size, rank, address.empty() ? nullptr : address.c_str(), &world) != SHMOE_OK) return kInternal;
  const shmoe_status made = call("CamCreateComm", [&] {
    auto handle = std::make_unique<CamCommunicator>();
    handle->args = value_of(runtime::comm_args(world->hold->world->all()));
    handle->world = world;
    *comm = handle.release();
  });
  if (made != SHMOE_OK) shmoe_world_destroy(world);
  return made == SHMOE_OK ? kOk : kInternal;
}

std::int32_t CamGetCommArgs(CamComm comm, const std::uint16_t** data, std::int64_t* elements) {
  return code_of(call("CamGetCommArgs", [&] {
    const runtime::CommArgs& args = *need(comm, "comm").args;
    need(data, "data") = reinterpret_cast<const std::uint16_t*>(&args);
    need(elements, "elements") = (sizeof args + 1) / 2;
  }));
}

std::int32_t CamDestroyComm(CamComm comm) {
  return code_of(call("CamDestroyComm", [&] {
    const std::unique_ptr<CamCommunicator> owned(&need(comm, "comm"));
    if (shmoe_world_destroy(owned->world) != SHMOE_OK) throw Failure(last_error());
  }));
}
