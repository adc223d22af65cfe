#!/usr/bin/env bash
# adding_one.sh TREE COMPILER: the commands in ops/README, "Adding one", copy the skeleton so that nothing is missing but
# what the page says, and so that both fit into one source, as in a joined build.
set -euo pipefail
compiler=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$1"
cp -r --parents .clang-format shmem bootstrap runtime ops tests/ops apps/check scripts "$place"
cd "$place"

sed -n '/^<!-- adding-one: copy -->/,/^```$/{/^<!--\|^```/!p}' ops/README.md >copy.sh
bash -euo pipefail copy.sh
scripts/lint.sh --fix --only format --only listed --only operators >said || true
cat said
diff said <(sed -n '/^\$ scripts\/lint.sh --fix/,/^lint: /{/^\$/!p}' ops/README.md)

for path in ops/registry.hpp ops/registry.cpp ops/CMakeLists.txt ops/README.md tests/ops/CMakeLists.txt tests/ops/registry_test.cpp; do
  grep -q ring_shift $path || { echo "nothing was added to $path"; exit 1; }
done
printf '#include "%s"\n' ops/{skeleton,ring_shift}.cpp tests/ops/{skeleton,ring_shift}_test.cpp >both.cpp
# shellcheck disable=SC2046  # flags are words
$compiler -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I. $(pkg-config --cflags spdlog) both.cpp
