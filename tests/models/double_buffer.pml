/* Ping-pong slots: the producer writes round r into slot r % SLOTS, fences and sets the flag to r; the consumer waits for
 * r and reads the slot. Delivery as in notify_wait.pml.
 *
 *   -DSLOTS=2 -DROUNDS=2          clean: no slot is used twice
 *   -DSLOTS=2 -DROUNDS=3          round 3 may overwrite round 1 before it is read
 *   -DSLOTS=1 -DROUNDS=2          the same with one slot
 *   -DACK with any of the above   clean: the producer waits until the previous round of the slot has been read
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif

byte slot[2];                                       /* of the consumer */
byte flag;                                          /* of the consumer */
byte ack;                                           /* of the producer */
chan wire = [2 * ROUNDS] of {byte, byte, byte};     /* to the consumer: epoch, cell, value */
chan back = [ROUNDS] of {byte};                     /* to the producer: rounds read */
#define FLAG 2                                      /* cell; 0 and 1 are the slots */

active proctype network() {
  byte oldest, value;
end:
  do
  :: atomic {
       wire ? <oldest, _, _>;
       if
       :: wire ?? eval(oldest), 0, value -> slot[0] = value
       :: wire ?? eval(oldest), 1, value -> slot[1] = value
       :: wire ?? eval(oldest), FLAG, value -> flag = value
       fi;
       oldest = 0; value = 0
     }
  :: back ? ack
  od
}

active proctype producer() {
  byte round, epoch;
  for (round : 1 .. ROUNDS) {
#ifdef ACK
    ack + SLOTS >= round;
#endif
    wire ! epoch, round % SLOTS, round;
    epoch++;                            /* fence */
    wire ! epoch, FLAG, round
  }
}

active proctype consumer() {
  byte round;
  for (round : 1 .. ROUNDS) {
    flag >= round;
    assert(slot[round % SLOTS] == round);
#ifdef ACK
    back ! round
#endif
  }
}
