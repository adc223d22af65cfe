/* SyncAll: the barrier of the cores of one rank. A core waits until its own writes are complete (quiet), adds one to the
 * rank's slot and waits until the slot holds CORES for each generation so far. Nobody clears the slot.
 *
 * Every core writes a row to another rank in each round; after SyncAll all rows of the round must be there, and nobody
 * may leave before everybody has arrived.
 *
 *   (none)           clean
 *   -DNO_QUIET       a row is still on its way                                     stale row
 *   -DNO_GENERATION  every round waits for the first CORES arrivals                early exit
 *   -DEQUAL          waits for equality: a core of the next round may add first    deadlock
 *   -DSKIP           core 0 does not take part in the last round                   deadlock
 */
#ifndef CORES
#define CORES 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#ifdef NO_GENERATION
#define EVERYONE CORES
#else
#define EVERYONE (round * CORES)
#endif

byte slot;
byte arrived[CORES];                    /* SyncAlls each core has entered */
byte row[CORES];                        /* in the other rank's memory: round of the newest delivered row */
chan wire[CORES] = [ROUNDS] of {byte};  /* of each core to the other rank: one cell, so in order */

proctype network(byte core) {
  byte value;
end:
  do
  :: atomic { wire[core] ? value -> row[core] = value; value = 0 }
  od
}

proctype core(byte me) {
  byte round, other;
  for (round : 1 .. ROUNDS) {
    wire[me] ! round;
#ifdef SKIP
    if
    :: me == 0 && round == ROUNDS -> break
    :: else
    fi;
#endif
    arrived[me] = round;
#ifndef NO_QUIET
    empty(wire[me]);
#endif
    slot++;
#ifdef EQUAL
    slot == EVERYONE;
#else
    slot >= EVERYONE;
#endif
    d_step {
      for (other : 0 .. CORES - 1) {
        assert(arrived[other] >= round);
        assert(row[other] >= round)
      }
      other = 0
    }
  }
}

init {
  byte i;
  atomic {
    for (i : 0 .. CORES - 1) {
      run network(i);
      run core(i)
    }
  }
}
