#pragma once
// What a process holds, and whether that stays so while something is made and ended 1000 times.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

namespace shmoe::test {

inline constexpr int kTimes = 1000;
inline constexpr int kSettled = 10;  // libraries load, and pools grow, in the first ones

/// What a process holds.
struct Holdings {
  std::ptrdiff_t files = 0;
  std::ptrdiff_t maps = 0;
  std::ptrdiff_t threads = 0;
  std::ptrdiff_t objects = 0;  // in /dev/shm, of this job

  bool operator==(const Holdings&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Holdings& held) {
  return out << held.files << " files, " << held.maps << " maps, " << held.threads << " threads, " << held.objects
             << " objects";
}

inline std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

inline std::ptrdiff_t objects_of(const std::string& job) {
  std::ptrdiff_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with("shmoe." + job + ".") ? 1 : 0;
  return count;
}

inline Holdings holdings(const std::string& job) {
  std::ifstream maps("/proc/self/maps");
  const auto lines = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  return {.files = entries_of("/proc/self/fd"),
          .maps = lines,
          .threads = entries_of("/proc/self/task"),
          .objects = objects_of(job)};
}

/// The first time at which more or less is held than after the tenth, or nothing.
inline std::optional<std::string> first_change(const std::string& job, const std::function<void()>& once) {
  Holdings settled;
  for (int time = 1; time <= kTimes; ++time) {
    once();
    const Holdings now = holdings(job);
    if (time == kSettled) settled = now;
    if (time <= kSettled || now == settled) continue;
    std::ostringstream text;
    text << "after " << time << " times: " << now << "; after " << kSettled << ": " << settled;
    return text.str();
  }
  return std::nullopt;
}

}  // namespace shmoe::test
