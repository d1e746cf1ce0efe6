/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roots that are begun again alone, for Spin: two shards, each with an ordinary root and one that must be alone. A shard
 * that admits counts first and then looks whether somebody has everything to himself; one that wants to be alone takes
 * everything first and then looks at the count. Checked: what is alone is alone; everybody ends (no invalid end state).
 * A shard parks by sampling its event count before it looks, as the engine's shards do.
 */
byte live, exclusive; /* roots under way; 1 + the shard that has everything */
byte events[2];       /* of each shard: what it sampled has changed when it may not sleep */
byte alone;           /* roots that run alone now */
byte running;         /* any root */

inline wake() { atomic { events[0] = (events[0] + 1) % 32; events[1] = (events[1] + 1) % 32 } }

inline leave() {
    atomic { running--; live-- };
    if :: exclusive != 0 -> wake() :: else fi
}

proctype shard(byte own) {
    bit ordinary = 1, aside = 1, work;
    byte seen;
    do
    :: seen = events[own]; work = 0;
       /* step_aside */
       if
       :: !aside ->
           if
           :: exclusive == own + 1 && live == 0 -> exclusive = 0; wake(); work = 1
           :: else
           fi
       :: aside ->
           atomic { if :: exclusive == 0 -> exclusive = own + 1 :: else fi };
           if
           :: exclusive == own + 1 && live == 0 ->
               live++;
               atomic { assert(running == 0); running++; alone++ };
               aside = 0; work = 1;
               atomic { assert(running == 1); alone-- };
               leave()
           :: else
           fi
       fi;
       /* go_live */
       if
       :: ordinary && exclusive == 0 ->
#ifndef BUG_LOOK_ONCE
           live++;
           if
           :: exclusive == 0 -> goto admitted
           :: else -> live--; wake(); goto refused
           fi;
#else
           live++;
#endif
admitted:
           atomic { assert(alone == 0); running++ };
           ordinary = 0; work = 1;
           skip;
           leave()
       :: else
       fi;
refused:
       if
       :: !ordinary && !aside && exclusive != own + 1 -> break
       :: else
       fi;
       if
       :: work
       :: !work -> (events[own] != seen) /* parked */
       fi
    od
}

init { atomic { run shard(0); run shard(1) } }
