/* Notify and wait: a core writes a row of two units to a peer and signals; the peer waits for the signal and reads.
 *
 * Writes and signals travel on a wire. Each carries the epoch of its destination; the oldest epoch is delivered first,
 * in any order within it, except that two writes of one cell keep theirs. A fence starts a new epoch of one destination.
 *
 *   -DFENCE             a fence to the peer between row and signal       clean
 *   -DQUIET             a quiet instead                                  clean
 *   -DPUT_SIGNAL        the signal belongs to both units                 clean
 *   (none)              no order between row and signal                  stale row
 *   -DFENCE_OTHER       the fence names another destination              stale row
 *   -DPUT_SIGNAL_HIGH   the signal belongs to the second unit only       stale row
 *   -DFENCE -DNO_WAIT   the peer reads without waiting                   stale row
 */
#define LOW 0
#define HIGH 1
#define FLAG 2

#define PEER 0
#define OTHER 1

#if defined(PUT_SIGNAL)
#define OWN_PAYLOAD_DELIVERED (memory[LOW] == 1 && memory[HIGH] == 1)
#elif defined(PUT_SIGNAL_HIGH)
#define OWN_PAYLOAD_DELIVERED (memory[HIGH] == 1)
#else
#define OWN_PAYLOAD_DELIVERED true
#endif

byte memory[3];                      /* of the peer */
byte epoch[2];                       /* of each destination */
chan wire = [3] of {byte, byte, byte}; /* to the peer: epoch, cell, value */

active proctype network() {
  byte oldest, value;
end:
  do
  :: atomic {
       wire ? <oldest, _, _>;
       if
       :: wire ?? eval(oldest), LOW, value -> memory[LOW] = value
       :: wire ?? eval(oldest), HIGH, value -> memory[HIGH] = value
       :: OWN_PAYLOAD_DELIVERED && wire ?? [eval(oldest), FLAG, 1] ->
          wire ?? eval(oldest), FLAG, value; memory[FLAG] = value
       fi;
       oldest = 0; value = 0
     }
  od
}

active proctype writer() {
  wire ! epoch[PEER], LOW, 1;
  wire ! epoch[PEER], HIGH, 1;
#ifdef FENCE
  epoch[PEER]++;
#endif
#ifdef FENCE_OTHER
  epoch[OTHER]++;
#endif
#ifdef QUIET
  empty(wire);
#endif
  wire ! epoch[PEER], FLAG, 1
}

active proctype reader() {
#ifndef NO_WAIT
  memory[FLAG] == 1;
#endif
  assert(memory[LOW] == 1);
  assert(memory[HIGH] == 1)
}
