/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a shard learns which workers wrote, for Spin: records in a ring of each worker, one bit of news per worker, one
 * event count. A worker publishes a record, sets its bit, and tells the shard, which it may put off while it has more to
 * do. The shard takes the bits, reads the rings of those workers only, announces its sleep, looks at the bits once more,
 * sleeps. With PROMISE it says until when it looks by itself: a worker that reads a promise wakes nobody, not even when
 * it goes to sleep (as one whose Pool is ahead; others do then).
 *
 * A worker may die between any two of its steps; the supervisor bumps, and the shard, told of the death, reads the ring
 * of the dead whatever its bit says. Checked: when nothing moves any more every record has been taken.
 */
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef KILLS
#define KILLS 1
#endif
byte ring[2], todo[2] = RECORDS;
bit news[2], dead[2], recovered[2], over[2];
byte sequence;
bit flag, asleep, promise;
byte kills;

inline bump() {
    atomic { woke = flag; flag = 0; sequence = (sequence + 1) % 8 };
    if :: woke -> atomic { asleep = 0; woke = 0 } :: else fi
}

proctype worker(bit me) {
    bit woke, untold;
    {
        do
        :: todo[me] > 0 ->
            untold = 1;
#ifdef BUG_BIT_FIRST
            news[me] = 1;
            atomic { ring[me]++; todo[me]-- };
#else
            atomic { ring[me]++; todo[me]-- };
            news[me] = 1;
#endif
            if
            :: promise /* it looks by itself */
            :: !promise -> bump(); untold = 0
            :: skip /* it will be told with the next one, or before this worker sleeps */
            fi
        :: todo[me] == 0 -> break
        od;
        if /* it goes to sleep, or its next row takes long */
        :: untold && !promise -> bump()
        :: untold && promise
        :: !untold
#ifdef BUG_UNTOLD
        :: untold
#endif
        fi
    } unless { dead[me] }
    over[me] = 1
}

inline take(one) {
    if
    :: news[one] ->
#ifdef BUG_CLEAR_AFTER
        ring[one] = 0;
        news[one] = 0;
#else
        news[one] = 0;
        ring[one] = 0;
#endif
        work = 1
    :: else
    fi;
    atomic { if :: dead[one] && over[one] && !recovered[one] -> recovered[one] = 1; ring[one] = 0; work = 1 :: else fi }
}

proctype shard() {
    byte seen;
    bit work;
end_shard:
    do
    :: seen = sequence; work = 0;
        take(0);
        take(1);
        if
        :: work
        :: !work ->
#if defined(PROMISE) && !defined(BUG_PROMISE_LATE)
            if :: promise = 1 :: promise = 0 fi;
#endif
            atomic { if :: sequence == seen -> flag = 1 :: else -> goto again fi };
            if :: news[0] || news[1] -> goto again :: else fi;
#ifdef BUG_PROMISE_LATE
            if :: promise = 1 :: promise = 0 fi;
#endif
            atomic { if :: sequence == seen && flag -> asleep = 1 :: else -> goto again fi };
end_sleep:
            if
            :: !asleep
            :: promise -> asleep = 0 /* its time came */
            fi
        fi;
again:  skip
    od
}

proctype supervisor() {
    bit woke;
end_supervisor:
    do
    :: atomic { kills < KILLS -> kills++; if :: !dead[0] -> dead[0] = 1 :: !dead[1] -> dead[1] = 1 fi };
        if :: dead[0] -> over[0] :: else fi;
        if :: dead[1] -> over[1] :: else fi;
        atomic { flag = 0; sequence = (sequence + 1) % 8; asleep = 0 }
    od
}

proctype monitor() {
end_monitor:
    timeout -> assert(ring[0] == 0 && ring[1] == 0)
}

init { atomic { run shard(); run worker(0); run worker(1); run supervisor(); run monitor() } }
