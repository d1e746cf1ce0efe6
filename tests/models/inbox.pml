/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host says to a shard in time, for Spin: messages in an inbox, one event count, and the time until which the
 * shard has said that it needs nothing of the host (src/engine/shard.c: promise, hears_host). A host that reads such a
 * time in the future wakes nobody, and of several messages in the inbox only the first asks. The shard takes the inbox
 * when that time has come or when it was bumped, and not before: `said` is 0 for no time, 1 for one in the future, 2 for
 * one that has passed, which it may do at any moment. One message in two cannot wait and always bumps.
 *
 * Checked: when nothing moves any more every message has been taken; and the shard says no second time while a message
 * has waited out the first.
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
byte box;
byte sequence, heard, said;
bit flag, asleep;

inline bump() {
    atomic { woke = flag; flag = 0; sequence = (sequence + 1) % 8 };
    if :: woke -> atomic { asleep = 0; woke = 0 } :: else fi
}

proctype host() {
    bit woke, first, now;
    byte left = MESSAGES;
    do
    :: left > 0 ->
        left--;
        if :: now = 0 :: now = 1 fi;
        atomic { first = (box == 0); box++ };
        if
        :: now -> bump()
        :: !now && first && said != 1 -> bump()
        :: else
        fi
    :: left == 0 -> break
    od
}

/* A message that was there when the time had come has waited for it. */
inline renew() {
    atomic { assert(was == 0); said = 1 }
}

inline say() {
    was = (said == 2 && box > 0);
    if
    :: said == 1 -> kept = 1 /* rows are queued: as said */
#ifdef BUG_RENEW
    :: said != 1 -> kept = 0; renew()
#else
    :: said != 1 && box == 0 -> kept = 0; renew()
#endif
    :: kept = 0; said = 0
    fi;
#ifdef BUG_UNSEEN
    kept = 1
#endif
}

proctype shard() {
    byte seen;
    bit kept, was;
end_shard:
    do
    :: seen = sequence;
        if
        :: said == 1 && seen == heard /* not yet */
        :: else ->
            heard = seen;
            if :: said != 0 -> said = 1 :: else fi;
            box = 0
        fi;
#ifndef BUG_SAID_LATE
        say();
#endif
        atomic { if :: sequence == seen -> flag = 1 :: else -> goto again fi };
        if :: !kept && box > 0 -> goto again :: else fi;
#ifdef BUG_SAID_LATE
        say();
#endif
        atomic { if :: sequence == seen && flag -> asleep = 1 :: else -> goto again fi };
end_sleep:
        if
        :: !asleep
        :: asleep && said == 2 -> asleep = 0 /* its time came */
        fi;
again:  skip
    od
}

proctype clock() {
end_clock:
    do
    :: atomic { said == 1 -> said = 2 }
    od
}

proctype monitor() {
end_monitor:
    timeout -> assert(box == 0)
}

init { atomic { run shard(); run host(); run clock(); run monitor() } }
