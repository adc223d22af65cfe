#!/usr/bin/env bash
# From a fresh checkout to a running mixture-of-experts job: eight ranks, each a process, twenty steps.
# usage: demo.sh [any option of `shmoe moe`]
#   a given option replaces the default one; once it is built, `build/release/apps/shmoe/shmoe moe --help` lists them
set -euo pipefail
cd "$(dirname "$0")/.."

args=("$@")
has() {
  local arg option
  for arg in ${args[@]+"${args[@]}"}; do
    for option; do [[ $arg == "$option" || $arg == "$option="* || ($option == -? && $arg == "$option"*) ]] && return; done
  done
  return 1
}
if has -h --help; then
  sed -n '2,/^[^#]/{/^#/s/^# \?//p}' scripts/demo.sh
  exit 0
fi
has --steps || args=(--steps 20 ${args[@]+"${args[@]}"})
has -n --ranks || args=(--ranks 8 "${args[@]}")

echo "== packages"
scripts/install_packages.sh

echo "== build (release): some minutes the first time"
program=apps/shmoe/shmoe
scripts/build.sh release "$program"

echo "== shmoe moe ${args[*]}"
exec "build/release/$program" moe "${args[@]}"
