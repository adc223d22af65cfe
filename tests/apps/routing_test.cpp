#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/shmoe/routing_file.hpp"
#include "apps/shmoe/routing_source.hpp"
#include "apps/shmoe/synthetic_routing.hpp"

using namespace shmoe;
using namespace shmoe::apps;

namespace {

Result<RoutingFile> read(const std::string& text, const RoutingRules& rules = {.topk = 2, .topk_given = true}) {
  std::istringstream in{text};
  return read_routing(in, "routes", rules);
}

std::string refusal(const std::string& text, const RoutingRules& rules = {.topk = 2, .topk_given = true}) {
  const auto file = read(text, rules);
  return file ? "" : file.error().context;
}

}  // namespace

TEST_CASE("a tab-separated line is a batch") {
  const auto file = read("3\t7\t1\t3\t\t0.5\t0.25\t1\t1e-3\n5\t0\t\t1\t0\n");
  REQUIRE(file);
  CHECK(file->topk == 2);
  REQUIRE(file->batches.size() == 2);
  CHECK(file->batches[0].tokens == 2);
  CHECK(file->batches[0].topk_ids == std::vector<std::int64_t>{3, 7, 1, 3});
  CHECK(file->batches[0].weights == std::vector<float>{0.5F, 0.25F, 1.0F, 0.001F});
  CHECK(file->batches[1].tokens == 1);
}

TEST_CASE("empty lines at the end are no batches") {
  const auto file = read("3\t7\t\t1\t1\n\n\r\n");
  REQUIRE(file);
  CHECK(file->batches.size() == 1);
}

TEST_CASE("a JSON line is a batch") {
  const auto file = read(
      "{\"topk_ids\": [[3, 7], [-1, 3]], \"topk_weights\": [[0.5, 0.25], [1, 0]]}\n"
      "{\"topk_ids\": []}\n{\"topk_ids\": [[1, 2]]}\n");
  REQUIRE(file);
  REQUIRE(file->batches.size() == 3);
  CHECK(file->batches[0].topk_ids == std::vector<std::int64_t>{3, 7, -1, 3});
  CHECK(file->batches[0].weights == std::vector<float>{0.5F, 0.25F, 1.0F, 0.0F});
  CHECK(file->batches[1].tokens == 0);
  CHECK(file->batches[2].weights.empty());
}

TEST_CASE("JSON says its top k itself, also after an empty batch") {
  const auto file = read("{\"topk_ids\": []}\n{\"topk_ids\": [[1, 2, 3]]}\n", {});
  REQUIRE(file);
  CHECK(file->topk == 3);
}

TEST_CASE("a bad line is named with what is wrong") {
  const std::string good = "3\t7\t\t0.5\t0.5\n";
  CHECK(refusal("") == "routes:1: no batch");
  CHECK(refusal("\n\n") == "routes:1: no batch");
  CHECK(refusal(good + "\n" + good) == "routes:2: empty; a batch without tokens is written {\"topk_ids\": []}");
  CHECK(refusal(good + "3\t7\t0.5\t0.5\n") ==
        "routes:2: no two tabs between ids and weights: put one between two numbers of a kind, or write JSON");
  CHECK(refusal("3\tx\t\t1\t1\n") == "routes:1: field 2 is 'x', which is no expert id");
  CHECK(refusal("3\t1.0\t\t1\t1\n") == "routes:1: field 2 is '1.0', which is no expert id");
  CHECK(refusal("3\t7\t\t1\tnan\n") == "routes:1: weight 2 is 'nan', which is no finite number");
  CHECK(refusal("3\t7\t\t1\t\n") == "routes:1: weight 2 is '', which is no finite number");
  CHECK(refusal("3\t7\t\t1\n") == "routes:1: 2 ids but 1 weights");
  CHECK(refusal("3\t7\t1\t\t1\t1\t1\n") == "routes:1: 3 ids are no multiple of 2 a token: give another --topk");
  CHECK(refusal("3\t64\t\t1\t1\n") ==
        "routes:1: expert 64 is not one of 64 experts (0 to 63): give more with --experts");
  CHECK(refusal("3\t-1\t\t1\t1\n").find("expert -1") != std::string::npos);
  CHECK(refusal("\t\t\n") == "routes:1: field 1 is '', which is no expert id");
}

TEST_CASE("bad JSON is named with what is wrong") {
  CHECK(refusal("{\"topk_ids\": [[1, 2]]\n").find("routes:1: no JSON object: column 22: syntax error") == 0);
  CHECK(refusal("{\"topk_ids\": [[1e999]]}\n").find("routes:1: no JSON object: number overflow") == 0);
  CHECK(refusal("{\"topk_ids\": [[1, 2]], \"weights\": [[1, 1]]}\n") ==
        "routes:1: \"weights\" is no key here; \"topk_ids\" and \"topk_weights\" are");
  CHECK(refusal("{\"topk_ids\": [[1, 18446744073709551615]]}\n") ==
        "routes:1: topk_ids has 18446744073709551615, which is no expert id");
  CHECK(refusal("{\"topk_weights\": []}\n") == "routes:1: no \"topk_ids\"");
  CHECK(refusal("{\"topk_ids\": 3}\n") == "routes:1: topk_ids is no list of lists");
  CHECK(refusal("{\"topk_ids\": [1, 2]}\n") == "routes:1: topk_ids is no list of lists of numbers");
  CHECK(refusal("{\"topk_ids\": [[1, 2], [3]]}\n") == "routes:1: topk_ids has a row of 1 beside rows of 2");
  CHECK(refusal("{\"topk_ids\": [[1, 2.5]]}\n") == "routes:1: topk_ids has 2.5, which is no expert id");
  CHECK(refusal("{\"topk_ids\": [[1, 2]], \"topk_weights\": [[1, \"a\"]]}\n") ==
        "routes:1: topk_weights has \"a\", which is no finite number");
  CHECK(refusal("{\"topk_ids\": [[1, 2]], \"topk_weights\": []}\n") == "routes:1: 2 ids but 0 weights");
  CHECK(refusal("{\"topk_ids\": []}\n", {}) == "routes:1: no batch of the file has a token");
  CHECK(refusal("{\"topk_ids\": [[1, 99]]}\n").find("expert 99 is not one of 64") != std::string::npos);
  CHECK(refusal("{\"topk_ids\": [[1, 2, 3]]}\n" + std::string{"1\t2\t\t1\t1\n"}, {.topk = 2}) ==
        "routes:2: top 2 after lines of top 3");
}

TEST_CASE("what a bad file holds does not reach the terminal") {
  const std::string deep = "{\"topk_ids\": [[" + std::string(100000, '[') + std::string(100000, ']') + "]]}";
  CHECK(refusal("{\"topk_ids\": [[1, 2]]}\n" + deep) == "routes:2: nested deeper than a list of lists");
  CHECK(refusal("\x1b[2J\t1\t\t1\t1\n") == "routes:1: field 1 is '\\x1b[2J', which is no expert id");
  CHECK(refusal(fmt::format("{:x<1000}\t1\t\t1\t1\n", "")).size() < 100);
  CHECK(refusal("{\"" + std::string(1000, 'x') + "\": 1}\n").size() < 150);
  CHECK(refusal("{\"topk_ids\": [[\"" + std::string(1000, 'x') + "\", 2]]}\n").size() < 150);
  CHECK(refusal("{\"topk_ids\": " + std::string(1000, 'x')).size() < 250);
  CHECK(refusal("{\"topk_ids\": [[{\"a\": 1}, 2]]}\n") == "routes:1: nested deeper than a list of lists");
  CHECK(refusal("{\"topk_ids\": [[1, 2]], \"topk_ids\": [[3, 4]]}\n") == "routes:1: \"topk_ids\" stands there twice");
}

TEST_CASE("a byte order mark, and weights smaller than any float") {
  const auto file = read(
      "\xEF\xBB\xBF"
      "3\t7\t\t1e-46\t1e-400\n{\"topk_ids\": [[1, 2]], \"topk_weights\": [[1e-46, 1e-400]]}\n");
  REQUIRE(file);
  CHECK(file->batches[0].weights == std::vector<float>{0, 0});
  CHECK(file->batches[1].weights == std::vector<float>{0, 0});
  CHECK(refusal("3\t7\t\t1e400\t1\n") == "routes:1: weight 1 is '1e400', which is no finite number");
}

TEST_CASE("the digest tells files apart") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("shmoe-digest-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const auto digest_of = [&](const char* text) {
    const std::string path = folder / "routes";
    std::ofstream{path} << text;
    return RoutingSource::open({.files = {path}})->digest();
  };
  CHECK(digest_of("{\"topk_ids\": [[1, 2]]}\n") == digest_of("{\"topk_ids\":[[1,2]]}"));
  CHECK(digest_of("{\"topk_ids\": [[1, 2]]}\n") != digest_of("{\"topk_ids\": [[2, 1]]}\n"));
  std::filesystem::remove_all(folder);
  const auto none = RoutingSource::open({.files = {"/dev"}});
  REQUIRE_FALSE(none);
  CHECK(none.error().context.find("/dev is not a regular file") == 0);
}

TEST_CASE("a file that is not there is named") {
  const auto file = read_routing_file("no/such/file.txt", {});
  REQUIRE_FALSE(file);
  CHECK(file.error().code == Errc::not_found);
  CHECK(to_string(file.error()) ==
        "not found: cannot read routing from no/such/file.txt: give --routing a file (No such file or directory)");
}

TEST_CASE("recorded routing reads as its description says") {
  const std::filesystem::path folder{SHMOE_ROUTING_DIR};
  if (!std::filesystem::exists(folder)) {
    MESSAGE("skipped: no recorded routing here");
    return;
  }
  for (const auto& [domain, lines, tokens] : {std::tuple{"law", 33U, 8327}, std::tuple{"intent", 127U, 8222}}) {
    for (const int layer : {1, 8, 13, 20, 26}) {
      const auto file = read_routing_file(folder / fmt::format("{}_layer{}.txt", domain, layer), {});
      REQUIRE(file);
      CHECK(file->batches.size() == lines);
      std::int64_t sum = 0;
      for (const Batch& batch : file->batches) sum += batch.tokens;
      CHECK(sum == tokens);
    }
  }
}

TEST_CASE("drawn experts of a token differ, weights sum to one") {
  const SyntheticWorld world{.tokens = 200, .topk = 8, .experts = 64, .seed = 7};
  const Batch batch = draw_batch(world, 3, Rank{2});
  REQUIRE(batch.topk_ids.size() == 1600);
  for (std::size_t token = 0; token < 200; ++token) {
    const std::set<std::int64_t> ids{batch.topk_ids.begin() + static_cast<std::ptrdiff_t>(token * 8),
                                     batch.topk_ids.begin() + static_cast<std::ptrdiff_t>(token * 8 + 8)};
    CHECK(ids.size() == 8);
    CHECK(*ids.begin() >= 0);
    CHECK(*ids.rbegin() < 64);
    float sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum += batch.weights[token * 8 + k];
    CHECK(sum == doctest::Approx(1.0F));
  }
}

TEST_CASE("a draw depends on seed, step and rank only") {
  const SyntheticWorld world{.tokens = 16};
  CHECK(draw_batch(world, 1, Rank{1}).topk_ids == draw_batch(world, 1, Rank{1}).topk_ids);
  CHECK(draw_batch(world, 1, Rank{1}).topk_ids != draw_batch(world, 1, Rank{2}).topk_ids);
  CHECK(draw_batch(world, 1, Rank{1}).topk_ids != draw_batch(world, 2, Rank{1}).topk_ids);
  CHECK(draw_batch({.tokens = 16, .seed = 2}, 1, Rank{1}).topk_ids != draw_batch(world, 1, Rank{1}).topk_ids);
  // The same numbers on every platform.
  const Batch first = draw_batch({.tokens = 1, .topk = 4}, 0, Rank{0});
  CHECK(first.topk_ids == std::vector<std::int64_t>{62, 8, 58, 3});
}

TEST_CASE("load is skewed as measured") {
  const SyntheticWorld world{.tokens = 4000, .topk = 8};
  std::vector<std::int64_t> counts(64);
  for (const std::int64_t id : draw_batch(world, 0, Rank{0}).topk_ids) ++counts[static_cast<std::size_t>(id)];
  const double mean = 4000.0 * 8 / 64;
  CHECK(static_cast<double>(*std::ranges::max_element(counts)) / mean > 2.5);
  CHECK(static_cast<double>(*std::ranges::min_element(counts)) / mean < 0.25);
  CHECK(counts[28] > counts[13]);
}

TEST_CASE("all experts can be drawn, and worlds larger than the measured one") {
  Batch all = draw_batch({.tokens = 3, .topk = 5, .experts = 5}, 0, Rank{0});
  for (std::ptrdiff_t token = 0; token < 3; ++token) {
    std::sort(all.topk_ids.begin() + token * 5, all.topk_ids.begin() + token * 5 + 5);
    CHECK(std::equal(all.topk_ids.begin() + token * 5, all.topk_ids.begin() + token * 5 + 5,
                     std::vector<std::int64_t>{0, 1, 2, 3, 4}.begin()));
  }
  const Batch large = draw_batch({.tokens = 100, .topk = 8, .experts = 256}, 0, Rank{0});
  CHECK(*std::ranges::max_element(large.topk_ids) >= 64);
  CHECK(draw_batch({.tokens = 0}, 0, Rank{0}).topk_ids.empty());
  CHECK_THROWS_AS(draw_batch({.topk = 9, .experts = 8}, 0, Rank{0}), ContractViolation);
}

TEST_CASE("lines are dealt to ranks in turn, layers step by step") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("shmoe-routing-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const auto write = [&](const char* name, std::int64_t first) {
    std::ofstream out{folder / name};
    for (std::int64_t line = 0; line < 5; ++line) out << "{\"topk_ids\": [[" << first + line << "]]}\n";
    return (folder / name).string();
  };
  const auto source = RoutingSource::open({.files = {write("a", 0), write("b", 10)}});
  REQUIRE(source);
  CHECK(source->topk() == 1);
  CHECK(source->description() == "a, b");
  CHECK(source->weights() == "none");
  CHECK(source->doubt() == "largest id 14 of 64 experts; see --experts");
  CHECK(RoutingSource::open({.files = {folder / "b"}, .experts = 29})->doubt().empty());
  CHECK(RoutingSource::open({})->weights() == "drawn");
  CHECK(RoutingSource::open({})->doubt().empty());
  const auto id = [&](std::int64_t step, std::int32_t rank) {
    return source->batch(step, Rank{rank}, 2).topk_ids.at(0);
  };
  CHECK(id(0, 0) == 0);
  CHECK(id(0, 1) == 1);
  CHECK(id(1, 0) == 10);  // the same tokens in the second layer
  CHECK(id(2, 1) == 3);
  CHECK(id(4, 1) == 0);  // from the start again
  CHECK(RoutingSource::open({.files = {folder / "a"}, .tokens = 0})->batch(0, Rank{0}, 2).tokens == 0);
  {
    std::ofstream out{folder / "c"};
    out << "{\"topk_ids\": [[1, 2]]}\n";
  }
  const auto mixed = RoutingSource::open({.files = {folder / "a", folder / "c"}});
  REQUIRE_FALSE(mixed);
  CHECK(mixed.error().context.find("layers of one job have the same") != std::string::npos);
  std::filesystem::remove_all(folder);
}
