#!/usr/bin/env bash
# example_matches.sh PROGRAM SCRIPT: both paths of the script beside the specification and the operators print the same
# tables. 77: no script or no Python here.
set -euo pipefail
program=$1
script=$2
[ -f "$script" ] || { echo "skipped: $script is not there"; exit 77; }
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$script" > "$work/script"
sed '/^== int8 dynamic quantisation/,$d' "$work/script" > "$work/expected"
[ -s "$work/expected" ]
"$program" > "$work/printed"
diff "$work/expected" "$work/printed"
