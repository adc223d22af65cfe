/* A flag that is set and cleared: the producer writes the row, fences, sets the flag and waits for the acknowledgement;
 * the consumer waits for the flag, reads, clears the flag and acknowledges. Delivery as in notify_wait.pml.
 *
 *   (none)       clears, then acknowledges                                         clean
 *   -DACK_FIRST  acknowledges, then clears: wipes the flag of the next round       deadlock
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define ROW 0
#define FLAG 1

byte memory[2];                                  /* of the consumer */
byte ack;                                        /* of the producer */
chan wire = [2] of {byte, byte, byte};           /* to the consumer: epoch, cell, value */
chan back = [1] of {byte};                       /* to the producer: rounds read */

active proctype network() {
  byte oldest, value;
end:
  do
  :: atomic {
       wire ? <oldest, _, _>;
       if
       :: wire ?? eval(oldest), ROW, value -> memory[ROW] = value
       :: wire ?? eval(oldest), FLAG, value -> memory[FLAG] = value
       fi;
       oldest = 0; value = 0
     }
  :: back ? ack
  od
}

active proctype producer() {
  byte round, epoch;
  for (round : 1 .. ROUNDS) {
    wire ! epoch, ROW, round;
    epoch++;                            /* fence */
    wire ! epoch, FLAG, 1;
    ack >= round
  }
}

active proctype consumer() {
  byte round;
  for (round : 1 .. ROUNDS) {
    memory[FLAG] == 1;
    assert(memory[ROW] == round);
#ifdef ACK_FIRST
    back ! round;
    memory[FLAG] = 0
#else
    memory[FLAG] = 0;
    back ! round
#endif
  }
}
