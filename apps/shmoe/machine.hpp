#pragma once
// What this machine is, as far as it decides how fast ranks can talk.

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "shmem/types.hpp"

namespace shmoe::apps {

struct Machine {
  std::string kernel;  // name, release, architecture
  std::string cpu_model;
  std::int32_t cpus_online = 0;
  std::int32_t cpus_allowed = 0;        // by affinity
  std::optional<double> cpus_by_quota;  // by cgroup; none: no quota
  Bytes memory{0};
  Bytes shm_total{0};
  Bytes shm_free{0};
  std::int64_t huge_pages_free = 0;
  std::int64_t huge_pages_total = 0;
  std::string shm_huge_pages;
};

/// Whether segments get huge pages: "yes", or "no: " and why.
std::string shm_huge_pages();

/// What cannot be found out stays zero or empty.
Machine look_at_machine();
nlohmann::ordered_json to_json(const Machine& machine);
std::string to_text(const Machine& machine);

/// "204 MiB", "100 KiB", "64 B": whole in the largest unit that is exact, else one decimal.
std::string human(Bytes size);

}  // namespace shmoe::apps
