#pragma once
// A test that links allocations.cpp replaces operator new, and knows how often it was called.

#include <cstdint>

namespace shmoe::test {

/// By all threads of this process, so far.
std::uint64_t allocations();

}  // namespace shmoe::test
