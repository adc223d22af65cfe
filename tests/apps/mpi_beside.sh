#!/usr/bin/env bash
# The normal path beside a collective of MPI, on several numbers of ranks. usage: mpi_beside.sh PROGRAM RANKS...
set -euo pipefail
program=$1
shift
if ! command -v mpirun >/dev/null; then
  echo "skipped: there is no mpirun here"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in "$@"; do
  timeout 60 mpirun --oversubscribe -np "$ranks" "$program"
done
