#!/usr/bin/env bash
# prints.sh EXPECTED COMMAND...: the command ends well and prints exactly what the file holds.
set -euo pipefail
expected=$1
shift
diff -u "$expected" <("$@") || { echo "(< expected in $expected, > printed)" && exit 1; }
