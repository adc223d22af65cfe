#!/usr/bin/env bash
# The start of a job under clocks that jump. usage: clocks.sh jumps PROBE LIBRARY | clocks.sh namespaces PROBE
#   LIBRARY   for LD_PRELOAD, makes the wall clock jump at every look
set -euo pipefail
probe=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 700 "$folder"
export XDG_RUNTIME_DIR=$folder

expect() {  # WHAT EXPECTED ACTUAL
  if [[ $2 != "$3" ]]; then
    printf 'failed: %s\nexpected:\n%s\ngot:\n%s\n' "$1" "$2" "$3"
    exit 1
  fi
  echo "passed: $1"
}

# Ranks 0 .. LAST of SIZE, with what stands before them and the time they have; what they print, in rank order.
job() {  # SIZE LAST TIMEOUT_MS WORDS...
  local size=$1 last=$2 limit=$3 rank pids=()
  shift 3
  for ((rank = 0; rank <= last; ++rank)); do
    SHMOE_JOB=clocks SHMOE_RANK=$rank SHMOE_SIZE=$size "$@" "$probe" "$limit" >"$folder/out.$rank" &
    pids+=($!)
  done
  wait "${pids[@]}"
  for ((rank = 0; rank <= last; ++rank)); do cat "$folder/out.$rank"; done
  rm "$folder"/out.*
}

all_of_3() {  # SOURCE
  local rank
  for rank in 0 1 2; do echo "rank $rank of 3 by explicit through $1: 3 cards, 1 node"; done
}

jumps() {  # LIBRARY
  local jumping=(env "LD_PRELOAD=$1") before after text part bootstrap
  # The age of a file is the one thing that the wall clock is asked for.
  bootstrap=$(dirname "$0")/../../bootstrap
  expect 'no deadline looks at the wall clock' 'rendezvous_file.cpp: time(nullptr)' "$(cd "$bootstrap" &&
    grep -roE 'system_clock|CLOCK_REALTIME|gettimeofday|\btime\(' . | sed 's|^./||; s|time($|time(nullptr)|; s|:|: |')"
  expect 'the wall clock jumps' "$(($(date +%Y) + 10))" "$("${jumping[@]}" date +%Y)"
  for _ in {1..10}; do
    expect 'a job starts' "$(all_of_3 'the rendezvous file')" "$(job 3 2 30000 "${jumping[@]}")"
  done
  # The time that a rank waits for another one is that of a clock on the wall that does not jump.
  before=${EPOCHREALTIME/[.,]/}
  text=$(job 3 1 1500 "${jumping[@]}")
  after=${EPOCHREALTIME/[.,]/}
  ((after - before >= 1500000)) || expect 'a deadline is not early' '1500000 us' "$((after - before)) us"
  part='rank 2 of 3 did not arrive at 127\.0\.0\.1:[0-9]+ within 1\.[0-9]+ s: see whether it started'
  expect 'a deadline under jumps' 2 "$(grep -cE "$part" <<<"$text")"
  expect 'a missing rank 0 under jumps' "rank 1 did not reach rank 0 within" \
    "$(SHMOE_JOB=clocks SHMOE_RANK=1 SHMOE_SIZE=2 "${jumping[@]}" "$probe" 1500 | grep -o 'rank 1 did not reach rank 0 within')"
}

namespaces() {
  local ahead=(unshare --time --fork --monotonic 1000000 --boottime 2000000)
  if ! "${ahead[@]}" true 2>/dev/null; then
    echo 'skipped: this user may make no time namespace'
    exit 77
  fi
  # shellcheck disable=SC2016
  expect 'the namespace has another clock' 1 "$("${ahead[@]}" bash -c '((${1%%.*} + 1900000 < $(cut -d. -f1 /proc/uptime))) && echo 1' bash "$(cut -d' ' -f1 /proc/uptime)")"
  expect 'each rank in a namespace of its own' "$(all_of_3 'the rendezvous file')" "$(job 3 2 30000 "${ahead[@]}")"
  local mixed=(bash -c 'if ((SHMOE_RANK == 1)); then exec "$@"; else exec "${@: -2}"; fi' bash "${ahead[@]}")
  expect 'only rank 1 ahead' "$(all_of_3 'the rendezvous file')" "$(job 3 2 30000 "${mixed[@]}")"
}

if [[ $1 == jumps ]]; then jumps "$3"; else namespaces; fi
expect 'nothing is left' '' "$(ls -A "$folder")"
