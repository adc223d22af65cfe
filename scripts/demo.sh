#!/usr/bin/env bash
# From a fresh checkout to a running mixture-of-experts job: eight ranks, each a process, twenty steps.
# usage: demo.sh [any option of `shmoe moe`]
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== packages"
scripts/install_packages.sh

echo "== build (release)"
program=apps/shmoe/shmoe
scripts/build.sh release "$program"

# A given option replaces the default one.
args=("$@")
[[ " $* " == *" --steps"[\ =]* ]] || args=(--steps 20 "${args[@]}")
[[ " $* " == *" --ranks"[\ =]* ]] || args=(--ranks 8 "${args[@]}")

echo "== shmoe moe ${args[*]}"
exec "build/release/$program" moe "${args[@]}"
