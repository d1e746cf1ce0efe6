/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The look for a row that is nowhere, for Spin. One row; a worker whose process is started after the shard was told to
 * attach to it, which the shard does when it comes to its inbox; only then is the worker's ring drained. The worker may
 * die at any step and is recovered; or it forges: it writes over its page while it holds the row, and stays.
 *
 * Checked: no alarm about a worker that keeps to the protocol; a forger is always found (no invalid end state).
 */
mtype = { WAITING, TAKEN, GONE };
mtype slot = WAITING;
bit page, record, live = 1;      /* the row: in a page, its record in a ring, in the set of live claims */
bit inbox, attached, dead, told; /* told: the shard was told of the death */
bit forged, alarm, finished;

proctype worker() {
    inbox = 1; /* the supervisor: ATTACHED is posted before the process is there */
    do
    :: atomic { slot == WAITING -> slot = TAKEN }; /* C1 */
       if :: page = 1 :: dead = 1; goto ended fi;  /* C3 */
       if :: slot = GONE :: dead = 1; goto ended fi; /* C4 */
       if
       :: record = 1                               /* C6 */
       :: dead = 1; goto ended
#ifdef FORGE
       :: atomic { forged = 1; page = 0 }; goto stays
#endif
       fi;
       if :: page = 0 :: dead = 1; goto ended fi   /* C7 */
    :: finished -> break
    od;
    goto stays;
ended:
    told = 1;
stays:
    skip
}

proctype shard() {
    byte missing;
    mtype found;
    bit held;
    do
    :: finished -> break
    :: else ->
       if :: inbox -> inbox = 0; attached = 1 :: else fi; /* messages first, then records */
       if :: attached && record -> record = 0; live = 0 :: else fi;
       if
       :: told -> /* recovery: records, slot, page; what was not ended is offered again, here it is done */
           atomic {
               if :: record && attached -> record = 0; live = 0 :: else fi;
               if :: live && (slot == TAKEN || page) -> live = 0 :: else fi;
               page = 0; told = 0
           }
       :: else
       fi;
       if
       :: !live -> finished = 1
       :: else ->
#ifdef BUG_PAGE_FIRST
           held = page; found = slot;
#else
           found = slot; held = page;
#endif
           if
           :: found == GONE && !held ->
               if :: attached && record -> record = 0; live = 0 :: else fi;
               if
               :: live -> missing++
               :: else
               fi
           :: else -> missing = 0
           fi;
#ifdef BUG_ONE_LOOK
           if :: missing == 1 -> alarm = 1 :: else fi;
#else
           if :: missing == 2 -> alarm = 1 :: else fi;
#endif
           assert(!alarm || forged);
           if :: alarm -> finished = 1 :: else fi
       fi
    od
}

init { atomic { run worker(); run shard() } }
