#!/usr/bin/env bash
# Jobs under mpirun. usage: world_mpi.sh PROGRAM
set -euo pipefail
program=$1
if ! command -v mpirun >/dev/null; then
  echo 'skipped: no mpirun here'
  exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 700 "$folder"
export XDG_RUNTIME_DIR=$folder
export SHMOE_HEAP=1MiB SHMOE_BUFFSIZE=0 SHMOE_COMMUNICATORS=1 SHMOE_JOB=mpi$$
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run=(timeout 100 mpirun --oversubscribe)

expect() {  # WHAT EXPECTED ACTUAL
  if [[ $2 != "$3" ]]; then
    printf 'failed: %s\nexpected:\n%s\ngot:\n%s\n' "$1" "$2" "$3"
    exit 1
  fi
  echo "passed: $1"
}

for size in 1 2 3 7 16; do
  expect "$size ranks, 200 rounds" \
    "$(for ((rank = 0; rank < size; ++rank)); do echo "rank $rank of $size: 200 rounds"; done | sort)" \
    "$("${run[@]}" -np "$size" "$program" barriers 200 | sort)"
done

# The launcher ends the job with the first rank that dies; whoever still gets to speak names it.
"${run[@]}" -np 4 "$program" die 2 20 >"$folder/died" 2>&1 && expect 'a killed rank fails the job' failure success
if grep -q ' rounds$' "$folder/died"; then expect 'nobody is done' '' "$(<"$folder/died")"; fi
echo 'passed: a killed rank ends the job'

expect 'nothing is left in /dev/shm' '' "$(find /dev/shm -maxdepth 1 -name "shmoe.$SHMOE_JOB*")"
