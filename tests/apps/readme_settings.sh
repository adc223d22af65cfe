#!/usr/bin/env bash
# The settings table of the README is the one the program prints.
# usage: readme_settings.sh SHMOE README
set -euo pipefail
diff <("$1" info --settings-markdown) <(sed -n '/^<!-- settings:/,/^<!-- \/settings/p' "$2" | sed '1d;$d') ||
  { echo "replace the table in $2 by what \`shmoe info --settings-markdown\` prints"; exit 1; }
