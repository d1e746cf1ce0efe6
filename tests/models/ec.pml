/* SPDX-License-Identifier: Apache-2.0 */
/* What shm/event_count.h does, for Spin: `run` checks it, and that each BUG_ switch breaks it. */
/* Event count (one futex word: seq<<1 | FLAG) with dying wakers and waiters. Workers = waiters on items pushed by the shard; workers are
   wakers of the shard (completion), and may die at any step, also between the bump and the futex_wake. The supervisor, on each death,
   bumps every event count unconditionally and wakes all. SC memory (the real code needs a full fence between publish and load of the word,
   and between setting FLAG and the re-check).
   ITEMS rows; the shard pushes row i+1.. as the ring (RINGN) allows; run ends when all are answered (dead worker's row is pushed again). */
#ifndef ITEMS
#define ITEMS 3
#endif
#ifndef KILLS
#define KILLS 1
#endif
byte ring=0, todo=ITEMS, compl=0, done=0, nrun=0; bit holds[2]; bit dead[2]; bit rec[2]; byte kills=0; bit fin=0;
byte wseq=0; bit wflag=0; bit wsleep[2];         /* event count of the pool  */
byte sseq=0; bit sflag=0; bit ssleep=0;           /* event count of the shard */
byte stuck=0; 
#define M 4
#ifndef RINGN
#define RINGN 2
#endif
bit ovf=0; /* shard-written: work waits in the arena for room */
inline wake_workers() {   /* called by the shard after a push batch */
   atomic{ f=wflag;
#ifdef BUG_WAKE_ALWAYS_CLEAR_ONE
#endif
     if :: f -> wflag=0; wseq=(wseq+1)%M :: else -> 
#ifdef BUG_SEQ_ONLY_IF_FLAG
#else
        wseq=(wseq+1)%M
#endif
     fi }
   if :: f ->
#ifdef BUG_WAKE_ONE
     atomic{ if :: wsleep[0] -> wsleep[0]=0 :: wsleep[1] -> wsleep[1]=0 :: (!wsleep[0] && !wsleep[1]) fi }
#else
     atomic{ wsleep[0]=0; wsleep[1]=0 }
#endif
   :: else fi; f=0 }
proctype worker(bit me) { bit f; byte s;
 { skip;
loop: atomic{ s=wseq }                                 /* W1 sample */
   if
   :: atomic{ ring>0 -> ring--; holds[me]=1 }           /* claim */
      if :: true :: atomic{ (stuck==0) -> stuck=1; goto longrow } fi;
back: atomic{ compl++; holds[me]=0 }                    /* publish the record */
      atomic{ f=sflag; sflag=0; sseq=(sseq+1)%M }       /* bump */
      if :: f -> atomic{ ssleep=0; f=0 } :: else fi     /* futex_wake */
   :: atomic{ (ring==0 && fin) -> goto out }
   :: atomic{ (ring==0 && !fin) -> skip };
#ifdef FIX_OVF
      if :: atomic{ ovf -> ovf=0; f=1 } :: atomic{ !ovf -> f=0 } fi;
      if :: f -> atomic{ f=sflag; sflag=0; sseq=(sseq+1)%M }; if :: f -> atomic{ ssleep=0; f=0 } :: else fi :: else fi;
#endif
      atomic{ if :: wseq==s -> wflag=1 :: else -> goto loop fi }  /* W2 announce: CAS (s,flag?) -> (s,FLAG) */
#ifndef BUG_NO_RECHECK
      atomic{ if :: (ring>0 || fin) -> goto loop :: else fi }      /* W3 re-check */
#endif
      atomic{ if :: (wseq==s && wflag) -> wsleep[me]=1 :: else -> goto loop fi }  /* W4 futex_wait(word,(s,FLAG)) */
      !wsleep[me]
   fi;
   goto loop;
longrow: atomic{ stuck==2 -> skip } ; goto back
 } unless { dead[me] }
out: skip }
proctype shard() { bit f; byte s;
loop: atomic{ s=sseq }
   if
   :: atomic{ compl>0 -> done=done+compl; compl=0 }
   :: atomic{ (dead[0] && !rec[0]) -> rec[0]=1; if :: holds[0] -> holds[0]=0; todo++ :: else fi }
   :: atomic{ (dead[1] && !rec[1]) -> rec[1]=1; if :: holds[1] -> holds[1]=0; todo++ :: else fi }
   :: atomic{ (todo>0 && ring<RINGN) -> todo--; ring++ }
      wake_workers()
   :: atomic{ (done==ITEMS) -> fin=1 } wake_workers(); goto out
   :: atomic{ (compl==0 && !(dead[0]&&!rec[0]) && !(dead[1]&&!rec[1]) && !(todo>0 && ring<RINGN) && done<ITEMS) -> skip };
#ifdef FIX_OVF
      atomic{ ovf=(todo>0) };
#endif
      atomic{ if :: sseq==s -> sflag=1 :: else -> goto loop fi };
      atomic{ if :: (compl>0 || (dead[0]&&!rec[0]) || (dead[1]&&!rec[1]) || (todo>0 && ring<RINGN)) -> goto loop :: else fi };
      atomic{ if :: (sseq==s && sflag) -> ssleep=1 :: else -> goto loop fi };
      !ssleep
   fi; goto loop;
out: skip }
proctype super() { bit f;
end_s: do
  :: atomic{ (kills<KILLS) -> kills++; if :: !dead[0] -> dead[0]=1 :: !dead[1] -> dead[1]=1 fi };
#ifndef BUG_NO_BUMP
#ifdef BUG_COND_BUMP
     atomic{ f=sflag; sflag=0; sseq=(sseq+1)%M }; if :: f -> atomic{ ssleep=0; f=0 } :: else fi;
#else
     atomic{ sseq=(sseq+1)%M; sflag=0 }; atomic{ ssleep=0 };
#endif
     atomic{ wseq=(wseq+1)%M; wflag=0 }; atomic{ wsleep[0]=0; wsleep[1]=0 }
#else
     atomic{ sseq=(sseq+1)%M; sflag=0 }; atomic{ ssleep=0 }    /* only the shard is told */
#endif
  od }
/* a long row (stuck==1) ends only when the system is otherwise quiet: while it lasts no other worker may sleep with items in the ring */
proctype mon() {
end_m: do :: timeout ->
      if :: (ring>0 && ((!dead[0] && wsleep[0]) || (!dead[1] && wsleep[1]))) -> assert(0) :: else fi;
#ifndef NO_OVERFLOW_CHECK
      /* work waits in the arena, the ring has room, a worker sleeps */
      if :: (todo>0 && ring<RINGN && ((!dead[0] && wsleep[0]) || (!dead[1] && wsleep[1]))) -> assert(0) :: else fi;
#endif
      if :: stuck==1 -> stuck=2 :: else -> break fi od;
   /* final quiescence */
   assert(fin || (dead[0]&&dead[1])) }
init { atomic{ run shard(); run worker(0); run worker(1); run super(); run mon() } }
