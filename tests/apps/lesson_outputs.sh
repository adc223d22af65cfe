#!/usr/bin/env bash
# Checks that each output shown in a lesson's README is the file that the tests compare with.
# usage: lesson_outputs.sh ROOT
#   a shown output:  <!-- output: apps/NN_name/expected.txt --> and the fenced block below it
set -euo pipefail
cd "$1"
failed=0 shown=0
for page in apps/[0-9][0-9]_*/README.md apps/c_api/README.md; do
  while read -r file; do
    shown=$((shown + 1))
    block=$(awk -v mark="<!-- output: $file -->" '
      $0 == mark { found = 1; next }
      found && /^```/ { if (inside) exit; inside = 1; next }
      inside { print }' "$page")
    if ! diff -u --label "$page" --label "$file" <(echo "$block") "$file"; then failed=1; fi
  done < <(sed -n 's/^<!-- output: \(.*\) -->$/\1/p' "$page")
done
echo "$shown outputs shown"
exit "$failed"
