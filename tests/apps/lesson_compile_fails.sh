#!/usr/bin/env bash
# Checks that one change to a source makes the compiler refuse it, and that it does compile without the change.
# usage: lesson_compile_fails.sh SOURCE CHANGE TEXT COMPILER [FLAG]...
#   CHANGE   a sed command
#   TEXT     must be in what the compiler says
set -euo pipefail
source=$1 change=$2 text=$3
shift 3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed "$change" "$source" >"$scratch/changed.cpp"
if cmp -s "$source" "$scratch/changed.cpp"; then
  echo "the change does not apply: $change"
  exit 1
fi
"$@" -fsyntax-only "$source"
if "$@" -fsyntax-only "$scratch/changed.cpp" 2>"$scratch/err"; then
  echo "compiles in spite of: $change"
  exit 1
fi
if ! grep -qF -- "$text" "$scratch/err"; then
  echo "the compiler does not say: $text"
  cat "$scratch/err"
  exit 1
fi
