#!/usr/bin/env bash
# The gates: small rules that a compiler does not check. Each failure prints its reason and the offending lines.
# usage: lint.sh [--fix] [--list] [--only GATE]...
#   --fix   formats the sources and copies listings from the sources into the READMEs first
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/lint "$@"
