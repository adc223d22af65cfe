"""What lint_test.py works on: a good tree, with traps that must not fail a gate, and one fault after another."""

_HOME = "/" + "home"  # put together here, so that this file itself passes the gates
_UNFINISHED = "TO" + "DO"

_FLAG = '''#pragma once
// A flag word. Comments may say std::atomic, sleep_for(1) or #include "ops/op.hpp".

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shmoe {

using namespace std::chrono_literals;

/// Order:   rows -> put(dst) -> signal(dst)
class Flag {
 public:
  void put(std::uint64_t value) { word_.store(value, std::memory_order_release); }
  // single digits stay readable
  std::uint64_t wait_count() const { return 1'000'000; }

  void signal(std::uint64_t value);

 private:
  void wait_inner(int spins);
  std::atomic<std::uint64_t> word_{0};
};

/// Blocks until the flag has the value.
/// Order:   after the store-release of the writer
template <class T = std::uint64_t>
[[nodiscard]] T wait_until(const Flag& flag, T value);

/// How long a writer may be late.
constexpr std::chrono::milliseconds kLate{200};
constexpr auto kLater = 2s;  // as above
constexpr std::uint64_t kLines = 5;

constexpr std::uint64_t barrier_base(std::uint64_t ranks) { return ranks * 32; }

namespace detail {
void put_all(Flag& flag);
}

}  // namespace shmoe
'''

_WORLD = '''#pragma once

#include <mutex>
#include <thread>

#include "shmem/flag.hpp"

namespace shmoe {

struct World {
  // Signals.
  // Order:   puts before signals

  /// To one rank.
  void notify(int rank, std::uint64_t value);

  void run();
  std::mutex guard;
};

}  // namespace shmoe
'''

_OP = '''#pragma once

#include "runtime/world.hpp"

namespace shmoe {
template <class T>
class Result;
}
namespace shmoe::runtime {
class Communicator;
}

namespace shmoe::ops {

struct TellArgs {};
/// An operator that has all it needs.
///
/// Errors:  mismatch on all ranks
Result<void> tell(runtime::Communicator& comm, const TellArgs& args);

/// Name in the log, where "std::atomic" and 'futex' are only words.
inline const char* name() { return "std::this_thread::sleep_for futex"; }

}  // namespace shmoe::ops
'''

_RING = '''#include "ops/op.hpp"

// [main]
int main() {
  // [inner]
  return 0;
  // [/inner]
}
// [/main]
'''

_README = '''# Ring

## Question
Who waits for whom?

## The slots
```
rank 0 -> rank 1
## no title
```

## The program
<!-- listing: apps/01_ring/ring.cpp main -->
```cpp
int main() {
  return 0;
}
```

## Run it
```
shmoe run -n 2 ring
```
<!-- output: ring -->
```
done
```

## Now break it
Swap two lines.

## What the checker says
later

## Exercises
1. One.
2. Two.
3. Three.

## Further reading
[The program](ring.cpp), and [how to run it](#run-it).
'''

GOOD = {
    "shmem/flag.hpp": _FLAG,
    "shmem/detail/inner.hpp": '#pragma once\n\n#include "shmem/flag.hpp"\n',
    "shmem/flag.cpp": '#include "shmem/flag.hpp"\n\n#include "shmem/detail/inner.hpp"\n',
    "bootstrap/launch.hpp": "#pragma once\n",
    "runtime/world.hpp": _WORLD,
    "runtime/check/checker.hpp": '// The checker.\n#pragma once\n\n#include "runtime/world.hpp"\n',
    "ops/op.hpp": _OP,
    "apps/01_ring/ring.cpp": _RING,
    "apps/01_ring/README.md": _README,
    "apps/01_ring/CMakeLists.txt": "add_test(NAME lesson_01 COMMAND ring)\n",
    "tests/shmem/inner_test.cpp": '#include "shmem/detail/inner.hpp"\n',
    "tests/shmem/CMakeLists.txt": "shmoe_test(NAME shmem SOURCES inner_test.cpp flag_test.cpp)\n",
    "tests/ops/op_test.cpp":
        '#include "ops/op.hpp"\n#include "runtime/check/checker.hpp"\n\nauto done = shmoe::ops::tell(comm, {});\n',
    "tests/ops/CMakeLists.txt": "shmoe_test(NAME ops SOURCES op_test.cpp)\n",
    "apps/check/programs.cpp": '#include "ops/op.hpp"\n\nauto done = shmoe::ops::tell(comm, {});\n',
    "scripts/mutate/schemata.py": 'FILES = {"ops/op.cpp": ("context.", None)}\n',
    "scripts/x.sh": "#!/usr/bin/env bash\nset -euo pipefail\nfolder=$(mktemp -d /tmp/x.XXXXXX)\necho \"$folder\"\n",
    "scripts/x.py": "print(1)\n",
}

_RING_README = "apps/01_ring/README.md"

# gate, file, what is replaced (None: the whole file), what stands there instead
FAULTS = [
    ("format", "ops/op.hpp", "inline const char* name", "inline const char *name"),
    ("atomics", "ops/op.hpp", "inline const", "inline std::atomic<int> count;\ninline const"),
    ("atomics", "runtime/world.hpp", "#include <mutex>", "#include <atomic>\n#include <mutex>"),
    ("atomics", "apps/01_ring/ring.cpp", "// [main]", "auto id = std::this_thread::get_id();\n\n// [main]"),
    ("atomics", "apps/01_ring/ring.cpp", "// [main]", "void fence() { __atomic_thread_fence(0); }\n\n// [main]"),
    ("atomics", "bootstrap/wait.cpp", None, "int nap() { return usleep(1); }  // lint: allow(atomics)\n"),
    ("sleeps", "tests/shmem/flag_test.cpp", None, "void nap() { std::this_thread::sleep_for(x); }\n"),
    ("sleeps", "tests/ops/op_test.cpp", "auto done", "void nap() { sleep(1); }\n\nauto done"),
    ("times", "shmem/flag.cpp", None, "constexpr std::chrono::milliseconds kLimit{500};\n"),
    ("times", "bootstrap/wait.cpp", None, "constexpr std::chrono::seconds kLimit{5};\n"),
    ("times", "ops/op.cpp", None, "\nconstexpr auto kLimit = 5s;\n"),
    ("layering", "shmem/flag.cpp", None, '#include "runtime/world.hpp"\n'),
    ("layering", "shmem/flag.cpp", None, '#include "bootstrap/launch.hpp"\n'),
    ("layering", "ops/op.cpp", None, "#include <bootstrap/launch.hpp>\n"),
    ("layering", "runtime/world.cpp", None, '#include "ops/op.hpp"\n'),
    ("layering", "ops/op.cpp", None, '#include "capi/shmoe.h"\n'),
    ("layering", "capi/world.cpp", None, '#include "apps/01_ring/ring.hpp"\n'),
    ("layering", "runtime/world.cpp", None, '#include "runtime/check/checker.hpp"\n'),
    ("layering", "bootstrap/launch.cpp", None, '#include "runtime/world.hpp"\n'),
    ("layering", "ops/op.cpp", None, '#include "apps/01_ring/ring.hpp"\n'),
    ("layering", "apps/01_ring/ring.cpp", '#include "ops/op.hpp"', '#include "tests/ops/help.hpp"'),
    ("layering", "runtime/world.cpp", None, '#include "shmem/detail/inner.hpp"\n'),
    ("layering", "tests/ops/inner.cpp", None, '#include "shmem/detail/inner.hpp"\n'),
    ("layering", "shmem/flag.cpp", None, '#include "flag.hpp"\n'),
    ("pragma-once", "bootstrap/launch.hpp", None, "#ifndef LAUNCH\n#define LAUNCH\n#endif\n"),
    ("headers", "bootstrap/launch.hpp", None, "#pragma once\n\nstd::string name();\n"),
    ("listed", "tests/ops/tell_test.cpp", None, '#include "ops/op.hpp"\n'),
    ("listed", "tests/ops/CMakeLists.txt", "op_test.cpp", "other_op_test.cpp"),
    ("operators", "tests/ops/op_test.cpp", "tell(", "tells("),
    ("operators", "apps/check/programs.cpp", "tell(", "tells("),
    ("operators", "scripts/mutate/schemata.py", "op.cpp", "other.cpp"),
    ("order", "ops/op.hpp", "inline const", "void signal_all(int rank);\n\ninline const"),
    ("order", "ops/op.hpp", "/// Name", "/// Puts.\ntemplate <class T, int N = 3>\nvoid put(T value);\n\n/// Name"),
    ("order", "runtime/launcher.hpp", None, "#pragma once\n\nstruct Launcher {\n  int finalize();\n};\n"),
    ("order", "shmem/flag.hpp", "/// Order:   rows -> put(dst) -> signal(dst)\n", ""),
    ("order", "shmem/flag.hpp", "/// Order:   after the store-release of the writer\n", ""),
    ("order", "runtime/world.hpp", "  // Order:   puts before signals\n", ""),
    ("order", "runtime/core.hpp", None,
     "#pragma once\n\nclass Core {\n  int x_ = 0;\n\n public:\n  virtual void quiet() = 0;\n};\n"),
    ("errors", "runtime/rows.hpp", None, "#pragma once\n\n/// Makes room.\nResult<void> reserve(int rows);\n"),
    ("errors", "ops/op.hpp", "/// Name", "/// Opens.\n[[nodiscard]] static shmem::Result<std::vector<int>> open();\n\n/// Name"),
    ("errors", "runtime/file.hpp", None,
     "#pragma once\n\nclass File {\n public:\n  virtual Result<void> close() = 0;\n};\n"),
    ("lessons", _RING_README, "## Question\n", ""),
    ("lessons", _RING_README, "## Now break it\nSwap two lines.\n", "## Now break it\n"),
    ("lessons", _RING_README, "3. Three.\n", ""),
    ("lessons", _RING_README, "<!-- output: ring -->\n", ""),
    ("lessons", _RING_README, "## Now break it\nSwap two lines.\n\n## What the checker says\nlater",
     "## What the checker says\nlater\n\n## Now break it\nSwap two lines."),
    ("lessons", "apps/01_ring/CMakeLists.txt", None, "# no test\n"),
    ("lessons", "apps/02_fence/fence.py", None, "print(2)\n"),
    ("listings", _RING_README, "int main() {", "int  main() {"),
    ("listings", _RING_README, "ring.cpp main", "ring.cpp nothing"),
    ("listings", _RING_README, "main -->\n", "main -->\n\n"),
    ("listings", "apps/01_ring/ring.cpp", "  return 0;", "  return 2;"),
    ("unfinished", "scripts/x.py", None, f"print(1)  # {_UNFINISHED}: more\n"),
    ("length", "scripts/x.py", None, "print(1)\n" * 501),
    ("machine-paths", "scripts/x.sh", "/tmp/x.XXXXXX", f"{_HOME}/me/x"),
    ("machine-paths", "scripts/x.py", None, 'FOLDER = "/' + 'work/main"\n'),
    ("links", _RING_README, "(ring.cpp)", "(rings.cpp)"),
    ("links", _RING_README, "(#run-it)", "(#walk-it)"),
    ("python", "scripts/x.py", None, "def f(:\n"),
    ("bash", "scripts/x.sh", "echo", "if; then echo"),
]
