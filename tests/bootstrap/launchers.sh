#!/usr/bin/env bash
# The probe under real launchers. usage: launchers.sh PROBE
set -euo pipefail
probe=$1
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

lines() {  # SIZE LAUNCHER SOURCE
  for ((rank = 0; rank < $1; ++rank)); do echo "rank $rank of $1 by $2 through $3: $1 cards, 1 node"; done
}

explicit_job() {  # JOB SIZE
  for ((rank = 0; rank < $2; ++rank)); do SHMOE_JOB=$1 SHMOE_RANK=$rank SHMOE_SIZE=$2 "$probe" & done | sort
  wait
}

expect 'no launcher' 'rank 0 of 1 by none through a job of one rank: 1 cards, 1 node' "$("$probe")"
expect 'explicit variables' "$(lines 3 explicit 'the rendezvous file')" "$(explicit_job a 3)"

explicit_job one 3 >"$folder/one" &
explicit_job two 4 >"$folder/two" &
wait
expect 'two jobs at once, the first' "$(lines 3 explicit 'the rendezvous file')" "$(<"$folder/one")"
expect 'two jobs at once, the second' "$(lines 4 explicit 'the rendezvous file')" "$(<"$folder/two")"
rm "$folder"/one "$folder"/two

if command -v mpirun >/dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  run=(timeout 60 mpirun --oversubscribe)
  expect 'mpirun' "$(lines 4 openmpi 'the rendezvous file')" "$("${run[@]}" -np 4 "$probe" | sort)"

  mismatch='mismatch: rank 2 has cores 4, rank 0 has cores 2: start every rank with the same SHMOE_CORES'
  expect 'one error on every rank' "$(printf '%s\n' "$mismatch" "$mismatch" "$mismatch")" \
    "$("${run[@]}" -np 2 env SHMOE_CORES=2 "$probe" : -np 1 env SHMOE_CORES=4 "$probe")"

  # PMIx alone: what Open MPI says about itself is taken away.
  hide=(env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE)
  expect 'pmix with a size' "$(lines 3 pmix 'the rendezvous file')" \
    "$("${run[@]}" -np 3 -x SHMOE_SIZE=3 "${hide[@]}" "$probe" | sort)"
  expect 'pmix without a size' \
    "invalid argument: PMIX_RANK is '0' but nothing tells the number of ranks: set SHMOE_SIZE on every rank" \
    "$("${run[@]}" -np 1 "${hide[@]}" "$probe")"
else
  echo 'skipped: no mpirun here'
fi

expect 'nothing is left' '' "$(ls -A "$folder")"
