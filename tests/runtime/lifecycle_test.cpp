// Worlds made and ended 1000 times in one process, which then holds what it held after the tenth.

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "runtime/world.hpp"
#include "shmem/segment.hpp"
#include "tests/runtime/holdings.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using shmoe::test::first_change;
using shmoe::test::objects_of;
namespace fs = std::filesystem;

namespace {

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
  Config config = runtime::test::small_config(2);
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
  const auto change = first_change(job, [&] {
    if (failure == "well") failure = text_of(be_rank(config));
  });
  if (failure != "well") std::fprintf(stderr, "rank %d: %s\n", rank, failure.c_str());
  if (change) std::fprintf(stderr, "rank %d: %s\n", rank, change->c_str());
  return failure == "well" && !change ? 0 : 1;
}

/// Both ranks of a job, one of them on another thread.
void live_once(const std::string& job, const std::string& folder) {
  std::string other;
  std::thread one([&] { other = text_of(be_rank(config_of(job, folder, 1))); });
  const std::string own = text_of(be_rank(config_of(job, folder, 0)));
  one.join();
  REQUIRE(own == "well");
  REQUIRE(other == "well");
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
  Config config = runtime::test::small_config(2);
  config.communicators = 2;
  const auto change =
      first_change(job_named("lifecyclet"), [&] { REQUIRE(text_of(World::run_as_threads(2, config, use)) == "well"); });
  CHECK(change.value_or("no change") == "no change");
}

TEST_CASE("1000 times two worlds of one process that meet as processes do") {
  const MeetingFolder folder;
  const std::string job = job_named("lifecycles");
  const auto change = first_change(job, [&] { live_once(job, folder.path()); });
  CHECK(change.value_or("no change") == "no change");
}

TEST_CASE("worlds come and go while what is stale is removed without a pause") {
  const MeetingFolder folder;
  const std::string job = job_named("lifecyclec");
  std::vector<std::string> removed;
  {
    const std::jthread cleaner([&](const std::stop_token& end) {
      while (!end.stop_requested()) {
        const Result<shmem::CleanReport> report = shmem::clean_stale(false);
        if (!report) continue;
        for (const std::string& name : report->removed)
          if (name.starts_with("shmoe." + job)) removed.push_back(name);
      }
    });
    for (int time = 0; time < 100; ++time) live_once(job, folder.path());
  }
  CHECK(removed == std::vector<std::string>());
}
