// Worlds made and ended 1000 times in one process, which then holds what it held after the tenth.

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/world.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
namespace fs = std::filesystem;

namespace {

constexpr int kTimes = 1000;
constexpr int kSettled = 10;  // libraries load, and pools grow, in the first ones

/// What a process holds.
struct Holdings {
  std::ptrdiff_t files = 0;
  std::ptrdiff_t maps = 0;
  std::ptrdiff_t threads = 0;
  std::ptrdiff_t objects = 0;  // in /dev/shm, of this job

  bool operator==(const Holdings&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Holdings& held) {
  return out << held.files << " files, " << held.maps << " maps, " << held.threads << " threads, " << held.objects
             << " objects";
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::ptrdiff_t objects_of(const std::string& job) {
  std::ptrdiff_t count = 0;
  for (const auto& entry : fs::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with("shmoe." + job + ".") ? 1 : 0;
  return count;
}

Holdings holdings(const std::string& job) {
  std::ifstream maps("/proc/self/maps");
  const auto lines = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  return {.files = entries_of("/proc/self/fd"),
          .maps = lines,
          .threads = entries_of("/proc/self/task"),
          .objects = objects_of(job)};
}

/// The first time at which more or less is held than after the tenth, or nothing.
std::optional<std::string> first_change(const std::string& job, const std::function<void()>& once) {
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

/// Where the ranks of a job of this test meet.
class MeetingFolder {
 public:
  MeetingFolder() {
    std::string pattern = (fs::temp_directory_path() / "shmoe-lifecycle.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  ~MeetingFolder() { fs::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Of a rank that finds the others as a process does.
Config config_of(const std::string& job, const std::string& folder, int rank) {
  Config config = test::small_config(2);
  config.communicators = 2;
  config.copy = shmem::CopyKind::cached;
  config.environment = [=](std::string_view name) -> std::optional<std::string> {
    if (name == "SHMOE_JOB") return job;
    if (name == "SHMOE_RANK") return std::to_string(rank);
    if (name == "SHMOE_SIZE") return "2";
    if (name == "XDG_RUNTIME_DIR") return folder;
    return std::nullopt;
  };
  return config;
}

/// Two communicators, and memory of the second.
Result<void> use(World& world) {
  const std::vector<Rank> backwards{Rank{1}, Rank{0}};
  const Result<Communicator*> made = world.communicator(CommunicatorId{1}, backwards);
  if (!made) return made.error();
  const Result<Offset> block = (*made)->allocate(Bytes{1 << 16});
  if (!block) return block.error();
  if (Result<void> met = (*made)->barrier(); !met) return met;
  return world.finalize();
}

Result<void> be_rank(const Config& config) {
  const Result<std::unique_ptr<World>> world = World::create(config);
  if (!world) return world.error();
  return use(**world);
}

std::string text_of(const Result<void>& result) { return result ? "well" : to_string(result.error()); }

/// How a forked rank ends: 0 where all was well; else it says why.
int live_as_rank(const std::string& job, const std::string& folder, int rank) {
  const Config config = config_of(job, folder, rank);
  std::string failure = "well";
  const auto change = first_change(job + "." + std::to_string(rank), [&] {
    if (failure == "well") failure = text_of(be_rank(config));
  });
  if (failure != "well") std::fprintf(stderr, "rank %d: %s\n", rank, failure.c_str());
  if (change) std::fprintf(stderr, "rank %d: %s\n", rank, change->c_str());
  return failure == "well" && !change ? 0 : 1;
}

std::string job_named(const char* what) { return std::string(what) + std::to_string(getpid()); }

}  // namespace

TEST_CASE("1000 worlds of ranks that are processes: files, maps, threads and objects stay as they are") {
  const MeetingFolder folder;
  const std::string job = job_named("lifecyclep");
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() == 0) _exit(live_as_rank(job, folder.path(), rank));
  }
  for (const pid_t rank : ranks) {
    int status = -1;
    CHECK(waitpid(rank, &status, 0) == rank);
    CHECK(status == 0);
  }
  CHECK(objects_of(job) == 0);
}

TEST_CASE("1000 worlds of ranks that are threads: files, maps and threads stay as they are") {
  Config config = test::small_config(2);
  config.communicators = 2;
  const auto change =
      first_change(job_named("lifecyclet"), [&] { REQUIRE(text_of(World::run_as_threads(2, config, use)) == "well"); });
  CHECK(change.value_or("no change") == "no change");
}

TEST_CASE("1000 times two worlds of one process that meet as processes do") {
  const MeetingFolder folder;
  const std::string job = job_named("lifecycles");
  const auto change = first_change(job, [&] {
    std::string other;
    std::thread one([&] { other = text_of(be_rank(config_of(job, folder.path(), 1))); });
    const std::string own = text_of(be_rank(config_of(job, folder.path(), 0)));
    one.join();
    REQUIRE(own == "well");
    REQUIRE(other == "well");
  });
  CHECK(change.value_or("no change") == "no change");
}
