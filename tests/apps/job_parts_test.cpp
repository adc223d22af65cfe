// The parts of the main job by themselves: figures, the map, tokens and experts, the table.

#include <doctest/doctest.h>

#include "apps/shmoe/layout_view.hpp"
#include "apps/shmoe/machine.hpp"
#include "apps/shmoe/moe_report.hpp"
#include "apps/shmoe/payload.hpp"
#include "apps/shmoe/stats.hpp"
#include "ops/ep/reference.hpp"

using namespace shmoe;
using namespace shmoe::apps;

TEST_CASE("quantiles are samples") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({4, 1, 3, 2}) == 2);
  CHECK(p99({4, 1, 3, 2}) == 4);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  CHECK(p99(hundred) == 99);
  CHECK(median(hundred) == 50);
}

TEST_CASE("sizes read well") {
  CHECK(human(Bytes{0}) == "0 B");
  CHECK(human(Bytes{1023}) == "1023 B");
  CHECK(human(Bytes{100 * 1024}) == "100 KiB");
  CHECK(human(Bytes{1536}) == "1.5 KiB");
  CHECK(human(Bytes{std::uint64_t{3} << 40}) == "3 TiB");
}

TEST_CASE("the map says which regions overlap") {
  const shmem::BlockShape shape{.ranks = 8, .cores = 4, .slots = 4};
  CHECK(overlaps(shmem::block_map(kSafe, shape)).empty());
  CHECK(to_text(shmem::block_map(kSafe, shape)).find("no two regions overlap") != std::string::npos);
  const auto published = shmem::block_map(kFaithful202607, shape);
  CHECK_FALSE(overlaps(published).empty());
  CHECK(to_text(published).find("user data overlaps low-latency region, as published") != std::string::npos);
  CHECK(to_json(published)["regions"].size() == published.regions().size());
}

TEST_CASE("token values are exact in every dtype and differ between tokens") {
  std::vector<std::byte> wide(4 * 100);
  std::vector<std::byte> narrow(2 * 100);
  fill_token({1, 2, Rank{3}, 4}, DType::fp32, wide);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    fill_token({1, 2, Rank{3}, 4}, dtype, narrow);
    for (std::int64_t j = 0; j < 100; ++j) {
      const float value = ops::reference::load(DType::fp32, wide, j);
      CHECK(ops::reference::load(dtype, narrow, j) == value);
      CHECK(value >= -2);
      CHECK(value < 2);
    }
  }
  std::vector<std::byte> other(4 * 100);
  fill_token({1, 2, Rank{3}, 5}, DType::fp32, other);
  CHECK(other != wide);
}

TEST_CASE("an expert shifts and scales") {
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  run_expert(Expert{17}, DType::fp32, std::as_bytes(std::span{x}), std::as_writable_bytes(std::span{y}));
  CHECK(y == std::vector<float>{3.1875F, 1.0625F, 2.125F});
}

TEST_CASE("the table calls the largest of few samples by its name and leaves no blanks at line ends") {
  MoeReport report;
  report.steps = 99;
  report.launcher = "shmoe";
  report.profile = "safe";
  report.weights = "none";
  report.doubt = "largest id 7 of 64 experts";
  report.stages = {"dispatch", "combine"};
  report.fetch = 1;
  report.ranks = {RankRecord{}};
  const std::string few = to_text(report);
  CHECK(few.find("median/max") != std::string::npos);
  CHECK(few.find("weights none") != std::string::npos);
  CHECK(few.find("\nnote: largest id 7 of 64 experts\n") != std::string::npos);
  CHECK(few.find(" \n") == std::string::npos);
  report.steps = 100;
  CHECK(to_text(report).find("median/p99") != std::string::npos);
}

TEST_CASE("a report that lacks a verified step does not say verified") {
  MoeReport report;
  report.steps = 2;
  report.stages = {"dispatch", "combine"};
  report.fetch = 1;
  report.ranks = {RankRecord{.verified_steps = 2}, RankRecord{.verified_steps = 1}};
  CHECK_FALSE(report.verified());
  CHECK(to_text(report).find("verified: bit-exact") == std::string::npos);
  report.ranks[1].verified_steps = 2;
  CHECK(to_text(report).find("verified: bit-exact") != std::string::npos);
}
