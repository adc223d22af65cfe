#!/usr/bin/env bash
# doc/verdicts.md has a line for each cause and for each verdict on waits and memory.
# usage: causes_page.sh ROOT
set -euo pipefail
cd "$1"
names() { sed -n "/name_of($1 /,/^}/s/.*return \"\(.*\)\";/\1/p" "$2"; }
missing=0
while read -r name; do
  grep -q "^| .*\b$name\b.* |" doc/verdicts.md || { echo "no line in doc/verdicts.md: $name" && missing=1; }
done < <((names CauseKind runtime/diagnosis/cause.cpp; names VerdictKind runtime/diagnosis/verdict.cpp) | grep -vxE "clean|unknown")
exit "$missing"
