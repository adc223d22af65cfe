#pragma once
// Counts the system calls of threads that are watched. The kernel sends every call of such a thread back as a SIGSYS,
// whose handler counts it and makes it ("syscall user dispatch", Linux 5.11, x86-64).

#include <string>

namespace shmoe::test {

/// False on another machine, on an older kernel, and under a sanitiser, which makes calls of its own.
bool can_watch_calls();

/// From here to unwatch, in this thread.
void watch_calls();
void unwatch_calls();

/// Of all watched threads since the last question: "futex x 2, sched_yield x 3", or "none". Other calls are numbers.
std::string calls_made();

}  // namespace shmoe::test
