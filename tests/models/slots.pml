/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch slots, for Spin. In proto.pml a Grain is its own id; the engine gives every push of a Grain a slot (an index
 * that rings, pages and records name, with a number that counts the slot's uses), and a Grain that is pushed again while
 * an old claim of it lives takes another one: the old slot stays live, marked unwanted, until its record or the death of
 * its worker. The set of live slots is the set of claims.
 *
 * Two workers, one row each; kills at any step of theirs, after which a successor takes the number; a cancel and a recall
 * at any step of the shard's. Checked: a Grain is sealed once, runs in one place at a time, and never after it was
 * recalled or cancelled in time; the slot a worker holds stays live with its number, so that inputs cannot be freed; a
 * dispatched Grain has its slot; at the end everything is sealed and no slot is live (no invalid end state). `run` checks
 * it, and that each BUG_ switch breaks it.
 */
#ifndef NG
#define NG 2
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef RECALLS
#define RECALLS 1
#endif
#define NS 3 /* slots */
#define RS 2 /* ring positions */
#define NONE 7
#define FREE_WORKER 2

mtype = { EMPTY, READY, CLAIMED, P_FREE, P_CLAIMED, P_RUNNING, P_CANCELLED, P_RECALLED, QUEUED, OUT, SEALED, ANSWER,
          RELEASED };

/* ring: what a slot of it says, and the shard's shadow of it */
mtype ring[RS];
byte ring_slot[RS], ring_worker[RS], shadow_number[RS];
bit ring_cancel[RS];
byte tail;
/* pages */
mtype page[2];
byte page_slot[2], page_number[2];
/* completions: slot, number, kind */
chan records0 = [2] of { byte, byte, mtype };
chan records1 = [2] of { byte, byte, mtype };
/* the shard's own */
mtype grain_state[NG];
byte slot_of[NG];
bit live[NS], unwanted[NS];
byte number[NS], grain[NS], position[NS];
/* for the assertions */
byte running[NG];
bit dead[2], recovered[2], is_running[2];
byte runs[2];
bit finished;
byte kills, cancels, recalls;

inline release(s) {
    live[s] = 0;
#ifdef BUG_FORGET_NEWER
    slot_of[grain[s]] = NONE;
#else
    if :: slot_of[grain[s]] == s -> slot_of[grain[s]] = NONE :: else fi
#endif
}

inline give_back(s, n) {
    if
    :: live[s] && number[s] == n ->
        if :: !unwanted[s] -> assert(grain_state[grain[s]] == OUT); grain_state[grain[s]] = QUEUED :: else fi;
        release(s)
    :: else
    fi
}

inline take(s, n, kind) {
    if
    :: live[s] && number[s] == n ->
        if
        :: unwanted[s]
        :: !unwanted[s] && kind == ANSWER -> assert(grain_state[grain[s]] == OUT); grain_state[grain[s]] = SEALED
        :: !unwanted[s] && kind == RELEASED -> assert(grain_state[grain[s]] == OUT); grain_state[grain[s]] = QUEUED
        fi;
        release(s)
    :: else /* stale */
    fi
}

#define HELD assert(dead[w] || (live[s] && number[s] == n))

proctype worker(byte w) {
    byte r, s, n;
    bit cancelled;
end_worker:
    do
    :: atomic { !dead[w] && ring[0] == READY -> r = 0; ring[0] = CLAIMED; ring_worker[0] = w; s = ring_slot[0] } /* C1 */
       goto claimed
    :: atomic { !dead[w] && ring[1] == READY -> r = 1; ring[1] = CLAIMED; ring_worker[1] = w; s = ring_slot[1] }
       goto claimed
    :: dead[w] -> goto done
    :: finished -> break
    od;
    goto ended;
claimed:
    atomic { !dead[w] -> n = number[s]; HELD } unless { dead[w] -> goto done }; /* C2: the descriptor */
    atomic { !dead[w] -> page[w] = P_CLAIMED; page_slot[w] = s; page_number[w] = n; HELD } unless { dead[w] -> goto done };
    atomic { !dead[w] -> assert(ring[r] == CLAIMED && ring_worker[r] == w && ring_slot[r] == s);
        cancelled = ring_cancel[r]; ring[r] = EMPTY; ring_cancel[r] = 0; ring_worker[r] = FREE_WORKER; HELD }
        unless { dead[w] -> goto done }; /* C4 */
    atomic { !dead[w] -> HELD; /* C5 */
        if
        :: !cancelled && page[w] == P_CLAIMED ->
            page[w] = P_RUNNING; is_running[w] = 1; runs[w] = grain[s];
            assert(running[grain[s]] == 0); running[grain[s]]++
        :: else
        fi } unless { dead[w] -> goto done };
    atomic { !dead[w] -> HELD; /* C6 */
        if
        :: is_running[w] ->
            is_running[w] = 0; running[runs[w]]--;
            if :: w == 0 -> records0!s, n, ANSWER :: else -> records1!s, n, ANSWER fi
        :: else -> if :: w == 0 -> records0!s, n, RELEASED :: else -> records1!s, n, RELEASED fi
        fi } unless { dead[w] -> goto done };
    atomic { !dead[w] -> page[w] = P_FREE; r = 0; s = 0; n = 0; cancelled = 0 } unless { dead[w] -> goto done }; /* C7 */
    goto end_worker;
done: /* a successor takes its place when all of it was cleared away */
end_dead:
    do
    :: atomic { recovered[w] && !finished ->
           dead[w] = 0; recovered[w] = 0; r = 0; s = 0; n = 0; cancelled = 0; goto end_worker }
    :: finished -> break
    od;
ended:
    skip
}

/* A place for one more: what is CLAIMED there is passed over. */
#define PLACE (ring[tail % RS] != READY)

inline push(g) {
    if
    :: !live[0] -> s = 0
    :: live[0] && !live[1] -> s = 1
    :: live[0] && live[1] -> s = 2
    fi;
#ifdef BUG_SAME_SLOT
    /* a Grain keeps its slot, as proto.pml's keeps its id */
    s = g;
#endif
    live[s] = 1; unwanted[s] = 0; number[s]++; grain[s] = g; slot_of[g] = s;
    if :: ring[tail % RS] == CLAIMED -> tail = (tail + 1) % RS :: else fi;
    position[s] = tail % RS;
    ring[tail % RS] = READY; ring_slot[tail % RS] = s; shadow_number[tail % RS] = number[s];
    tail = (tail + 1) % RS;
    grain_state[g] = OUT; s = 0
}

#define CAN_PUSH(g) (grain_state[g] == QUEUED && (!live[0] || !live[1] || !live[2]) && \
                     (ring[tail % RS] == EMPTY || (ring[tail % RS] == CLAIMED && ring[(tail + 1) % RS] == EMPTY)))
#define NAMES(s) (ring_slot[position[s]] == s && shadow_number[position[s]] == number[s])

proctype shard() {
    byte g, s, n, w;
    mtype kind;
    do
    :: atomic { CAN_PUSH(0) -> g = 0; push(g) }
    :: atomic { CAN_PUSH(1) -> g = 1; push(g); g = 0 }
    :: atomic { nempty(records0) -> records0?s, n, kind; take(s, n, kind); s = 0; n = 0; kind = 0 }
    :: atomic { nempty(records1) -> records1?s, n, kind; take(s, n, kind); s = 0; n = 0; kind = 0 }
    :: atomic { cancels < CANCELS && grain_state[0] == QUEUED -> cancels++; grain_state[0] = SEALED }
    :: atomic { cancels < CANCELS && grain_state[0] == OUT ->
           cancels++; assert(slot_of[0] != NONE); s = slot_of[0]; assert(live[s] && grain[s] == 0 && !unwanted[s]);
           unwanted[s] = 1; grain_state[0] = SEALED; n = number[s] }
       atomic {
           if
           :: ring[position[s]] == READY && NAMES(s) -> ring[position[s]] = EMPTY; release(s) /* X1 */
           :: ring[position[s]] == CLAIMED && NAMES(s) -> ring_cancel[position[s]] = 1 /* X2 */
           :: else -> goto in_pages
           fi; s = 0; n = 0; goto looked }
in_pages: /* X3: one page after the other */
       atomic { if :: page[0] == P_CLAIMED && page_slot[0] == s && page_number[0] == n -> page[0] = P_CANCELLED :: else fi }
       atomic { if :: page[1] == P_CLAIMED && page_slot[1] == s && page_number[1] == n -> page[1] = P_CANCELLED :: else fi;
                s = 0; n = 0 }
looked: skip
    :: atomic { recalls < RECALLS && (page[0] == P_CLAIMED || page[1] == P_CLAIMED) ->
           if :: page[0] == P_CLAIMED -> w = 0 :: page[1] == P_CLAIMED -> w = 1 fi;
           s = page_slot[w]; n = page_number[w] }
       atomic {
           if
           :: live[s] && number[s] == n && !unwanted[s] && !(ring[position[s]] != EMPTY && NAMES(s)) &&
              page[w] == P_CLAIMED && page_slot[w] == s && page_number[w] == n -> /* L1 */
               recalls++; page[w] = P_RECALLED;
#ifndef BUG_RECALL_WANTED
               unwanted[s] = 1;
#endif
               assert(grain_state[grain[s]] == OUT); grain_state[grain[s]] = QUEUED
           :: else
           fi; s = 0; n = 0; w = 0 }
    :: atomic { (dead[0] && !recovered[0]) || (dead[1] && !recovered[1]) -> /* a death: records, ring, page */
           if :: dead[0] && !recovered[0] -> w = 0 :: else -> w = 1 fi;
           do
           :: w == 0 && nempty(records0) -> records0?s, n, kind; take(s, n, kind)
           :: w == 1 && nempty(records1) -> records1?s, n, kind; take(s, n, kind)
           :: (w == 0 && empty(records0)) || (w == 1 && empty(records1)) -> break
           od;
           g = 0;
           do
           :: g < RS ->
               if
               :: ring[g] == CLAIMED && ring_worker[g] == w ->
                   s = ring_slot[g]; n = shadow_number[g]; give_back(s, n);
                   ring[g] = EMPTY; ring_cancel[g] = 0; ring_worker[g] = FREE_WORKER
               :: else
               fi; g++
           :: else -> break
           od;
           if :: page[w] != P_FREE -> s = page_slot[w]; n = page_number[w]; give_back(s, n); page[w] = P_FREE :: else fi;
           recovered[w] = 1; g = 0; s = 0; n = 0; w = 0; kind = 0 }
    :: atomic { grain_state[0] == SEALED && grain_state[1] == SEALED && !live[0] && !live[1] && !live[2] ->
           finished = 1; break }
    od
}

proctype killer() {
end_killer:
    do
    :: atomic { kills < KILLS && !finished && (!dead[0] || !dead[1]) -> kills++;
           if
           :: !dead[0] -> dead[0] = 1; if :: is_running[0] -> is_running[0] = 0; running[runs[0]]-- :: else fi
           :: !dead[1] -> dead[1] = 1; if :: is_running[1] -> is_running[1] = 0; running[runs[1]]-- :: else fi
           fi }
    od
}

init {
    atomic {
        ring[0] = EMPTY; ring[1] = EMPTY; page[0] = P_FREE; page[1] = P_FREE;
        ring_worker[0] = FREE_WORKER; ring_worker[1] = FREE_WORKER;
        grain_state[0] = QUEUED; grain_state[1] = QUEUED; slot_of[0] = NONE; slot_of[1] = NONE;
        run shard(); run worker(0); run worker(1); run killer()
    }
}
