#!/usr/bin/env bash
# Installs a build, then builds and runs a stranger's project against the installed tree: with find_package, and one file
# with pkg-config.
# usage: stranger.sh BUILD COMPILER [EXAMPLES]
#   BUILD      a build folder in which to_install has been built
#   EXAMPLES   a lesson, such as 05_slot_reuse: the installed examples are built and it runs as well
set -euo pipefail
build=$1 compiler=$2 lesson=${3:-}
stranger=$(realpath "$(dirname "$0")/stranger")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree

quietly() { "$@" >"$scratch/log" 2>&1 || { echo "failed: $*" && cat "$scratch/log" && exit 1; }; }
# What the command prints, its lines sorted, is what stands on standard input.
prints() { diff -u --label expected --label printed - <("$@" | sort) || { echo "from: $*" && exit 1; }; }

quietly cmake --install "$build" --prefix "$tree"
# Nothing of the build or the sources: neither from the tree, nor by a path in a library.
if grep -rlF "$build" "$tree/lib/cmake" "$tree/lib/pkgconfig"; then echo "names the build folder $build" && exit 1; fi

configure() { quietly cmake -S "$1" -B "$2" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$tree"; }
configure "$stranger" "$scratch/build"
quietly cmake --build "$scratch/build"

libdir=$(dirname "$(find "$tree" -name shmoe.pc)")
mapfile -t flags < <(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs shmoe | xargs -n 1)
quietly "$compiler" "$stranger/letter.cpp" "${flags[@]}" -o "$scratch/letter" -Wl,-rpath,"$(dirname "$libdir")"

shmoe=$tree/bin/shmoe
prints "$shmoe" run --no-prefix -n 2 -- "$scratch/build/neighbours" <<'END'
rank 0: 1 10 100 1000
rank 1: 0 0 0 0
END
prints "$shmoe" run --no-prefix -n 2 -- "$scratch/letter" <<<'rank 1 got 1001'
quietly "$scratch/build/protocols" run all
quietly "$shmoe" moe --ranks 2 --steps 2 --tokens 4 --hidden 64 --json "$scratch/report"
[[ $("$shmoe" --version) == "$(sed -n 's/^Version: /shmoe /p' "$libdir/shmoe.pc")" ]] || { echo "versions differ" && exit 1; }
[[ -s $tree/share/man/man1/shmoe-run.1 ]] || { echo "no manual pages" && exit 1; }

if [[ -n $lesson ]]; then
  examples=$tree/share/doc/shmoe/examples
  configure "$examples" "$scratch/examples"
  quietly cmake --build "$scratch/examples"
  prints "$shmoe" run --no-prefix -n 2 -- "$scratch/examples/$lesson" <"$examples/apps/$lesson/expected.txt"
fi
