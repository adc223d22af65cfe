#!/usr/bin/env bash
# clang-tidy over the sources changed since the main branch, over all, or over the given ones.
# usage: tidy.sh [--all | FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} == --all ]]; then
  mapfile -t files < <(git ls-files '*.cpp')
elif [[ $# -gt 0 ]]; then
  files=("$@")
else
  since=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  mapfile -t files < <({ git diff --name-only --diff-filter=d "$since" -- '*.cpp'; git ls-files -o --exclude-standard '*.cpp'; } | sort -u)
fi
[[ ${#files[@]} -gt 0 ]] || exit 0

# The clang preset, because clang-tidy stops at flags that only g++ knows. Its precompiled headers must be there.
scripts/build.sh clang shmoe_headers
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/clang --quiet 2> >(grep -v 'warnings generated\|^$' >&2)
