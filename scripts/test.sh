#!/usr/bin/env bash
# Everything that must hold: gates, both compilers, all tests, the fast ones again under the sanitisers, and a minute of
# search for each fuzz target.
# usage: test.sh [--fast | --all]
#   --fast   gates, and the tests of the gcc preset only
#   --all    all tests under dev, clang, release, asan and tsan, the slow ones too, and clang-tidy
# Without --all the sanitisers leave out the long cases, and sources are compiled several at a time, which takes less than
# half of the time and hides a missing include.
# The last line is "N passed, N failed", with ", N skipped" where tests were skipped; the exit code says the same.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
case $mode in '' | --fast | --all) ;; *) sed -n '2,/^set/{/^#/p}' "$0" && exit 2 ;; esac

# Debian's python, which sees Debian's modules, before any other.
export PATH=/usr/bin:$PATH
# Tests start Open MPI as whoever runs them, on as few processors as there are.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp
export SHMOE_TEST_SEED=${SHMOE_TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}

results=build/results
tally=$results/tally
rm -rf "$results"
mkdir -p "$results"
: >"$tally"
count() { echo "$1 $2 $3" >>"$tally"; }

stage() {
  local name=$1 start=$SECONDS counted
  shift
  echo "== $name"
  counted=$(wc -l <"$tally")
  "$@" || true # what failed is in the tally
  # A stage that died before it could count is a failure, not a blank.
  (($(wc -l <"$tally") > counted)) || count 0 1 0
  echo "   $name took $((SECONDS - start)) s"
}

# A step with one verdict.
verdict() { if "$@"; then count 1 0 0; else count 0 1 0; fi; }

# These start processes or wait for them, so one at a time.
one_by_one='mpi|procs|apps|museum'
# Not without --all.
slow=slow
if [[ $mode == --all ]]; then slow=none; fi

# run_ctest PRESET NAME CTEST_ARGUMENT...
run_ctest() {
  local preset=$1 report=$PWD/$results/$1-$2.xml status=0 as_is=()
  shift 2
  # The thread sanitiser of g++ 12 refuses some randomised address layouts.
  if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then as_is=(setarch -R); fi
  (cd "build/$preset" && "${as_is[@]}" ctest --no-tests=ignore --output-on-failure --output-junit "$report" "$@") ||
    status=$?
  python3 scripts/read_junit.py "$report" "$status" >>"$tally" || count 0 1 0
}

# test_preset PRESET all|fast
test_preset() {
  local targets=()
  if [[ $2 == fast ]]; then targets=(fast_tests); fi
  if ! scripts/build.sh "$1" "${targets[@]}"; then
    count 0 1 0
    return
  fi
  if [[ $2 == fast ]]; then
    run_ctest "$1" fast -j "$(nproc)" -L '^(unit|threads)$' -LE '^(slow|long)$'
  else
    run_ctest "$1" parallel -j "$(nproc)" -LE "^($one_by_one|$slow)$"
    run_ctest "$1" one-by-one -j 1 -L "^($one_by_one)$" -LE "^$slow$"
  fi
}

# Objects of ours in shared memory, for this user. They live only until all ranks have mapped them.
shared_objects() { find /dev/shm -maxdepth 1 -name 'shmoe*' -user "$(id -u)" -printf '%f\n' | sort; }
nothing_left() {
  local left
  left=$(comm -13 "$results/shm_before" <(shared_objects))
  if [[ -n $left ]]; then
    sleep 3 # a job of somebody else may be starting just now
    left=$(comm -12 <(echo "$left") <(shared_objects))
  fi
  [[ -z $left ]] || { printf 'left in /dev/shm by a test:\n%s\n' "$left" && return 1; }
}

if ! scripts/install_packages.sh; then
  echo "0 passed, 1 failed"
  exit 1
fi
shared_objects >"$results/shm_before"
if [[ -s $results/shm_before ]]; then
  echo "in /dev/shm before any test, so not counted; 'shmoe clean' removes what a dead job left:"
  cat "$results/shm_before"
fi
echo "== seed $SHMOE_TEST_SEED (SHMOE_TEST_SEED=$SHMOE_TEST_SEED repeats this run)"

stage "gates" scripts/lint.sh --tally "$tally"
stage "gates fail when they should" python3 scripts/lint_test.py --tally "$tally"
if [[ $mode != --all ]]; then stage "gcc" test_preset gcc all; fi
case $mode in
  '')
    stage "clang compiles everything" verdict scripts/build.sh clang
    stage "asan" test_preset asan fast
    stage "tsan" test_preset tsan fast
    ;;
  --all)
    for preset in dev clang release asan tsan; do stage "$preset" test_preset "$preset" all; done
    stage "every header" scripts/lint.sh --only all-headers --tally "$tally"
    stage "clang-tidy" verdict scripts/tidy.sh --all
    ;;
esac
if [[ $mode != --fast ]]; then stage "fuzz" scripts/fuzz.sh --tally "$tally" 60; fi
stage "nothing left in shared memory" verdict nothing_left

echo "== $((SECONDS / 60)) min $((SECONDS % 60)) s in all"
read -r passed failed skipped < <(awk '{p += $1; f += $2; s += $3} END {print p + 0, f + 0, s + 0}' "$tally")
if ((skipped > 0)); then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
((failed == 0))
