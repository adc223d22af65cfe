#!/usr/bin/env bash
# Checks that the shared library shows exactly the functions that the header declares.
# usage: exports.sh NM LIBRARY HEADER
set -euo pipefail
nm=$1 library=$2 header=$3
shown=$("$nm" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
declared=$(grep -v '^#' "$header" | tr '\n' ' ' | grep -oE 'SHMOE_API [^;(]*\(' | sed -E 's/\($//; s/.*[ *]//' | sort)
diff -u --label "declared in the header" --label "shown by the library" <(echo "$declared") <(echo "$shown")
echo "$(wc -l <<<"$shown") functions"
