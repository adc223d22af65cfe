#!/usr/bin/env bash
# Searches for inputs that break a parser. Each target runs on a copy of its corpus, two at a time; fuzz/README.md.
# usage: fuzz.sh [--tally FILE] [SECONDS] [TARGET...]
#   SECONDS   of each target, 60 without; TARGET: a folder of fuzz/corpora, all without
#   --tally   appends "passed failed skipped" of each target to the file
# Exit code: 0 nothing found, 1 something found, or a target that cannot run; 2 usage.
set -euo pipefail
cd "$(dirname "$0")/.."

tally=/dev/null
if [[ ${1:-} == --tally ]]; then tally=$2 && shift 2; fi
seconds=${1:-60}
shift || true
mapfile -t known < <(ls fuzz/corpora)
targets=("$@")
if (($# == 0)); then targets=("${known[@]}"); fi
for target in "${targets[@]}"; do
  if [[ ! $seconds =~ ^[1-9][0-9]*$ || ! -d fuzz/corpora/$target ]]; then
    sed -n '2,/^set/{/^#/s/^# \?//p}' "$0"
    echo "targets: ${known[*]}"
    exit 2
  fi
done

probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
if ! clang++-14 -fsanitize=fuzzer -x c++ -o /dev/null - <<<"$probe" 2>/dev/null; then
  echo "skipped: clang++-14 links no fuzzer here; it comes with libclang-rt-14-dev"
  echo "0 0 ${#targets[@]}" >>"$tally"
  exit 0
fi
if ! scripts/build.sh fuzz; then
  echo "0 ${#targets[@]} 0" >>"$tally"
  exit 1
fi

found=build/fuzz/found
# No parser takes more than this for an input of 4 KiB, whatever stands in it.
limits=(-max_len=4096 -malloc_limit_mb=16 -rss_limit_mb=1024 -timeout=60)

search() {
  local here=$found/$1
  rm -rf "$here"
  mkdir -p "$here/corpus"
  cp fuzz/corpora/"$1"/* "$here/corpus"
  "build/fuzz/fuzz/fuzz_$1" "$here/corpus" "${limits[@]}" -max_total_time="$seconds" -artifact_prefix="$here/" \
    -print_final_stats=1 >"$here/log" 2>&1 || touch "$here/failed"
}

figure() { sed -n "s/.*$2 *\([0-9][0-9]*\).*/\1/p" "$found/$1/log" | tail -n 1; }

report() {
  local here=$found/$1 findings
  mapfile -t findings < <(find "$here" -maxdepth 1 -regex '.*/\(crash\|leak\|oom\|timeout\)-.*')
  printf '   %-9s %9s runs in %s s, coverage %s, %s new units, %s findings\n' "$1" \
    "$(figure "$1" 'number_of_executed_units:')" "$seconds" "$(figure "$1" ' cov:')" \
    "$(figure "$1" 'new_units_added:')" "${#findings[@]}"
  if [[ ! -e $here/failed ]]; then
    echo "1 0 0" >>"$tally"
    return 0
  fi
  echo "0 1 0" >>"$tally"
  for finding in "${findings[@]}"; do
    echo "   found:  $finding"
    echo "   repeat: build/fuzz/fuzz/fuzz_$1 $finding"
  done
  grep -m 3 -A 2 'does not hold\|ERROR: \|runtime error' "$here/log" || tail -n 20 "$here/log"
  return 1
}

for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do wait -n; done
  search "$target" &
done
wait
status=0
for target in "${targets[@]}"; do report "$target" || status=1; done
exit $status
