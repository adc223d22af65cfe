#!/usr/bin/env bash
# Ranks that do not see each other's processes: told at the start, on every rank, with what to do.
# usage: pid_namespaces.sh PROGRAM
set -euo pipefail
program=$1
if ! unshare --pid --fork --mount-proc true 2>/dev/null; then
  echo 'skipped: this user may make no pid namespace'
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export SHMOE_HEAP=1MiB SHMOE_BUFFSIZE=0 SHMOE_COMMUNICATORS=1 SHMOE_BOOTSTRAP_TIMEOUT_S=30
export SHMOE_JOB=pids$$ SHMOE_SIZE=3 SHMOE_COMM_ID=127.$((1 + $$ % 200)).$((1 + $$ / 200 % 200)).7:29401

# Rank RANK, by the words before it in the namespaces that they make.
rank() {  # RANK WORDS...
  local rank=$1
  shift
  SHMOE_RANK=$rank "$@" "$program" barriers 3 >"$folder/$rank" 2>&1 &
  pids+=($!)
}

finish() {
  local pid
  for pid in "${pids[@]}"; do wait "$pid" || true; done
  pids=()
}

expect() {  # WHAT RANK PATTERN
  grep -qE -- "$3" "$folder/$2" && return
  printf 'failed: %s, rank %s\nexpected: %s\ngot: %s\n' "$1" "$2" "$3" "$(<"$folder/$2")"
  exit 1
}

pids=()
apart=(unshare --pid --fork --kill-child --mount-proc)
rank 0
rank 1 "${apart[@]}"
rank 2
finish
for rank in 0 1 2; do
  expect 'a rank in a namespace of its own' "$rank" 'rank 1 of 3 runs in another pid namespace than rank 0 \(pid:\[[0-9]+\] and pid:\[[0-9]+\]\), and ranks watch each other by pid: let their containers share one, by `docker run --pid=container:NAME`, --pid=host or `pid:` of compose$'
done
echo 'passed: a rank in a namespace of its own'

rank 0 "${apart[@]}"
rank 1
rank 2
finish
for rank in 0 1 2; do expect 'rank 0 in a namespace of its own' "$rank" 'ranks 1-2 of 3 run in another pid namespace than rank 0'; done
echo 'passed: rank 0 in a namespace of its own'

# All of them in one that is not the first.
# shellcheck disable=SC2016
"${apart[@]}" bash -c '
  for rank in 0 1 2; do SHMOE_RANK=$rank "$1" barriers 3 >"$2/$rank" 2>&1 & done
  wait' bash "$program" "$folder"
for rank in 0 1 2; do expect 'one namespace for all' "$rank" "^rank $rank of 3: 3 rounds"; done
echo 'passed: one namespace for all'

# A process that was started at another time since the boot of its own namespace is not another process.
ahead=(unshare --time --fork --monotonic 1000000 --boottime 2000000)
if "${ahead[@]}" true 2>/dev/null; then
  rank 0
  rank 1 "${ahead[@]}"
  rank 2
  finish
  for rank in 0 1 2; do expect 'a rank with other clocks' "$rank" "^rank $rank of 3: 3 rounds"; done
  echo 'passed: a rank with other clocks'
fi
