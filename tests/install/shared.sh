#!/usr/bin/env bash
# Builds everything that is installed once more with shared libraries, and gives it to a stranger with the lessons.
# usage: shared.sh SOURCE BUILD COMPILER C_COMPILER [CMAKE_ARGUMENT]...
#   BUILD   where to; kept, so that the next time only what has changed is built
set -euo pipefail
source=$1 build=$2 compiler=$3 c_compiler=$4
shift 4
mkdir -p "$build"
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="$c_compiler" -DBUILD_SHARED_LIBS=ON "$@" >"$build/log" 2>&1 &&
  cmake --build "$build" --target to_install >>"$build/log" 2>&1 || { tail -n 100 "$build/log" && exit 1; }
"$(dirname "$0")/stranger.sh" "$build" "$compiler" "$c_compiler" 05_slot_reuse
