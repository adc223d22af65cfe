#!/usr/bin/env bash
# Installs a build, then builds and runs strangers' projects against the installed tree: in C++ with find_package, and one file
# with pkg-config; in C (stranger_c.sh). At last it removes all that was installed.
# usage: stranger.sh BUILD COMPILER C_COMPILER [EXAMPLES]
#   BUILD      a build folder in which to_install has been built
#   EXAMPLES   a lesson, such as 05_slot_reuse: the installed examples are built and it runs as well
set -euo pipefail
build=$1 compiler=$2 c_compiler=$3 lesson=${4:-}
here=$(realpath "$(dirname "$0")")
stranger=$here/stranger
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix="$scratch/a prefix" tree="$scratch/a tree" # paths as people have them

quietly() { "$@" >"$scratch/log" 2>&1 || { echo "failed: $*" && cat "$scratch/log" && exit 1; }; }
fail() { echo "$*" && exit 1; }
# What the command prints, its lines sorted, is what stands on standard input.
prints() { diff -u --label expected --label printed - <("$@" | sort) || fail "from: $*"; }
# Each file with its size, and where links lead.
files_of() { (cd "$1" && find . \( -type f -printf '%p %s\n' \) -o \( -type l -printf '%p -> %l\n' \) | sort); }

# Packages are made with DESTDIR; who installs has a prefix, and installs again over what is there.
staged=$scratch/staged
DESTDIR=$staged quietly cmake --install "$build" --prefix /opt/shmoe
for time in first second; do
  quietly cmake --install "$build" --prefix "$prefix"
  diff -u <(files_of "$staged/opt/shmoe") <(files_of "$prefix") || fail "the $time time differs from DESTDIR"
done
rm -rf "$staged"
cp "$build/install_manifest.txt" "$scratch/manifest"
mv "$prefix" "$tree" # all that follows is from where it was not installed
# Nothing of the build or the sources: neither from the tree, nor by a path in a library.
if grep -rlF "$build" "$tree/lib/cmake" "$tree/lib/pkgconfig"; then fail "names the build folder $build"; fi

configure() { quietly cmake -S "$1" -B "$2" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$tree"; }
configure "$stranger" "$scratch/build"
quietly cmake --build "$scratch/build"

libdir=$(dirname "$(find "$tree" -name shmoe.pc)")
mapfile -t flags < <(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs shmoe | xargs -n 1)
quietly "$compiler" "$stranger/letter.cpp" "${flags[@]}" -o "$scratch/letter" -Wl,-rpath,"$(dirname "$libdir")"

shmoe=$tree/bin/shmoe
prints "$shmoe" run --no-prefix -n 2 -- "$scratch/build/neighbours" <<'ROWS'
rank 0: 1 10 100 1000
rank 1: 0 0 0 0
ROWS
prints "$shmoe" run --no-prefix -n 2 -- "$scratch/letter" <<<'rank 1 got 1001'
quietly "$scratch/build/protocols" run all
quietly "$shmoe" moe --ranks 2 --steps 2 --tokens 4 --hidden 64 --json "$scratch/report"
for module in shmoe shmoe-c shmoe-c-static; do
  [[ $("$shmoe" --version) == "$(sed -n 's/^Version: /shmoe /p' "$libdir/$module.pc")" ]] || fail "another version: $module"
done
[[ -s $tree/share/man/man1/shmoe-run.1 ]] || fail "no manual pages"
"$here/stranger_c.sh" "$tree" "$c_compiler"

if [[ -n $lesson ]]; then
  examples=$tree/share/doc/shmoe/examples
  configure "$examples" "$scratch/examples"
  quietly cmake --build "$scratch/examples"
  prints "$shmoe" run --no-prefix -n 2 -- "$scratch/examples/$lesson" <"$examples/apps/$lesson/expected.txt"
fi

mv "$tree" "$prefix"
xargs -d '\n' -a "$scratch/manifest" rm -f # it names some twice
[[ -z $(files_of "$prefix") ]] || fail "left after all of install_manifest.txt were removed: $(files_of "$prefix")"
