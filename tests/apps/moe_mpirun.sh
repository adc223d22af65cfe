#!/usr/bin/env bash
# The main job under mpirun on real routing: every rank a process, every result checked to the bit.
# usage: moe_mpirun.sh SHMOE ROUTING_FILE RANKS...
set -euo pipefail
shmoe=$1 routing=$2
shift 2
if ! command -v mpirun >/dev/null; then
  echo "skipped: there is no mpirun here"
  exit 77
fi
if [[ ! -r $routing ]]; then
  echo "skipped: $routing is not here"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in "$@"; do
  out=$(timeout 120 mpirun --oversubscribe -np "$ranks" "$shmoe" moe --routing "$routing" --steps 3)
  echo "$out"
  grep -q "^verified: bit-exact.* on $ranks ranks" <<<"$out"
  out=$(timeout 120 mpirun --oversubscribe -np "$ranks" "$shmoe" moe --mode afd --routing "$routing" --steps 2 --hidden 256)
  echo "$out"
  grep -q "^verified: bit-exact.* on $ranks ranks" <<<"$out"
  out=$(timeout 120 mpirun --oversubscribe -np "$ranks" "$shmoe" moe --mode low-latency --routing "$routing" --tokens 32 --steps 2 --hidden 256)
  echo "$out"
  grep -q "^verified: bit-exact.* on $ranks ranks" <<<"$out"
done
