// What is registered is found, by every name it has.

#include <doctest/doctest.h>

#include "runtime/registry.hpp"

using namespace shmoe;
using runtime::Operator;
using runtime::Registry;
using runtime::WorkspaceSize;

namespace {

Operator entry_of(std::string_view name, std::string_view half, std::string_view published) {
  return {.name = name,
          .family = "none",
          .header = "none.hpp",
          .does = "nothing",
          .published = {published},
          .calls = {name, half},
          .variants = {},
          .needs = {},
          .stages = {},
          .limits = {},
          .workspace = [](const runtime::CallShape& shape) {
            return WorkspaceSize{.own = Bytes{static_cast<std::uint64_t>(shape.cores)}};
          }};
}

Registry two_entries() {
  Registry registry;
  registry.add(entry_of("first", "first_begin", "published_first"));
  registry.add(entry_of("second", "second_begin", "published_second"));
  return registry;
}

}  // namespace

TEST_CASE("an operator is found by its name, its calls and its published names") {
  const Registry registry = two_entries();
  REQUIRE(registry.operators().size() == 2);
  CHECK(registry.operators()[0].name == "first");
  for (const char* name : {"second", "second_begin", "published_second"}) {
    const auto found = registry.find(name);
    REQUIRE_MESSAGE(found, name);
    CHECK((*found)->name == "second");
  }
  CHECK((*registry.find("first"))->workspace({.cores = 7}) == WorkspaceSize{.own = Bytes{7}});
}

TEST_CASE("an unknown name is refused with the names there are, a name that is taken breaks the contract") {
  Registry registry = two_entries();
  const auto missing = registry.find("third");
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::invalid_argument);
  CHECK(missing.error().context == "there is no operator 'third'; there are: first second");
  CHECK_THROWS_WITH_AS(registry.add(entry_of("second", "other", "others")),
                       doctest::Contains("operator second is registered twice"), ContractViolation);
  CHECK_THROWS_WITH_AS(registry.add(entry_of("first_begin", "other", "others")),
                       doctest::Contains("operator first_begin is registered twice"), ContractViolation);
  CHECK(registry.operators().size() == 2);
}
