#!/usr/bin/env bash
# check_all.sh SHMOE RUNS SECONDS: every program in the worlds that the project promises to be clean, RUNS schedules with a
# fixed seed and as many with a fresh one, and SECONDS of the schedules with two delays.
# The fresh one is SHMOE_TEST_SEED where that is set.
set -euo pipefail
shmoe=$1
runs=$2
seconds=$3
fresh=${SHMOE_TEST_SEED:-$RANDOM}
echo "fresh seed $fresh"
worlds=(
  "--ranks 2 --cores 2"
  "--ranks 3 --cores 1"
  "--ranks 2 --cores 2 --no-views"
  "--ranks 3 --cores 1 --no-views"
  "--ranks 2 --cores 1 --from 4294967294"
  "--ranks 2 --cores 2 --from 281474976710640"
  "--ranks 1 --cores 3"
  "--ranks 4 --cores 2 --rounds 4"
)
for world in "${worlds[@]}"; do
  for seed in 1 "$fresh"; do
    echo "== $world --seed $seed"
    # shellcheck disable=SC2086  # a world is several words
    "$shmoe" check run all $world --runs "$runs" --seed "$seed" | sed -n '/FAILED\|programs as expected/p;/again, with/,$p'
  done
done
echo "== recorded"
while read -r verdict schedule; do
  told=$("$shmoe" check replay "$schedule") && { echo "$schedule does not fail any more" && exit 1; }
  [[ $told == "${verdict//_/ }: "* ]] || { printf '%s ends with:\n%s\n' "$schedule" "$told" && exit 1; }
  echo "$verdict $schedule"
done <<'END'
overrun shmoe1:published.double_barrier:r2c1n3-faithful-2026-07:ib
overrun shmoe1:published.barrier_pair:r2c1n3-faithful-2026-08:ib
deadlock_cycle shmoe1:published.idle_cores:r2c2n3-faithful-2026-07:
SyncAll_mismatch shmoe1:fault.idle_core_leaves:r1c3n3:
orphan_wait shmoe1:fault.forgotten_notify:r2c1n3:
END
echo "== bounded"
"$shmoe" check run pipeline --strategy delay3
"$shmoe" check run all --strategy delay2 --time "$seconds" |
  sed -n '/FAILED\|programs as expected/p;/again, with/,$p'
