#include "shmem/result.hpp"

#include <cerrno>
#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace shmoe;

namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{.code = Errc::invalid_argument, .context = fmt::format("{} is odd", n)};
  return n / 2;
}

Result<void> only(bool ok) {
  if (!ok) return Error{.code = Errc::system, .context = "no", .where = Rank{3}, .sys = ENOENT};
  return {};
}

}  // namespace

TEST_CASE("a source site is the base name and the line of the call") {
  const SourceSite site = SourceSite::here();
  CHECK(std::string(site.file) == "result_test.cpp");
  CHECK(site.line == __LINE__ - 2);
  CHECK(std::string(SourceSite::here("plain.cpp", 3).file) == "plain.cpp");
  CHECK(std::string(SourceSite::here("a/b/c.hpp", 3).file) == "c.hpp");
  CHECK(std::string(SourceSite::here("folder/", 3).file).empty());
  CHECK(SourceSite::here("x", 77).line == 77);
}

TEST_CASE("a result holds its value or its error") {
  Result<int> good = half(8);
  REQUIRE(good.has_value());
  CHECK(static_cast<bool>(good));
  CHECK(*good == 4);
  good.value() = 9;
  CHECK(good.value() == 9);
  const Result<int> bad = half(3);
  REQUIRE(!bad);
  CHECK(bad.error().code == Errc::invalid_argument);
  CHECK(bad.error().context == "3 is odd");
  CHECK(std::string(bad.error().site.file) == "result_test.cpp");
  CHECK(!bad.error().where);

  Result<std::unique_ptr<std::string>> moved = std::make_unique<std::string>("here");
  CHECK((*moved)->size() == 4);
  const std::unique_ptr<std::string> out = *std::move(moved);
  CHECK(*out == "here");
  const Result<std::string> text = std::string("four");
  CHECK(text->size() == 4);
}

TEST_CASE("a result of nothing is fine or an error") {
  CHECK(only(true).has_value());
  Result<void> bad = only(false);
  REQUIRE(!bad);
  CHECK(bad.error().where == Rank{3});
  const Error outer = std::move(bad).error().within("starting rank 3");
  CHECK(outer.context == "starting rank 3: no");
  CHECK(outer.code == Errc::system);
  CHECK(outer.sys == ENOENT);
}

TEST_CASE("an error becomes one line, with the system's words where there are some") {
  CHECK(to_string(Error{.code = Errc::fragmented, .context = "asked for 5"}) == "fragmented: asked for 5");
  CHECK(to_string(only(false).error()) == "system: no (No such file or directory)");
}

TEST_CASE("each error code has a name of its own and fits the eight bits of a flag word") {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Errc::broken_contract); ++code) {
    names.insert(name_of(static_cast<Errc>(code)));
  }
  CHECK(names.size() == static_cast<std::size_t>(Errc::broken_contract) + 1);
  CHECK(!names.contains("unknown"));
  CHECK(std::string(name_of(static_cast<Errc>(200))) == "unknown");
}

TEST_CASE("a broken contract says what, the condition, the values and the place") {
  const int rank = 9;
  const int size = 4;
  SHMOE_EXPECTS(size == 4, "never evaluated {}", rank);
  try {
    SHMOE_EXPECTS(rank < size, "rank {} of {}", rank, size);
    FAIL("no violation");
  } catch (const ContractViolation& e) {
    CHECK(std::string(e.what()) ==
          fmt::format("contract violated: rank 9 of 4 [rank < size] at result_test.cpp:{}", __LINE__ - 4));
  }
}

TEST_CASE("an interruption carries its error and whether everyone leaves") {
  const Interrupted one(Error{.code = Errc::peer_lost, .context = "rank 2"});
  CHECK(std::string(one.what()) == "peer lost: rank 2");
  CHECK(!one.agreed());
  CHECK(Interrupted(Error{.code = Errc::mismatch, .context = ""}, Interrupted::Agreed::yes).agreed());
}
