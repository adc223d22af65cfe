#!/usr/bin/env bash
# Builds and runs a stranger's program in C against an installed tree: with find_package and with pkg-config, and each with
# libshmoe.so and with libshmoe.a.
# usage: stranger_c.sh TREE COMPILER
set -euo pipefail
tree=$1 compiler=$2
example=$(find "$tree" -path '*/examples/c_api' -type d)
shmoe=$tree/bin/shmoe
here=$(realpath "$(dirname "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$example/main.c" "$here/stranger_c/CMakeLists.txt" "$scratch"

quietly() { "$@" >"$scratch/log" 2>&1 || { echo "failed: $*" && cat "$scratch/log" && exit 1; }; }
fail() { echo "$*" && exit 1; }

# computes PROGRAM: two ranks of it print what the example says.
computes() {
  "$shmoe" run --no-prefix -n 2 -- "$1" >"$scratch/out" || fail "failed: $1"
  diff -u "$example/expected.txt" "$scratch/out" || fail "from: $1"
}
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
# What a program names to be loaded with it: of libshmoe.so that library alone, and no C++.
is_shared() { [[ $(needed "$1" | grep -v '^libc\.so') == libshmoe.so.* ]] || fail "$1 loads: $(needed "$1")"; }
is_static() { if needed "$1" | grep libshmoe; then fail "$1 is not static"; fi; }

# With libshmoe.so nothing but the tree is looked at.
nothing_else=()
for name in Boost CLI11 PkgConfig TBB Threads fmt nlohmann_json spdlog; do
  nothing_else+=("-DCMAKE_DISABLE_FIND_PACKAGE_$name=ON")
done
configure() { quietly cmake -S "$1" -B "$2" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$tree" "${@:3}"; }
configure "$example" "$scratch/shared" "${nothing_else[@]}"
quietly cmake --build "$scratch/shared"
is_shared "$scratch/shared/c_api"
computes "$scratch/shared/c_api"

configure "$scratch" "$scratch/both"
quietly cmake --build "$scratch/both"
is_shared "$scratch/both/with_shared"
is_static "$scratch/both/with_static"
computes "$scratch/both/with_static"

libdir=$(dirname "$(find "$tree" -name 'libshmoe.so')")
strict=(-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
# flags MODULE: a word each, whatever its path has in it.
flags() { pkg-config --cflags --libs "$1" | xargs -n 1; }
export PKG_CONFIG_PATH=$libdir/pkgconfig
mapfile -t shared_flags < <(PKG_CONFIG_LIBDIR='' flags shmoe-c)
quietly "$compiler" "${strict[@]}" "$scratch/main.c" "${shared_flags[@]}" -o "$scratch/c_shared" -Wl,-rpath,"$libdir"
is_shared "$scratch/c_shared"
computes "$scratch/c_shared"

mapfile -t static_flags < <(flags shmoe-c-static)
quietly "$compiler" "${strict[@]}" "$scratch/main.c" "${static_flags[@]}" -o "$scratch/c_static"
is_static "$scratch/c_static"
computes "$scratch/c_static"
