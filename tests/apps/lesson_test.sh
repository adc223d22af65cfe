#!/usr/bin/env bash
# Runs a lesson as its README says and compares what it prints, to the letter.
# usage: lesson_test.sh LAUNCHER PROGRAM RANKS EXPECTED [ARGUMENT]...
#   LAUNCHER   mpirun, or the path of shmoe, which then does `shmoe run`
#   EXPECTED   file with the standard output; - where it is not compared
# With LESSON_FAILS set the program must end with an exit code other than 0 and print a line that matches this extended
# regular expression.
set -euo pipefail
launcher=$1 program=$2 ranks=$3 expected=$4
shift 4

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
case $launcher in
  *mpirun) command=("$launcher" --oversubscribe -np "$ranks" "$program" "$@") ;;
  *) command=("$launcher" run --no-prefix -n "$ranks" -- "$program" "$@") ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
timeout 50 "${command[@]}" >"$scratch/out" 2>"$scratch/err" || status=$?

complain() {
  echo "$1"
  echo "-- command: ${command[*]}"
  echo "-- exit code $status; standard output, then standard error:"
  cat "$scratch/out" "$scratch/err"
  exit 1
}
if [[ -n ${LESSON_FAILS:-} ]]; then
  ((status != 0)) || complain "ended well and should have failed"
  ((status != 124)) || complain "did not end"
  grep -qE -- "$LESSON_FAILS" "$scratch/err" || complain "no line on standard error matches: $LESSON_FAILS"
else
  ((status == 0)) || complain "failed"
fi
if [[ $expected != - ]]; then
  diff -u --label expected --label printed "$expected" "$scratch/out" || complain "printed something else"
fi
