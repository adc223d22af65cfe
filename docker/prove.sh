#!/usr/bin/env bash
# Proves the Dockerfile, or any commands, on a fresh Debian 12 where no container engine runs: a debootstrap chroot with its
# own mounts and processes, a clean clone of this checkout's HEAD, and nothing else of this machine.
#
# usage: prove.sh [options] FOLDER [COMMAND...]
#   FOLDER            where the chroot goes (about 2 GB); the base system and fetched packages in it are used again
#   COMMAND...        each is one shell command run in the clone; without any, the Dockerfile is followed
#   --shared DIR      put a copy of DIR beside the clone as ../shared
#   --shm-size SIZE   size of /dev/shm (default 2g; a container has 64m unless told otherwise)
set -euo pipefail
repo=$(cd "$(dirname "$0")/.." && pwd)
shared='' shm_size=2g
while [[ ${1:-} == --* ]]; do
  case $1 in
    --shared) shared=$(realpath "$2") && shift 2 ;;
    --shm-size) shm_size=$2 && shift 2 ;;
    *) echo "unknown option $1" >&2 && exit 2 ;;
  esac
done
[[ $# -ge 1 ]] || { sed -n '2,/^set/{/^#/p}' "$0" && exit 2; }
[[ $EUID -eq 0 ]] || { echo "needs root: it mounts and changes root" >&2 && exit 2; }
command -v debootstrap >/dev/null || { echo "no debootstrap: apt-get install debootstrap" >&2 && exit 1; }
mkdir -p "$1"
folder=$(realpath "$1")
shift
base=$folder/base root=$folder/root

# The mirror and the proxy of this machine's apt: host names stay out of the repository.
host_sources() {
  apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u |
    awk '{print "deb", $1, $2, $3}' | grep -E ' bookworm'
}
host_apt_settings() { apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-|Retries)' || true; }

if [[ ! -e $base/.complete ]]; then
  echo "== debootstrap"
  mirror=$(host_sources | awk '$3 == "bookworm" {print $2; exit}')
  [[ -n $mirror ]] || { echo "apt knows no Debian bookworm mirror; run apt-get update first" >&2 && exit 1; }
  rm -rf "$base"
  debootstrap --variant=minbase --include=git,ca-certificates bookworm "$base" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    { tail -n 30 "$folder/debootstrap.log" && exit 1; }
  touch "$base/.complete"
fi

echo "== fresh copy of the base system"
rm -rf "$root" "$folder/clone"
cp -a --reflink=auto "$base" "$root"
host_sources >"$root/etc/apt/sources.list"
host_apt_settings >"$root/etc/apt/apt.conf.d/50host"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
git clone -q "$repo" "$folder/clone"
mkdir -p "$folder/packages"

# One command in the chroot. Its mounts and processes are its own, so they are gone when it ends.
inside() {
  local dir=$1 command=$2
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1 dir=$2 command=$3 shm_size=$4 packages=$5
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs -o mode=755 dev "$root/dev"
    mkdir "$root"/dev/{pts,shm}
    for spec in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
      set -- $spec
      mknod -m 666 "$root/dev/$1" c "$2" "$3"
    done
    ln -s /proc/self/fd "$root/dev/fd"
    ln -s /proc/self/fd/0 "$root/dev/stdin"
    ln -s /proc/self/fd/1 "$root/dev/stdout"
    ln -s /proc/self/fd/2 "$root/dev/stderr"
    ln -s pts/ptmx "$root/dev/ptmx"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777,size="$shm_size" shm "$root/dev/shm"
    mount --bind "$packages" "$root/var/cache/apt/archives"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      HOME=~root TERM=dumb http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
      /bin/sh -c "cd \"\$1\" && exec /bin/sh -c \"\$2\"" sh "$dir" "$command"
  ' bash "$root" "$dir" "$command" "$shm_size" "$folder/packages"
}
timed() {
  local start=$SECONDS
  echo "== $2"
  inside "$1" "$2" || { echo "== failed after $((SECONDS - start)) s: $2" && exit 1; }
  echo "== ended well after $((SECONDS - start)) s"
}
put_shared() { if [[ -n $shared ]]; then cp -a "$shared" "$root$(dirname "$1")/shared"; fi; }

if [[ $# -gt 0 ]]; then
  mkdir -p "$root/opt"
  cp -a "$folder/clone" "$root/opt/shmoe"
  put_shared /opt/shmoe
  for command in "$@"; do timed /opt/shmoe "$command"; done
  exit 0
fi

# The few Dockerfile instructions we use, with continued lines joined. Anything else is an error rather than a gap.
workdir=/
while read -r instruction rest; do
  case $instruction in
    '' | '#'*) ;;
    FROM) [[ $rest == debian:bookworm ]] || { echo "FROM $rest: only debian:bookworm is known here" >&2 && exit 1; } ;;
    WORKDIR)
      workdir=$rest
      mkdir -p "$root$workdir"
      put_shared "$workdir"
      ;;
    COPY)
      read -ra words <<<"$rest"
      target=$root$workdir/${words[-1]}
      mkdir -p "$target"
      for source in "${words[@]:0:${#words[@]}-1}"; do
        if [[ -d $folder/clone/$source ]]; then source+=/.; fi
        cp -a "$folder/clone/$source" "$target"
      done
      ;;
    RUN) timed "$workdir" "$rest" </dev/null ;;
    CMD) timed "$workdir" "$(python3 -c 'import json, shlex, sys; print(shlex.join(json.loads(sys.argv[1])))' "$rest")" </dev/null ;;
    *) echo "Dockerfile instruction $instruction is not known here" >&2 && exit 1 ;;
  esac
done < <(sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' "$repo/docker/Dockerfile")
