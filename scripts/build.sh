#!/usr/bin/env bash
# Configures and builds one preset. Shows progress; shows compiler output only when something fails.
# usage: build.sh PRESET [TARGET...]
#   everything without a target; `lessons` is the command line and all lessons, apps/shmoe/shmoe the command line alone
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:---help}
presets=$(sed -n '/"buildPresets"/,/\]/s/.*"name": "\([a-z]*\)".*/\1/p' CMakePresets.json | tr '\n' ' ')
if [[ " $presets" != *" $preset "* ]]; then
  sed -n '2,/^[^#]/{/^#/s/^# \?//p}' scripts/build.sh
  echo "presets: $presets"
  exit 2
fi
shift
mkdir -p "build/$preset"
log=build/$preset/build.log

# Picked up by cmake at the first configure. Without ccache the build is only slower.
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi

if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log"
  exit 1
fi

# Ninja prints "[done/all] what". On a terminal one line is rewritten; in a log file ten lines a build are enough.
show_progress() {
  local line ready all tenth last=0
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    ready=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    if [[ -t 1 ]]; then
      printf '\r\033[K   %s %s' "$preset" "${line:0:90}"
    else
      tenth=$((ready * 10 / all))
      if ((tenth > last)); then
        last=$tenth
        echo "   $preset $ready of $all"
      fi
    fi
  done
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}

# Keeps going after an error so that one run shows every broken file.
if ! cmake --build --preset "$preset" -j "$(nproc)" ${1:+--target "$@"} -- -k 0 2>&1 | tee -a "$log" | show_progress; then
  sed -n '/^FAILED: \|^ninja: error/,$p' "$log" | head -n 200
  echo "build of $preset failed; the whole log: $log"
  exit 1
fi
