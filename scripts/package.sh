#!/usr/bin/env bash
# Builds two Debian packages: shmoe, the programs, and libshmoe-dev, the libraries with headers and lessons.
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
# The day of the sources: the same commit makes the same package.
made=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH=$made

# The files every package has, and those that must be compressed.
finish() {
  local name=$1 root=$2 doc
  doc=$root/usr/share/doc/$name
  mkdir -p "$doc"
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
  mkdir -p "$root/DEBIAN"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
}

# control NAME ROOT <<<'fields of its own'
control() {
  local name=$1 root=$2
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$name" "$version" "$(dpkg --print-architecture)" "$maintainer"
    printf 'Installed-Size: %s\nPriority: optional\n' "$(du -k -s --apparent-size --exclude=DEBIAN "$root" | cut -f 1)"
    cat
  } >"$root/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$root" "$out" >"$out/$name.log" || { cat "$out/$name.log" && exit 1; }
}

# dpkg-shlibdeps wants to be in a source package.
printf 'Source: shmoe\n\nPackage: shmoe\nArchitecture: any\n' >"$out/stage/debian/control"

echo "== shmoe $version"
programs=$out/stage/shmoe
DESTDIR=$programs cmake --install "build/$preset" --prefix /usr --component programs --strip >"$out/install.log"
rm -f "$programs/usr/share/doc/shmoe/LICENSE"
for helper in shmoe-first-operator shmoe-stuck; do # programs that `shmoe bench` starts
  echo '.so man1/shmoe-bench.1' >"$programs/usr/share/man/man1/$helper.1"
done
finish shmoe "$programs"
# MPI is there for the benchmarks alone.
shlibs=$(cd "$out/stage" && dpkg-shlibdeps -O -dDepends shmoe/usr/bin/shmoe -dRecommends shmoe/usr/bin/shmoe-*)
control shmoe "$programs" <<END
Section: devel
$(sed -n 's/^shlibs:\([A-Za-z]*\)=/\1: /p' <<<"$shlibs")
Description: mixture-of-experts communication on one Linux machine
 Runs the dispatch and combine of mixture-of-experts models between processes
 with POSIX shared segments, synchronised by wait and notify polling on flags.
 Proves deadlocks, names their causes, and checks protocols under all
 schedules.
END

echo "== libshmoe-dev $version"
development=$out/stage/libshmoe-dev
DESTDIR=$development cmake --install "build/$preset" --prefix /usr --component development >>"$out/install.log"
mkdir -p "$development/usr/share/doc/libshmoe-dev"
mv "$development/usr/share/doc/shmoe/examples" "$development/usr/share/doc/libshmoe-dev/"
rmdir "$development/usr/share/doc/shmoe"
find "$development/usr/lib" -name '*.a' -exec strip --strip-debug --enable-deterministic-archives {} +
finish libshmoe-dev "$development"
control libshmoe-dev "$development" <<END
Section: libdevel
Depends: shmoe (= $version), libboost-dev, libboost-context-dev, libcli11-dev, libfmt-dev, libhwloc-dev, libhwy-dev, libspdlog-dev, libtbb-dev, nlohmann-json3-dev, pkg-config
Description: libraries of shmoe, with headers and lessons
 Ranks, symmetric memory, flags, and the operators of expert-parallel models,
 for programs of one's own: find_package(shmoe) in CMake, or pkg-config shmoe.
 The lessons are in /usr/share/doc/libshmoe-dev/examples.
END
rm -rf "$out/stage"
ls -s --block-size=K "$out"/*.deb
if command -v lintian >/dev/null; then lintian --fail-on error,warning "$out"/*.deb; fi
[[ -n $chroot ]] || exit 0

echo "== in a fresh Debian 12"
mkdir -p "$out/debs"
cp "$out"/*.deb "$out/debs/"
lesson=01_notify_wait
docker/prove.sh --shared "$out/debs" "$chroot" \
  'apt-get -q update && apt-get -q install -y --no-install-recommends /opt/shared/shmoe_*.deb' \
  'cd / && shmoe moe --ranks 2' \
  'cd / && shmoe museum run S1 && shmoe check run sync_all' \
  'apt-get -q install -y --no-install-recommends /opt/shared/libshmoe-dev_*.deb g++ cmake make' \
  "cmake -S /usr/share/doc/libshmoe-dev/examples -B /tmp/lessons && cmake --build /tmp/lessons --target $lesson" \
  "shmoe run --no-prefix -n 2 -- /tmp/lessons/$lesson" \
  'apt-get -q purge -y shmoe && ! command -v shmoe && test ! -e /usr/include/shmoe'
