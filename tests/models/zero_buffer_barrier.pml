/* BarrierAll: RANKS ranks of CORES cores run KERNELS kernels: notify (one barrier), dispatch (two), combine (one), ...
 *
 *   SyncAll; core c sends its word to the ranks of its slice and waits for theirs; SyncAll
 *
 * Nobody may leave barrier n before every core of every rank has entered barrier n, and nobody may wait for ever.
 *
 *   -DSAFE               word = count of barriers, at least, buffer by count           clean
 *   -DFAITHFUL_2026_07   word = (magic, sequence), equal, buffer by magic              deadlock inside dispatch
 *   -DFAITHFUL_2026_08   the same, buffer by magic + sequence                          deadlock at dispatch exit, combine
 *
 * On top of a profile: -DAT_LEAST, -DBUFFER=BY_COUNT (repairs of the published ones), -DBUFFER=0 (no ping-pong),
 * -DONE_BARRIER (one a kernel), -DSAME_SEQUENCE (not incremented), -DNO_FIRST_SYNC, -DNO_LAST_SYNC.
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef CORES
#define CORES 1
#endif
#ifndef KERNELS
#define KERNELS 3
#endif

#define BY_COUNT (count % 2)
#define BY_MAGIC (magic % 2)
#define BY_MAGIC_AND_SEQUENCE ((magic + sequence) % 2)

#ifdef SAFE
#define AT_LEAST
#define WORD count
#define DEFAULT_BUFFER BY_COUNT
#else
#define WORD (4 * magic + sequence)
#ifdef FAITHFUL_2026_07
#define DEFAULT_BUFFER BY_MAGIC
#else
#define DEFAULT_BUFFER BY_MAGIC_AND_SEQUENCE
#endif
#endif
#ifndef BUFFER
#define BUFFER DEFAULT_BUFFER
#endif

#define DISPATCH 1
#ifdef ONE_BARRIER
#define BARRIERS 1
#else
#define BARRIERS (magic % 3 == DISPATCH -> 2 : 1)
#endif

#define EACH ((RANKS + CORES - 1) / CORES)  /* ranks in a slice */
#define WIRE(from, to) wire[(from) * RANKS + (to)]
#define SLOT(owner, from, b) slot[((owner) * RANKS + (from)) * 2 + (b)]

byte slot[RANKS * RANKS * 2];
chan wire[RANKS * RANKS] = [1] of {byte, byte};  /* buffer, word; a quiet precedes the next word: never full */
byte syncs[RANKS];                               /* the SyncAll slot of each rank */
byte entered[RANKS * CORES];                     /* barriers each core has entered */

proctype network(byte from, to) {
  byte b, w;
end:
  do
  :: atomic { WIRE(from, to) ? b, w -> SLOT(to, from, b) = w; b = 0; w = 0 }
  od
}

inline sync_all() {
  for (peer : first .. last) {
    if
    :: peer != me -> empty(WIRE(me, peer))
    :: else
    fi
  }
  generation++;
  syncs[me]++;
  syncs[me] >= generation * CORES
}

inline barrier_all() {
  d_step {
    count++;
#ifndef SAME_SEQUENCE
    sequence++;
#endif
    entered[me * CORES + c] = count;
    buffer = BUFFER;
    word = WORD
  }
#ifndef NO_FIRST_SYNC
  sync_all();
#endif
  for (peer : first .. last) {
    if
    :: peer != me -> WIRE(me, peer) ! buffer, word
    :: else
    fi
  }
  for (peer : first .. last) {
    if
#ifdef AT_LEAST
    :: peer != me -> SLOT(me, peer, buffer) >= word
#else
    :: peer != me -> SLOT(me, peer, buffer) == word
#endif
    :: else
    fi
  }
#ifndef NO_LAST_SYNC
  sync_all();
#endif
  atomic {
    for (peer : 0 .. RANKS * CORES - 1) {
      assert(entered[peer] >= count)
    }
    peer = 0
  }
}

proctype core(byte me, c, first, last) {
  byte magic, sequence, count, generation, buffer, word, peer, barrier;
  for (magic : 0 .. KERNELS - 1) {
#ifdef SAME_SEQUENCE
    sequence = 1;
#else
    sequence = 0;
#endif
    for (barrier : 1 .. BARRIERS) {
      barrier_all()
    }
  }
}

init {
  byte i, j;
  atomic {
    for (i : 0 .. RANKS - 1) {
      for (j : 0 .. RANKS - 1) {
        if
        :: i != j -> run network(i, j)
        :: else
        fi
      }
      for (j : 0 .. CORES - 1) {
        run core(i, j, j * EACH, ((j + 1) * EACH < RANKS -> (j + 1) * EACH : RANKS) - 1)
      }
    }
  }
}
