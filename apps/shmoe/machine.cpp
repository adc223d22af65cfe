#include "apps/shmoe/machine.hpp"

#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/machine.hpp"
#include "shmem/huge_pages.hpp"

namespace shmoe::apps {
namespace {

/// What stands behind "name:" or "name\t:" in a file of such lines.
std::string value_in(const char* path, std::string_view name) {
  std::ifstream in{path};
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && first != std::string::npos) return line.substr(first);
  }
  return {};
}

std::int64_t number_in(const char* path, std::string_view name) {
  return std::strtoll(value_in(path, name).c_str(), nullptr, 10);
}

}  // namespace

std::string shm_huge_pages() {
  const std::optional<std::string> refused = shmem::why_no_huge_pages();
  return refused ? "no: " + *refused : "yes";
}

Machine look_at_machine() {
  Machine machine;
  utsname name{};
  if (::uname(&name) == 0) machine.kernel = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  machine.cpu_model = value_in("/proc/cpuinfo", "model name");
  machine.cpus_online = static_cast<std::int32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  machine.cpus_allowed = runtime::cpus_by_affinity();
  machine.cpus_by_quota = runtime::cpus_by_quota();
  machine.memory = Bytes{number_in("/proc/meminfo", "MemTotal") * 1024};
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    machine.shm_total = Bytes{shm.f_blocks * shm.f_frsize};
    machine.shm_free = Bytes{shm.f_bavail * shm.f_frsize};
  }
  machine.huge_pages_free = number_in("/proc/meminfo", "HugePages_Free");
  machine.huge_pages_total = number_in("/proc/meminfo", "HugePages_Total");
  machine.shm_huge_pages = shm_huge_pages();
  return machine;
}

nlohmann::ordered_json to_json(const Machine& machine) {
  nlohmann::ordered_json json;
  json["kernel"] = machine.kernel;
  json["cpu_model"] = machine.cpu_model;
  json["cpus_online"] = machine.cpus_online;
  json["cpus_allowed"] = machine.cpus_allowed;
  json["cpus_by_quota"] = nullptr;
  if (machine.cpus_by_quota) json["cpus_by_quota"] = *machine.cpus_by_quota;
  json["memory_bytes"] = machine.memory.value();
  json["shm_total_bytes"] = machine.shm_total.value();
  json["shm_free_bytes"] = machine.shm_free.value();
  json["huge_pages_free"] = machine.huge_pages_free;
  json["huge_pages_total"] = machine.huge_pages_total;
  json["shm_huge_pages"] = machine.shm_huge_pages;
  return json;
}

std::string to_text(const Machine& machine) {
  const std::string quota = machine.cpus_by_quota ? fmt::format("{:.2f} by cgroup quota", *machine.cpus_by_quota)
                                                  : std::string{"no cgroup quota"};
  std::string text;
  text += fmt::format("kernel       {}\n", machine.kernel);
  text += fmt::format("cpu          {}\n", machine.cpu_model);
  text += fmt::format("cpus         {} online, {} by affinity, {}\n", machine.cpus_online, machine.cpus_allowed, quota);
  text += fmt::format("memory       {}\n", human(machine.memory));
  text += fmt::format("/dev/shm     {} free of {}\n", human(machine.shm_free), human(machine.shm_total));
  text += fmt::format("huge pages   {}; reserved ones, which are not used: {} free of {}\n", machine.shm_huge_pages,
                      machine.huge_pages_free, machine.huge_pages_total);
  return text;
}

std::string human(Bytes size) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::uint64_t scale = 1;
  while (unit + 1 < std::size(kUnits) && size.value() / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  if (size.value() % scale == 0) return fmt::format("{} {}", size.value() / scale, kUnits[unit]);
  return fmt::format("{:.1f} {}", static_cast<double>(size.value()) / static_cast<double>(scale), kUnits[unit]);
}

}  // namespace shmoe::apps
