// Structs of other versions, settings, and the names of the statuses.

#include "shmem/result.hpp"
#include "tests/capi/support.hpp"

using namespace shmoe::capi_test;

namespace {

shmoe_status nothing_to_do(shmoe_world* /*world*/, void* /*argument*/) { return SHMOE_OK; }

shmoe_status start_with(const shmoe_config& config) { return shmoe_run_as_threads(1, &config, nothing_to_do, nullptr); }

/// A struct of a version to come.
struct Longer {
  shmoe_config known;
  std::uint64_t unknown;
};

}  // namespace

TEST_CASE("a status has the name that the error has in C++") {
  for (std::int32_t status = SHMOE_OK; status <= SHMOE_BROKEN_CONTRACT; ++status) {
    CHECK(std::string_view(shmoe_status_name(status)) == shmoe::name_of(static_cast<shmoe::Errc>(status)));
  }
  CHECK(std::string_view(shmoe_status_name(-1)) == "unknown");
  CHECK(std::string_view(shmoe_status_name(SHMOE_BROKEN_CONTRACT + 1)) == "unknown");
}

TEST_CASE("a struct without a size is refused, an older and a newer one are not") {
  shmoe_config config = {};
  refused(start_with(config), SHMOE_INVALID_ARGUMENT, "config->size is 0: set it to the sizeof of the struct");
  config.size = 5000;
  refused(start_with(config), SHMOE_INVALID_ARGUMENT, "config->size is 5000");
  config.size = offsetof(shmoe_config, settings) + 1;  // one byte of a pointer
  refused(start_with(config), SHMOE_INVALID_ARGUMENT, "config->size is 9: set it to the sizeof of the struct");

  config.uses = 4;
  config.size = offsetof(shmoe_config, uses);  // a version that had no such field
  well(start_with(config));
  config.size = sizeof config;
  refused(start_with(config), SHMOE_INVALID_ARGUMENT, "config->uses is 0x4");

  Longer longer = {.known = small_config(), .unknown = 0};
  longer.known.size = sizeof longer;
  well(start_with(longer.known));
  longer.unknown = 1;
  refused(start_with(longer.known), SHMOE_INVALID_ARGUMENT, "use a library as new as the header");
}

TEST_CASE("a result is as long as the caller's struct") {
  well(on_ranks(1, 0, [](RankOfTest& own) {
    const shmoe_ep_shape shape = {.size = sizeof shape, .experts = 1, .topk = 1, .hidden = 1, .type = SHMOE_FP32};
    shmoe_ep* ep = nullptr;
    well(shmoe_ep_create(own.all, &shape, &ep));
    const std::int64_t expert = 0;
    well(shmoe_ep_layout(ep, &expert, nullptr, 1));
    well(shmoe_ep_notify(ep));
    shmoe_rows rows = {};
    refused(shmoe_ep_rows(ep, &rows), SHMOE_INVALID_ARGUMENT, "rows->size is 0");
    rows.size = offsetof(shmoe_rows, x);
    well(shmoe_ep_rows(ep, &rows));
    CHECK(rows.size == offsetof(shmoe_rows, x));
    CHECK(rows.rows == 1);
    CHECK(rows.x == nullptr);
    rows.size = sizeof rows;
    well(shmoe_ep_rows(ep, &rows));
    CHECK(rows.x != nullptr);
    return shmoe_ep_destroy(ep);
  }));
}

TEST_CASE("settings are those of the table, and what a setting does not take is refused") {
  const auto refused_with = [](const char* setting, const char* text) {
    const char* const settings[] = {setting, nullptr};
    const shmoe_config config = {.size = sizeof config, .settings = settings, .comm_id = nullptr, .uses = 0};
    refused(start_with(config), SHMOE_INVALID_ARGUMENT, text);
  };
  refused_with("SHMOE_CORE=2", "SHMOE_CORE is no setting: did you mean SHMOE_CORES?");
  refused_with("SHMOE_CORES", "the setting 'SHMOE_CORES' has no '='");
  refused_with("SHMOE_CORES=49", "SHMOE_CORES is '49'; it takes 1 to 48");
  refused_with("PATH=x", "PATH is no setting");
}
