#!/usr/bin/env bash
# Proves docker/compose.yaml where no container engine runs: the same namespaces by unshare and nsenter, with the
# capabilities that Docker leaves to a container. Its seccomp profile is not put on.
# usage: prove_sharing.sh [--without ipc|pid|net] SHMOE [ARGUMENT...]
#   --without NAME   the second rank gets a namespace of its own instead, which shows what sharing it is good for
#   SHMOE            the program; ARGUMENT: of `shmoe moe`, default --steps 3 --tokens 16
set -euo pipefail
without=''
if [[ ${1:-} == --without ]]; then without=${2:?} && shift 2; fi
[[ $# -ge 1 && $without =~ ^(|ipc|pid|net)$ ]] || { sed -n '2,/^set/{/^#/p}' "$0" && exit 2; }
[[ $EUID -eq 0 ]] || { echo "needs root: it makes namespaces" >&2 && exit 2; }
shmoe=$(realpath "$1")
shift
if [[ $# -eq 0 ]]; then set -- --steps 3 --tokens 16; fi

scratch=$(mktemp -d)
# The first process of a pid namespace takes all others with it.
trap 'kill -KILL "$holder" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT

# The service "holder": first process of the namespaces that the ranks join. It reads a pipe that nobody writes.
mkfifo "$scratch/ready" "$scratch/never"
unshare --mount --pid --fork --kill-child --ipc --net --uts bash -euc '
  mount --make-rprivate /
  mount -t proc proc /proc
  mount -t tmpfs -o size=2g,mode=1777 shm /dev/shm
  ip link set lo up
  echo up >"$1/ready"
  exec cat "$1/never"' bash "$scratch" &
holder=$!
disown "$holder" # its end is nobody's news
read -r <"$scratch/ready"
# Of the process that unshare forked, which is in the namespaces.
inner=$(ps -o pid= --ppid "$holder" | tr -d ' ')
holds=/proc/$inner/ns

caps=-all
for name in chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write setfcap; do
  caps+=,+$name
done

# rank R: a container with a root, a /proc and a name of its own.
rank() {
  local rank=$1 join=() own=(--mount --uts) shared=/proc/$inner/root/dev/shm
  shift
  for kind in ipc pid net; do
    if [[ $rank == 1 && $kind == "$without" ]]; then own+=("--$kind"); else join+=("--$kind=$holds/$kind"); fi
  done
  if [[ $rank == 1 && $without == ipc ]]; then shared=''; fi
  # The folder is opened before the namespaces change.
  exec 9<"${shared:-/}"
  exec nsenter "${join[@]}" -- unshare "${own[@]}" --fork --kill-child bash -euc '
    shared=$1 rank=$2 caps=$3 shmoe=$4
    shift 4
    mount --make-rprivate /
    if [[ -n $shared ]]; then mount --bind /proc/self/fd/9/ /dev/shm; else mount -t tmpfs -o size=2g,mode=1777 shm /dev/shm; fi
    exec 9<&-
    mount -t proc proc /proc
    ip link set lo up
    hostname "container-$rank"
    export SHMOE_JOB=two-containers SHMOE_SIZE=2 SHMOE_RANK=$rank SHMOE_COMM_ID=127.0.0.1:29400 SHMOE_BOOTSTRAP_TIMEOUT_S=20
    exec setpriv --bounding-set "$caps" --inh-caps -all --no-new-privs "$shmoe" moe "$@"' \
    bash "$shared" "$rank" "$caps" "$shmoe" "$@"
}

rank 0 "$@" &
first=$!
rank 1 "$@" &
second=$!
code=0
wait "$first" || code=$?
wait "$second" || code=$?
echo "== exit code $code${without:+ without a common $without namespace}"
exit "$code"
