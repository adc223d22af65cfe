#!/usr/bin/env bash
# Prints the first program of the README: its pieces in C++, one after the other.
# usage: readme_program.sh README
set -euo pipefail
awk '
  /^## / { in_section = $0 == "## Your first program" }
  /^```/ { if (!inside && in_section && $0 == "```cpp") { inside = 1; next } inside = 0 }
  inside { print }' "$1"
