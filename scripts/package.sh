#!/usr/bin/env bash
# Builds four Debian packages: shmoe, the programs; libshmoe0 and libshmoe-dev, the C library to run with and to build with;
# libshmoe++-dev, the C++ libraries with headers and lessons.
# usage: package.sh [--preset PRESET] [--try FOLDER]
#   --preset PRESET   what they are built from, default release
#   --try FOLDER      installs them in a fresh Debian 12 in FOLDER (docker/prove.sh makes it) and runs them there, as root
# They are written to build/PRESET/debian/. DEBFULLNAME and DEBEMAIL say who made them.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release chroot=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) preset=${2:?} && shift 2 ;;
    --try) chroot=${2:?} && shift 2 ;;
    *) sed -n '2,/^set/{/^#/s/^# \?//p}' "$0" && exit 2 ;;
  esac
done

command -v dpkg-shlibdeps >/dev/null || { echo "no dpkg-shlibdeps: apt-get install dpkg-dev" >&2 && exit 1; }
scripts/install_packages.sh
scripts/build.sh "$preset" to_install

out=$PWD/build/$preset/debian
rm -rf "$out"
mkdir -p "$out/stage/debian"
version=$(sed -n 's/^project(shmoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
maintainer="${DEBFULLNAME:-The shmoe authors} <${DEBEMAIL:-shmoe@localhost.localdomain}>"
# What libshmoe.a and the C++ libraries are linked with.
static='libfmt-dev, libhwloc-dev, libhwy-dev, libspdlog-dev, libtbb-dev, pkg-config'
# The day of the sources: the same commit makes the same package.
made=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH=$made

# stage NAME COMPONENT: what is installed of a component, as the root of a package.
stage() {
  root=$out/stage/$1 doc=$out/stage/$1/usr/share/doc/$1
  echo "== $1 $version"
  DESTDIR=$root cmake --install "build/$preset" --prefix /usr --component "$2" --strip >>"$out/install.log"
  mkdir -p "$doc" "$root/DEBIAN"
  find "$root/usr" -name '*.a' -exec strip --strip-unneeded --remove-section={.comment,.note} --enable-deterministic-archives {} +
  local examples=$root/usr/share/doc/shmoe/examples
  if [[ -d $examples ]]; then
    mv "$examples" "$doc/"
    rmdir "$root/usr/share/doc/shmoe"
  fi
}

# override TAG REASON: what lintian says of this package and is so on purpose.
override() {
  mkdir -p "$root/usr/share/lintian/overrides"
  printf '# %s\n%s: %s\n' "$2" "$(basename "$root")" "$1" >>"$root/usr/share/lintian/overrides/$(basename "$root")"
}

# The files every package has, and those that must be compressed.
finish() {
  if [[ -z ${DEBEMAIL:-} ]]; then
    override bogus-mail-host 'Built without DEBEMAIL, so there is nobody to write to.'
    override bogus-mail-host-in-debian-changelog 'The same.'
  fi
  printf 'shmoe (%s) bookworm; urgency=medium\n\n  * Built from commit %s.\n\n -- %s  %s\n' "$version" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$maintainer" "$(date -Rud "@$made")" |
    gzip -9n >"$doc/changelog.gz"
  {
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: shmoe\n\nFiles: *\n'
    sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
    printf 'License: Expat\n'
    sed -e '1,4d' -e 's/^$/./' -e 's/^/ /' LICENSE
  } >"$doc/copyright"
  find "$root/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || true
  chmod -R u=rwX,go=rX "$root"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
}

# package NAME <<<'fields of its own'
package() {
  finish
  {
    printf 'Package: %s\n' "$1"
    [[ $1 == shmoe ]] || echo 'Source: shmoe'
    printf 'Version: %s\nArchitecture: %s\nMaintainer: %s\n' "$version" "$(dpkg --print-architecture)" "$maintainer"
    printf 'Installed-Size: %s\nPriority: optional\n' "$(du -k -s --apparent-size --exclude=DEBIAN "$root" | cut -f 1)"
    cat
  } >"$root/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$root" "$out" >"$out/$1.log" || { cat "$out/$1.log" && exit 1; }
}

# links FILE...: fields that say which packages the files load libraries of.
links() {
  (cd "$out/stage" && dpkg-shlibdeps -O "$@") | sed -n 's/^shlibs:\([A-Za-z]*\)=/\1: /p'
}

# dpkg-shlibdeps wants to be in a source package.
printf 'Source: shmoe\n\nPackage: shmoe\nArchitecture: any\n' >"$out/stage/debian/control"

stage shmoe programs
rm -f "$root/usr/share/doc/shmoe/LICENSE"
for helper in shmoe-first-operator shmoe-stuck; do # programs that `shmoe bench` starts
  echo '.so man1/shmoe-bench.1' >"$root/usr/share/man/man1/$helper.1"
done
# MPI is there for the benchmarks alone.
package shmoe <<END
Section: devel
$(links -dDepends "$root/usr/bin/shmoe" -dRecommends "$root"/usr/bin/shmoe-*)
Description: mixture-of-experts communication on one Linux machine
 Runs the dispatch and combine of mixture-of-experts models between processes
 with POSIX shared segments, synchronised by wait and notify polling on flags.
 Proves deadlocks, names their causes, and checks protocols under all
 schedules.
END

stage libshmoe0 c_library
printf 'libshmoe 0 libshmoe0 (>= %s)\n' "$version" >"$root/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
package libshmoe0 <<END
Section: libs
$(links "$root/usr/lib/libshmoe.so.$version")
Description: mixture-of-experts communication for programs in C
 Ranks, symmetric memory, and the operators of expert-parallel models, for
 programs in C and whatever calls C.
END

for_this_machine='Libraries lie in /usr/lib, where any other prefix has them: packages are for the machine that built them.'
stage libshmoe-dev c_development
override pkg-config-unavailable-for-cross-compilation "$for_this_machine"
package libshmoe-dev <<END
Section: libdevel
Depends: libshmoe0 (= $version)
Recommends: shmoe (= $version)
Suggests: $static
Description: mixture-of-experts communication for programs in C, to build them
 shmoe.h and the libraries: find_package(shmoe COMPONENTS c) in CMake, or
 pkg-config shmoe-c. The static library, shmoe::c_static or shmoe-c-static, is
 linked with what is suggested.
 .
 An example is in /usr/share/doc/libshmoe-dev/examples.
END

stage libshmoe++-dev development
override pkg-config-unavailable-for-cross-compilation "$for_this_machine"
package libshmoe++-dev <<END
Section: libdevel
Depends: shmoe (= $version), libshmoe-dev (= $version), libboost-dev, libboost-context-dev, libcli11-dev, nlohmann-json3-dev, $static
Description: mixture-of-experts communication for programs in C++, to build them
 Ranks, symmetric memory, flags, and the operators of expert-parallel models,
 for programs of one's own: find_package(shmoe) in CMake, or pkg-config shmoe.
 .
 The lessons are in /usr/share/doc/libshmoe++-dev/examples.
END
rm -rf "$out/stage"
ls -s --block-size=K "$out"/*.deb

# In a fresh Debian 12: each package with no more than it asks for, used, put in again, and gone without a trace.
try_in() {
  echo "== in a fresh Debian 12"
  mkdir -p "$out/debs"
  cp "$out"/*.deb "$out/debs/"
  local install='apt-get -q install -y --no-install-recommends'
  local debs=/opt/shared lesson=01_notify_wait
  local c_example=/usr/share/doc/libshmoe-dev/examples/c_api cxx_examples=/usr/share/doc/libshmoe++-dev/examples
  local run="cd / && shmoe run --no-prefix -n 2 --"
  local ours="find / -xdev -name '*shmoe*' ! -path '/opt/*' ! -path '/tmp/*'"
  docker/prove.sh --shared "$out/debs" "$1" \
    "apt-get -q update && $install $debs/shmoe_*.deb" \
    'cd / && shmoe moe --ranks 2' \
    'cd / && shmoe museum run S1 && shmoe check run sync_all --runs 2000' \
    'for program in /usr/bin/shmoe*; do test -s "/usr/share/man/man1/$(basename "$program").1.gz" || exit 1; done' \
    "$install $debs/libshmoe0_*.deb $debs/libshmoe-dev_*.deb gcc libc6-dev pkg-config" \
    "! command -v g++ && gcc $c_example/main.c \$(pkg-config --cflags --libs shmoe-c) -o /tmp/c_api" \
    "$run /tmp/c_api | diff $c_example/expected.txt -" \
    "$install $debs/libshmoe++-dev_*.deb g++ cmake make" \
    "cmake -S $c_example -B /tmp/c_example && cmake --build /tmp/c_example && $run /tmp/c_example/c_api" \
    "gcc $c_example/main.c \$(pkg-config --cflags --libs shmoe-c-static) -o /tmp/c_static && $run /tmp/c_static" \
    "cmake -S $cxx_examples -B /tmp/lessons && cmake --build /tmp/lessons --target $lesson && $run /tmp/lessons/$lesson" \
    "$install --reinstall $debs/*.deb && shmoe --version" \
    "apt-get -q purge -y shmoe 'libshmoe*' && ! command -v shmoe && ! ldconfig -p | grep libshmoe && ! $ours | grep ."
}
if [[ -n $chroot ]]; then try_in "$chroot"; fi

if command -v lintian >/dev/null; then
  echo "== lintian"
  lintian --allow-root --fail-on error,warning "$out"/*.deb
  echo "   no errors, no warnings"
fi
