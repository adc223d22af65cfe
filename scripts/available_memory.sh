#!/usr/bin/env bash
# Runs a command, and prints how long it took and by how much the memory that the system has available fell meanwhile:
# that counts page tables and shared pages as well. Says something of a job only where nothing else runs.
# usage: available_memory.sh COMMAND [ARGUMENT...]
set -euo pipefail
if (($# == 0)); then
  sed -n '2,/^set/{/^#/s/^# \?//p}' "$0"
  exit 2
fi
available() { awk '/^MemAvailable/ {print $2}' /proc/meminfo; }

before=$(available)
start=$(date +%s%N)
"$@" &
command=$!
least=$before
while kill -0 "$command" 2>/dev/null; do
  now=$(available)
  ((now < least)) && least=$now
  sleep 0.1
done
status=0
wait "$command" || status=$?
end=$(date +%s%N)
awk -v s=$((end - start)) -v kib=$((before - least)) \
  'BEGIN {printf "%.1f s; available memory fell by %.2f GB\n", s / 1e9, kib * 1024 / 1e9}' >&2
exit "$status"
