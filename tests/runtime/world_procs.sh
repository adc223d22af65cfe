#!/usr/bin/env bash
# Jobs of real processes, with the variables that a launcher sets. usage: world_procs.sh PROGRAM MOST_RANKS
set -euo pipefail
program=$1
most=$2
folder=$(mktemp -d)
job=rt$$
trap 'rm -rf "$folder"' EXIT
chmod 700 "$folder"
export XDG_RUNTIME_DIR=$folder
export SHMOE_HEAP=1MiB SHMOE_BUFFSIZE=0 SHMOE_COMMUNICATORS=1
pids=()

fail() {
  echo "failed: $1"
  shift
  printf '%s\n' "$@"
  exit 1
}

# Starts ranks FIRST .. LAST of SIZE. What rank R prints is in $folder/NAME.R.
start() {  # NAME SIZE FIRST LAST ARGUMENTS...
  local name=$1 size=$2 first=$3 last=$4 rank
  shift 4
  for ((rank = first; rank <= last; ++rank)); do
    SHMOE_JOB=$job$name SHMOE_RANK=$rank SHMOE_SIZE=$size "$program" "$@" >"$folder/$name.$rank" 2>&1 &
    pids+=($!)
  done
}

# Some ranks end with an error.
finish() {
  wait "${pids[@]}" || true
  pids=()
}

finish_well() {  # WHAT
  local pid
  for pid in "${pids[@]}"; do wait "$pid" || fail "$1: a rank ends with $?" "$(tail -n +1 "$folder"/*.*)"; done
  pids=()
}

same_on_all() {  # WHAT NAME FIRST LAST EXPECTED_PART
  local rank
  for ((rank = $3; rank <= $4; ++rank)); do
    grep -qF -- "$5" "$folder/$2.$rank" || fail "$1, rank $rank" "expected: $5" "got: $(<"$folder/$2.$rank")"
  done
}

all_rounds() {  # WHAT NAME SIZE ROUNDS
  local rank
  for ((rank = 0; rank < $3; ++rank)); do
    same_on_all "$1" "$2" "$rank" "$rank" "rank $rank of $3: $4 rounds"
  done
  echo "passed: $1"
}

for size in 1 2 3 7 16; do
  start "n$size" "$size" 0 $((size - 1)) barriers 200
  finish_well "$size ranks, 200 rounds"
  all_rounds "$size ranks, 200 rounds" "n$size" "$size" 200
done

# T103: many ranks on one CPU must come round all the same.
all_cpus=$(taskset -cp $$ | sed 's/.*: //')
taskset -cp "${all_cpus%%[,-]*}" $$ >/dev/null # children inherit it
start crowd 16 0 15 barriers 1000
finish_well '16 ranks on one CPU, 1000 rounds'
taskset -cp "$all_cpus" $$ >/dev/null
all_rounds '16 ranks on one CPU, 1000 rounds' crowd 16 1000

SHMOE_CORES=3 SHMOE_WEAK=7 start cores 3 0 2 barriers 30
finish_well '3 ranks of 3 cores with late puts'
all_rounds '3 ranks of 3 cores with late puts' cores 3 30

SHMOE_LOG=debug start told 2 0 1 barriers 3
finish_well 'a job that tells what it does'
same_on_all 'a job that tells what it does' told 0 1 'info: rank '
same_on_all 'a job that tells what it does' told 0 1 ', 1 cores a rank, 1 node, profile safe'
same_on_all 'a job that tells what it does' told 1 1 'debug: communicator 0: rank 1 of 2'
all_rounds 'a job that tells what it does' told 2 3

start left 3 0 2 barriers 100
start right 4 0 3 barriers 100
finish_well 'two jobs side by side, the first'
all_rounds 'two jobs side by side, the first' left 3 100
all_rounds 'two jobs side by side, the second' right 4 100

SHMOE_COMMUNICATORS=3 SHMOE_CORES=2 start overlap 4 0 3 overlap 200
finish_well 'overlapping communicators'
all_rounds 'overlapping communicators' overlap 4 200

# A block of one rank's segment is cut off: whoever touches it first names that rank, by its number in the world.
SHMOE_COMMUNICATORS=3 start shrunk 4 0 3 shrunk 3
finish
size=$(sed -n 's/^shrunk to \([0-9]*\) bytes$/\1/p' "$folder/shrunk.3")
line=$(grep -h '^shmoe: rank [0-9]: bus error' "$folder"/shrunk.*) || fail 'nobody names the shrunk segment' "$(tail -n +1 "$folder"/shrunk.*)"
byte=$(sed -n 's/^shmoe: rank [1-3]: bus error at byte \(0x[0-9a-f]*\) of the shared segment (.mem) of rank 3: somebody has shrunk .*/\1/p' <<<"$line")
[[ -n $byte && $((byte)) -ge $size && $((byte)) -lt $((size + size / 2)) ]] ||
  fail "one line about a byte behind $size of rank 3" "$line"
echo 'passed: a segment that is cut short is named with its rank and the byte'

# T77: the limit of the waits, a minute, is never reached.
for size in 2 3; do
  last=$((size - 1))
  SHMOE_WAIT_LIMIT_MS=60000 SHMOE_COMMUNICATORS=3 SHMOE_CORES=2 start "order$size" "$size" 0 "$last" across
  finish
  same_on_all 'another order of communicators' "order$size" 0 "$last" 'deadlock: '
  same_on_all 'another order of communicators' "order$size" 0 0 'waits in barrier, operator 2 of communicator 1 of world ranks 0 1'
  same_on_all 'another order of communicators' "order$size" 0 0 "cause: operator order differs: rank $last is in barrier of communicator 2 of world ranks 0 1"
  for ((rank = 1; rank < size; ++rank)); do
    same_on_all 'another order of communicators' "order$size" $rank $rank 'rank 0 gave up: '
  done
  echo "passed: $size ranks that enter two communicators in different order"
done

SHMOE_CORES=2 start compact 3 0 2 compact 100
finish_well 'blocks are moved together'
all_rounds 'blocks are moved together' compact 3 100

# T98: a second world beside the first, and children that end while it lives.
SHMOE_CORES=2 start twice 3 0 2 twice 50
finish_well 'two worlds of one process'
all_rounds 'two worlds of one process' twice 3 50
SHMOE_CORES=2 start forks 3 0 2 fork 10
finish_well 'ranks that fork'
all_rounds 'ranks that fork' forks 3 10

# One rank measures the copies, all ranks use what it found, but for one that is told otherwise.
SHMOE_LOG=debug start copies 3 0 1 barriers 3
SHMOE_LOG=debug SHMOE_COPY=movsb start copies 3 2 2 barriers 3
finish_well 'copies'
measured=$(sed -n 's/.*debug: long rows are copied: /long rows are copied: /p' "$folder/copies.0")
[[ -n $measured ]] || fail 'rank 0 does not say how it copies' "$(<"$folder/copies.0")"
same_on_all 'copies' copies 1 1 "$measured"
same_on_all 'copies' copies 2 2 'long rows are copied: movsb'
all_rounds 'what rank 0 measures holds on every rank' copies 3 3

# A rank dies, or leaves, in the middle: the others end and name it.
start killed 5 0 4 die 2 20
finish
for rank in 0 1 3 4; do same_on_all 'killed' killed $rank $rank 'rank 2 is gone (pid '; done
echo 'passed: survivors of a killed rank name it'
start gone 4 0 3 leave 0 20
finish
same_on_all 'left early' gone 1 3 'from rank 0 of rank '
echo 'passed: a rank that leaves early is named'

# A job that never becomes complete.
SHMOE_BOOTSTRAP_TIMEOUT_S=3 start missing 3 0 1 barriers 1
SHMOE_BOOTSTRAP_TIMEOUT_S=3 start headless 3 1 2 barriers 1
finish
same_on_all 'a missing rank' missing 0 1 'rank 2'
for rank in 1 2; do
  grep -q ' rounds$' "$folder/headless.$rank" && fail 'a job without rank 0 ran'
  [[ -s $folder/headless.$rank ]] || fail 'a job without rank 0 says nothing'
done
echo 'passed: missing ranks are an error on all others'

SHMOE_CORES=2 start cards 3 0 1 barriers 1
SHMOE_CORES=4 start cards 3 2 2 barriers 1
finish
same_on_all 'different settings' cards 0 2 \
  'mismatch: rank 2 has cores 4, rank 0 has cores 2: start every rank with the same SHMOE_CORES'
unset SHMOE_BUFFSIZE
CAM_BUFFSIZE=4 start window 3 0 1 barriers 1
CAM_BUFFSIZE=5 start window 3 2 2 barriers 1
export SHMOE_BUFFSIZE=0
finish
same_on_all 'different windows' window 0 2 \
  'mismatch: rank 2 has buffsize 5242880 bytes, rank 0 has buffsize 4194304 bytes: start every rank with the same SHMOE_BUFFSIZE'
echo 'passed: different settings are one error on every rank'

# What one rank cannot have, all ranks say. A sanitised program does not start within such limits.
if (
  ulimit -v 4000000
  "$program" >/dev/null 2>&1
  [[ $? == 2 ]]
); then
  export SHMOE_HEAP=2GiB
  start addresses 3 0 1 barriers 1
  (
    ulimit -v 4000000
    exec env SHMOE_JOB="${job}addresses" SHMOE_RANK=2 SHMOE_SIZE=3 "$program" barriers 1
  ) >"$folder/addresses.2" 2>&1 &
  pids+=($!)
  finish
  same_on_all 'too few addresses' addresses 0 2 'setting up failed on rank 2: reserving 3 x '
  export SHMOE_HEAP=1MiB SHMOE_CORES=40
  start threads 3 0 1 barriers 1
  (
    ulimit -s 131072
    ulimit -v 4000000
    exec env SHMOE_JOB="${job}threads" SHMOE_RANK=2 SHMOE_SIZE=3 "$program" barriers 1
  ) >"$folder/threads.2" 2>&1 &
  pids+=($!)
  finish
  same_on_all 'too few threads' threads 0 2 'setting up failed on rank 2: starting thread '
  unset SHMOE_CORES
  echo 'passed: what one rank cannot have is the same error on every rank'
fi

# T94: killed while the names of the segments are still there: the next job of this user removes them.
start dead 3 0 2 die-at-start
finish
same_on_all 'killed at the start' dead 0 2 "leaves /dev/shm/shmoe.${job}dead."
start next 2 0 1 barriers 3
finish_well 'the job after a killed one'
all_rounds 'the job after a killed one' next 2 3
for name in $(grep -ho '/dev/shm/.*' "$folder"/dead.*); do
  [[ ! -e $name ]] || fail 'a dead job left a segment behind' "$name"
done
echo 'passed: what a killed job left is removed at the next start'

# T95: what looks like a segment of this job, and was never locked by anybody who lives.
for part in mem ctl; do
  head -c 65536 /dev/zero | tr '\0' '\1' >"/dev/shm/shmoe.${job}stale.00000000.0.$part"
  chmod 600 "/dev/shm/shmoe.${job}stale.00000000.0.$part"
done
start stale 2 0 1 barriers 3
finish_well 'a job that finds segments of its name'
all_rounds 'a job that finds segments of its name' stale 2 3
for part in mem ctl; do
  [[ ! -e /dev/shm/shmoe.${job}stale.00000000.0.$part ]] || fail 'a stale segment is still there' "$part"
done
echo 'passed: a stale segment is neither believed nor in the way'

# T100: somebody else listens at the address. The published default is not looked at, so two jobs without an address do
# not meet there.
listen='
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()'
coproc held { exec python3 -c "$listen" 0; }
held_pid=$!
read -r port <&"${held[0]}"
SHMOE_COMM_ID=127.0.0.1:$port SHMOE_BOOTSTRAP_TIMEOUT_S=2 start taken 2 0 1 barriers 1
finish
same_on_all 'an address that is taken' taken 0 0 \
  "rank 0 cannot listen on 127.0.0.1:$port (SHMOE_COMM_ID): another job or program has it: give each job a free port in SHMOE_COMM_ID, or unset it"
same_on_all 'an address that is taken' taken 1 1 "127.0.0.1:$port"
kill "$held_pid"
wait "$held_pid" || true
echo 'passed: an address that is taken is an error that says what to do'
coproc held { exec python3 -c "$listen" 10067 2>/dev/null; }
held_pid=$!
start first 2 0 1 barriers 50
start second 2 0 1 barriers 50
finish_well 'two jobs while the published port is taken'
all_rounds 'two jobs while the published port is taken, the first' first 2 50
all_rounds 'two jobs while the published port is taken, the second' second 2 50
kill "$held_pid" 2>/dev/null || true
wait "$held_pid" || true

# T101: an address that is none ends the start.
for address in tcp://999.1.1.1:x '' 127.0.0.1:0; do
  SHMOE_COMM_ID=$address start bad 2 0 1 barriers 1
  finish
  same_on_all 'a bad address' bad 0 1 "SHMOE_COMM_ID is '$address', which"
  same_on_all 'a bad address' bad 0 1 'give a.b.c.d:port, for example 127.0.0.1:10067'
done
echo 'passed: a bad address is an error at the start'

SHMOE_BOOTSTRAP_TIMEOUT_S=300 start many "$most" 0 $((most - 1)) barriers 3
finish_well "$most ranks"
all_rounds "$most ranks" many "$most" 3

left=$(find /dev/shm -maxdepth 1 -name "shmoe.$job*")
[[ -z $left ]] || fail 'segments are left' "$left"
echo 'passed: nothing is left in /dev/shm'
