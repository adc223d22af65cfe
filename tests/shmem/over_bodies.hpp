#pragma once
// One test over every fabric.

#include <doctest/doctest.h>

#include "tests/shmem/fabric_harness.hpp"

namespace shmoe::shmem::test {

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

template <class Check>
void over_bodies(const Options& options, Check check) {
  for (const Body body : kBodies) {
    INFO(name_of(body));
    Job job(body, options);
    check(job);
  }
}

}  // namespace shmoe::shmem::test
