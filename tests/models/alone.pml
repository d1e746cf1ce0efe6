/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suspects that run with nothing else out (engine/alone.c), for Spin: two shards, each with one ordinary row and some
 * suspects, any of which may damage the rings of any shard while it runs. A shard notices damage to its rings when it
 * pleases; what runs alone at that moment is killed and charged. Checked: when a suspect runs, nothing else is out; it
 * is charged only for damage of its own; everybody ends (no invalid end state). A shard parks by sampling its event
 * count before it looks, as the engine's shards do.
 */
#ifndef SUSPECTS
#define SUSPECTS 2
#endif
#define ORDINARY 9 /* who did the damage: an ordinary row, or a suspect by its number, from 1 */
byte word;         /* round * 4, and 1 + the shard that holds it */
byte quiet_for[2];
bit events[2];  /* of each shard: bumped since it sampled, so that it may not sleep */
byte dirty[2];  /* who damaged its rings, as the last one to do so */
bit out[2];     /* an ordinary row of it */
byte suspect;   /* that runs; 0: none */
byte all_done;  /* shards live until both have nothing left */

#define HOLDER(w) ((w) % 4)
#define NEXT(w, holder) (((w) / 4 + 1) * 4 + (holder))

inline wake(s) { events[s] = 1 }
inline wake_all() { atomic { wake(0); wake(1) } }
inline damage(who) {
    if :: dirty[0] = who :: skip fi;
    if :: dirty[1] = who :: skip fi
}

/* A row of shard `own` while it is out. */
proctype ordinary(byte own) {
    if :: atomic { damage(ORDINARY) } :: skip fi;
    atomic { out[own] = 0; wake(own) }
}

proctype alone(byte own; byte who) {
    if
    :: atomic { suspect == who -> damage(who) }
    :: skip
    fi;
    atomic { if :: suspect == who -> suspect = 0; wake(own) :: else fi } /* unless it was killed */
}

/* The rings are made anew: whoever runs is killed. */
inline rebuild(own) {
    atomic {
        assert(suspect == 0 || suspect == dirty[own]);
        dirty[own] = 0;
        if :: suspect != 0 -> suspect = 0; wake(0); wake(1) :: else fi
    }
}

/* is_quiet */
inline look(own, at, ret) {
    ret = 0;
    if
    :: out[own] || suspect != 0 && HOLDER(at) == own + 1 -> skip
    :: else ->
#ifndef BUG_UNSEEN
        if :: dirty[own] != 0 -> rebuild(own) :: else fi;
#endif
        quiet_for[own] = at;
        ret = 1
    fi
}

proctype shard(byte own) {
    bit ordinary_left = 1, used = 0, drained = 0, done = 0, work, quiet, open;
    byte left = SUSPECTS, at;
    do
    :: events[own] = 0; work = 0; open = 0;
       if :: dirty[own] != 0 -> rebuild(own) :: skip fi; /* noticed, or not yet */
       at = word;
       if
       :: HOLDER(at) == 0 && left > 0 ->
           atomic { if :: word == at -> word = NEXT(at, own + 1); at = word; used = 0; drained = 0 :: else -> at = word fi };
           if :: HOLDER(at) == own + 1 -> wake_all() :: else fi
       :: else
       fi;
       if
       :: HOLDER(at) == own + 1 && !out[own] && suspect == 0 ->
           if
           :: left == 0 -> at = NEXT(at, 0); word = at; wake_all(); open = 1
           :: else ->
#ifndef BUG_ONE_ROUND
               if :: used -> at = NEXT(at, own + 1); word = at; wake_all() :: else fi;
#endif
               used = 0;
               look(own, at, quiet);
#ifndef BUG_FIRST_ROUND
               if
               :: quiet && quiet_for[1 - own] == at && !drained ->
                   drained = 1; at = NEXT(at, own + 1); word = at; wake_all();
                   look(own, at, quiet)
               :: else
               fi;
#else
               drained = 1;
#endif
               if
#ifndef BUG_PER_SHARD
               :: drained && quiet && quiet_for[1 - own] == at ->
#else
               :: quiet ->
#endif
                   atomic {
                       assert(suspect == 0 && !out[0] && !out[1]);
                       suspect = 1 + own * SUSPECTS + left - 1;
                       run alone(own, suspect)
                   };
                   left--; used = 1; work = 1
               :: else
               fi
           fi
       :: HOLDER(at) == 2 - own && quiet_for[own] != at ->
           look(own, at, quiet);
           if :: quiet -> wake(1 - own) :: else fi
       :: HOLDER(at) == 0 -> open = 1
       :: else
       fi;
       if
       :: open && ordinary_left && !out[own] ->
           atomic { out[own] = 1; run ordinary(own) };
           ordinary_left = 0; work = 1
       :: else
       fi;
       if
       :: !ordinary_left && left == 0 && !out[own] && HOLDER(word) != own + 1 ->
           if
           :: !done -> done = 1; atomic { all_done++; wake_all() }
           :: else
           fi
       :: else
       fi;
       if
       :: all_done == 2 -> break
       :: all_done < 2 && work
       :: all_done < 2 && !work -> events[own] /* parked */
       fi
    od
}

init { atomic { run shard(0); run shard(1) } }
