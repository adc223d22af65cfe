#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <unistd.h>

#include "runtime/config.hpp"
#include "runtime/log.hpp"
#include "runtime/unknown_settings.hpp"

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

Result<Config> load(const std::map<std::string, std::string, std::less<>>& environment) {
  return Config::load([&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

constexpr std::uint64_t kMiB = 1024 * 1024;

}  // namespace

TEST_CASE("defaults are those of the table") {
  const Config config = Config::defaults();
  CHECK(config.cores == 1);
  CHECK(config.profile == kSafe);
  CHECK(config.heap == Bytes{1024 * kMiB});
  CHECK(config.ipc_data == Bytes{204 * kMiB});
  CHECK(config.communicators == 8);
  CHECK(config.generation == 0);
  CHECK(config.bootstrap_timeout == std::chrono::seconds{30});
  CHECK(config.wait_limit == std::chrono::milliseconds{0});
  CHECK(config.views);
  CHECK(!config.copy);
  CHECK(config.pin == Pin::none);
  CHECK(config.weak_seed == 0);
  CHECK(!config.links);
  CHECK(config.strict);
  CHECK(config.log_level == "warn");
  CHECK(config.comm_id.empty());
  CHECK(!config.declare_slots);
}

TEST_CASE("every setting takes its values") {
  const auto config = load({{"SHMOE_CORES", "48"},
                            {"SHMOE_PROFILE", "faithful-2026-08"},
                            {"SHMOE_HEAP", "3MiB"},
                            {"SHMOE_BUFFSIZE", "0"},
                            {"SHMOE_COMMUNICATORS", "2"},
                            {"SHMOE_GENERATION", "3"},
                            {"SHMOE_BOOTSTRAP_TIMEOUT_S", "5"},
                            {"SHMOE_WAIT_LIMIT_MS", "1500"},
                            {"SHMOE_VIEWS", "off"},
                            {"SHMOE_COPY", "movsb"},
                            {"SHMOE_PIN", "cores"},
                            {"SHMOE_WEAK", "18446744073709551615"},
                            {"SHMOE_STRICT", "off"},
                            {"SHMOE_PROVE", "off"},
                            {"SHMOE_VERDICT", "found.json"},
                            {"SHMOE_LOG", "trace"}});
  REQUIRE(config);
  CHECK(config->cores == 48);
  CHECK(config->profile == kFaithful202608);
  CHECK(config->heap == Bytes{3 * kMiB});
  CHECK(config->ipc_data == Bytes{0});
  CHECK(config->communicators == 2);
  CHECK(config->generation == 3);
  CHECK(config->bootstrap_timeout == std::chrono::seconds{5});
  CHECK(config->wait_limit == std::chrono::milliseconds{1500});
  CHECK_FALSE(config->views);
  CHECK(config->pin == Pin::cores);
  CHECK(config->copy == shmem::CopyKind::movsb);
  CHECK(config->weak_seed == 18446744073709551615U);
  CHECK_FALSE(config->strict);
  CHECK_FALSE(config->prove);
  CHECK(config->verdict_file == "found.json");
  CHECK(config->log_level == "trace");
}

TEST_CASE("sizes take suffixes") {
  CHECK(load({{"SHMOE_HEAP", "65536"}})->heap == Bytes{65536});
  CHECK(load({{"SHMOE_HEAP", "64KiB"}})->heap == Bytes{65536});
  CHECK(load({{"SHMOE_HEAP", "2GiB"}})->heap == Bytes{2048 * kMiB});
  CHECK(load({{"SHMOE_HEAP", "16TiB"}})->heap == Bytes{16 * kMiB * kMiB});
  for (const char* bad : {"", "KiB", "1 GiB", "1Gib", "1G", "-1", "+1GiB", "0x10000", "65535", "1.5GiB",
                          "18446744073709551616", "17179869185GiB", "17TiB", "99999999999999999GiB", "64KiBKiB"}) {
    CAPTURE(bad);
    CHECK_FALSE(load({{"SHMOE_HEAP", bad}}));
  }
}

TEST_CASE("of two names the project's own wins") {
  CHECK(load({{"CAM_BUFFSIZE", "16"}})->ipc_data == Bytes{16 * kMiB});
  CHECK(load({{"CAM_BUFFSIZE", "16"}, {"SHMOE_BUFFSIZE", "32"}})->ipc_data == Bytes{32 * kMiB});
  CHECK(load({{"CAM_BUFFSIZE", "16"}, {"SHMOE_BUFFSIZE", "0"}})->ipc_data == Bytes{0});
  CHECK(load({{"CAM_BUFFSIZE", "1048576"}})->ipc_data == Bytes{kMiB * kMiB});
}

// The published reading takes 300 from "300MB", 204 from a word, and any negative number.
TEST_CASE("a size of the window that is no number of MiB is refused, under both names and beside a good one") {
  for (const char* bad : {"much", "", "300MB", "-1", "+1", " 204", "204 ", "1.5", "0x10", "1048577"}) {
    for (const char* name : {"CAM_BUFFSIZE", "SHMOE_BUFFSIZE"}) {
      const bool ours = std::string_view(name) == "SHMOE_BUFFSIZE";
      const auto refused = load({{"CAM_BUFFSIZE", ours ? "16" : bad}, {"SHMOE_BUFFSIZE", ours ? bad : "16"}});
      REQUIRE_FALSE(refused);
      CHECK(to_string(refused.error()) ==
            fmt::format("invalid argument: {} is '{}'; it takes MiB, 0 to 1048576", name, bad));
    }
  }
}

TEST_CASE("links are read from their file, and what is wrong with it is named") {
  const std::string file = fmt::format("links.{}", getpid());
  std::ofstream(file) << "ranks 2\n0 1 50\n";
  CHECK(to_string(*load({{"SHMOE_LINKS", file.c_str()}})->links) == "ranks 2\n0 1 50\n");
  CHECK_FALSE(load({{"SHMOE_LINKS", ""}})->links);
  std::ofstream(file) << "ranks 2\n0 2 50\n";
  CHECK(to_string(load({{"SHMOE_LINKS", file.c_str()}}).error())
            .starts_with(fmt::format("invalid argument: SHMOE_LINKS: {}:2: '0 2 50': write ", file)));
  std::filesystem::remove(file);
  CHECK(to_string(load({{"SHMOE_LINKS", file.c_str()}}).error()).find("SHMOE_LINKS: cannot read " + file) !=
        std::string::npos);
  CHECK(to_string(load({{"SHMOE_LINKS", "/"}}).error())
            .ends_with("/, which should hold links, is not a regular file: save them to one"));
}

TEST_CASE("a bad value is named with what the variable takes") {
  const auto bad = load({{"SHMOE_CORES", "49"}});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == Errc::invalid_argument);
  CHECK(to_string(bad.error()) == "invalid argument: SHMOE_CORES is '49'; it takes 1 to 48");
  const std::pair<const char*, const char*> others[] = {{"SHMOE_CORES", "0"},
                                                        {"SHMOE_CORES", "2 "},
                                                        {"SHMOE_CORES", ""},
                                                        {"SHMOE_PROFILE", "faithful"},
                                                        {"SHMOE_BUFFSIZE", "204MiB"},
                                                        {"SHMOE_COMMUNICATORS", "0"},
                                                        {"SHMOE_BOOTSTRAP_TIMEOUT_S", "0"},
                                                        {"SHMOE_WAIT_LIMIT_MS", "-1"},
                                                        {"SHMOE_VIEWS", "yes"},
                                                        {"SHMOE_WEAK", "on"},
                                                        {"SHMOE_STRICT", "ON"},
                                                        {"SHMOE_PROVE", "yes"},
                                                        {"SHMOE_VERDICT", ""},
                                                        {"SHMOE_VERDICT", "/nonexistent/found.json"},
                                                        {"SHMOE_VERDICT", "/tmp"},
                                                        {"SHMOE_LOG", "warning"}};
  for (const auto& other : others) {
    CAPTURE(other.first);
    const auto refused = load({{other.first, other.second}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().context.find(other.first) == 0);
  }
}

TEST_CASE("a misspelt setting is named with the nearest one") {
  const auto unknown = [](std::vector<std::string> names) { return unknown_settings(names).value_or("nothing"); };
  CHECK(unknown({"PATH", "SHMOE", "XSHMOE_CORE", "SHMOE_CORES", "SHMOE_LAUNCHER", "SHMOE_TEST_SEED"}) == "nothing");
  CHECK(unknown({"SHMOE_CORE"}) == "SHMOE_CORE is no setting: did you mean SHMOE_CORES?");
  CHECK(unknown({"SHMOE_HAEP", "SHMOE_WAIT_LIMIT"}) ==
        "SHMOE_HAEP is no setting: did you mean SHMOE_HEAP? SHMOE_WAIT_LIMIT is no setting: did you mean "
        "SHMOE_WAIT_LIMIT_MS?");
  CHECK(unknown({"SHMOE_FLUX_CAPACITOR"}) == "SHMOE_FLUX_CAPACITOR is no setting: `shmoe info` shows them all.");
  CHECK(unknown({"SHMOE_"}).find("SHMOE_ is no setting") == 0);
}

TEST_CASE("a long or unprintable value does not break the message") {
  std::string value(501, 'x');
  value.back() = '\n';
  const auto bad = load({{"SHMOE_LOG", value}});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().context.size() < 160);
  CHECK(load({{"SHMOE_LOG", "a\nb"}}).error().context.find('\n') == std::string::npos);
}

TEST_CASE("both tables hold every setting") {
  const std::string text = settings_text();
  const std::string markdown = settings_markdown();
  for (const Setting& setting : settings()) {
    CHECK(text.find(setting.variable) != std::string::npos);
    CHECK(markdown.find(fmt::format("| `{}` |", setting.variable)) != std::string::npos);
    CHECK(std::string_view{setting.takes}.find('|') == std::string_view::npos);
  }
  CHECK(std::ranges::count(markdown, '\n') == static_cast<std::ptrdiff_t>(settings().size()) + 2);
}

TEST_CASE("a log line has its rank, its level and no line break") {
  std::ostringstream out;
  const Log log = Log::to_stream(out, LogLevel::info, Rank{3});
  log.debug("dropped {}", 1);
  log.warn("rank {} is late\nby {} s", Rank{5}, 4);
  log.write(LogLevel::error, "{} is no format");
  CHECK(out.str() == "[shmoe rank 3] warn: rank 5 is late by 4 s\n[shmoe rank 3] error: {} is no format\n");
  CHECK_FALSE(log.enabled(LogLevel::debug));
  CHECK(log.enabled(LogLevel::error));
}

TEST_CASE("before the rank is known the line says so") {
  std::ostringstream out;
  Log::to_stream(out, LogLevel::trace).info("starting");
  CHECK(out.str() == "[shmoe] info: starting\n");
  CHECK(find_log_level("warn") == LogLevel::warn);
  CHECK_FALSE(find_log_level("Warn"));
  CHECK(name_of(LogLevel::trace) == "trace");
}
