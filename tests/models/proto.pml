/* SPDX-License-Identifier: Apache-2.0 */
/* What shm/ready_ring.h, claim_page.h and completion_ring.h do, for Spin: `run` checks it, and that each BUG_ switch breaks it.
   A worker scans from the head, may leave READY rows to others (FILTER), claims up to BR of them, unlinks all, and only then
   moves the head over what is no longer READY. */
/* Sheaf ready ring + claim page + completion ring. Sequentially consistent. One shard, two workers, NG grains, RS slots.
   Every statement / atomic block below is ONE shared-memory access (load, store or CAS) unless it touches only shard-private state.
   Bug switches (each is a deviation from the final protocol): see the #ifdef names. */
#ifndef NG
#define NG 3
#endif
#ifndef RS
#define RS 2
#endif
#ifndef CR
#define CR 1
#endif
#ifndef BR            /* rows per claim page = batch bound */
#define BR 1
#endif
#ifndef LAPMOD
#define LAPMOD 64
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef RECALLS
#define RECALLS 1
#endif
#ifndef RAISES
#define RAISES 1
#endif
#ifndef REUSES
#define REUSES 1
#endif
/* slot states */
#define EMPTY 0
#define READY 1
#define SCLAIMED 2
/* page states (0 = free row) */
#define P_FREE 0
#define P_CLAIMED 1
#define P_RUNNING 2
#define P_CANCELLED 3
#define P_RECALLED 4
/* record kinds */
#define R_ANSWER 0
#define R_RAISED 1
#define R_RELEASED 2
/* arena grain states */
#define UNQ 0      /* READY, not in the ring */
#define DISP 1     /* READY/CLAIMED/RUNNING as far as the arena knows: pushed */
#define SEALED 2
#define LAP(p) (((p)/RS)%LAPMOD)

/* --- shared, writable by workers --- */
byte sst[RS]; byte slap[RS]; byte sg[RS]; bit sw[RS]; bit sc[RS];
byte head=0;
byte pst[2*BR]; byte pg[2*BR]; byte pd[2*BR];
chan comp0 = [CR] of {byte,byte,byte};
chan comp1 = [CR] of {byte,byte,byte};
/* --- shared, written by the shard only --- */
byte tail=0; byte ddesc[NG]; bit fin=0;
/* --- arena, shard-private --- */
byte gs[NG]; byte disp[NG]; byte live[NG]; byte shg[RS]; byte shd[RS]; byte pos[NG];
bit rec[2];
/* --- ghosts --- */
bit dead[2]; bit stopped[2];
byte kills=0, stops=0, cancels=0, recalls=0, raises=0, reuses=0;
bit freed[NG]; bit nrun[NG]; byte running[NG]; byte seals[NG];
bit isrun[2]; byte rung[2];   /* ghost: worker w is inside a row of grain rung */

#define ANYFREE  (1)
#define BIT(d) (1<<(d))

#define UNLINK(p) sst[(p)%RS]=EMPTY; sc[(p)%RS]=0; sg[(p)%RS]=0; sw[(p)%RS]=0; slap[(p)%RS]=LAP((p)+RS)
#define FREEROW pst[me*BR+i]=P_FREE; pg[me*BR+i]=0; pd[me*BR+i]=0
proctype worker(bit me) {
  byte h,b,g,d,i,n,k; byte G[BR]; byte D[BR]; byte H[BR]; bit C[BR];
  { skip;
loop: atomic{ if :: fin -> goto out :: (!fin && head<tail) -> h=head; goto claim fi };
claim:
  /* C1: claim = CAS READY(lap,g) -> CLAIMED(lap,g,me); or leave the row to another worker (affinity) and look further */
  atomic{ if :: (sst[h%RS]==READY && slap[h%RS]==LAP(h)) -> sst[h%RS]=SCLAIMED; sw[h%RS]=me; G[n]=sg[h%RS]; H[n]=h; assert(!freed[G[n]])
#ifdef FILTER
             :: (sst[h%RS]==READY && slap[h%RS]==LAP(h)) -> goto next
#endif
             :: else -> goto next fi };
#ifdef BUG_UNLINK_FIRST
  atomic{ C[n]=sc[h%RS]; UNLINK(h) };
#endif
  /* C2+C3: read the descriptor, then claim page row <- CLAIMED(g,d), one store-release */
  atomic{ g=G[n]; d=ddesc[g]; D[n]=d; assert(!freed[g]);
#ifndef BUG_UNLINK_FIRST
          assert(d==disp[g]);
#endif
          pst[me*BR+n]=P_CLAIMED; pg[me*BR+n]=g; pd[me*BR+n]=d; n++; g=0; d=0 };
next: /* the head stays where it is until all of the batch is unlinked */
  atomic{ h++; if :: (n<BR && h<tail) -> goto claim
                  :: (n>=BR || h>=tail) -> h=0; i=0; if :: n==0 -> goto adv :: else -> goto unl fi fi };
unl:
#ifndef BUG_UNLINK_FIRST
#ifdef BUG_UNLINK_STORE
  atomic{ UNLINK(H[i]); i++; if :: i<n -> goto unl :: else -> i=0; goto adv fi };
#else
  /* C4: CAS CLAIMED(lap,g,me) -> EMPTY(lap+1); fails only on the CANCEL bit */
  atomic{ assert(sst[H[i]%RS]==SCLAIMED && sw[H[i]%RS]==me && sg[H[i]%RS]==G[i] && slap[H[i]%RS]==LAP(H[i]));
          if :: !sc[H[i]%RS] -> UNLINK(H[i])
             :: else -> C[i]=1;
#ifndef BUG_REL_BEFORE_EMPTY
                goto unl2
#endif
          fi; i++; if :: i<n -> goto unl :: else -> i=0; goto adv fi };
unl2: /* C4': CAS CLAIMED|CANCEL -> EMPTY(lap+1) */
  atomic{ UNLINK(H[i]); i++; if :: i<n -> goto unl :: else -> i=0; goto adv fi };
#endif
#endif
adv: /* hint: over all positions that are no longer READY, one look at a time, then one CAS from the head first read */
  atomic{ b=head; h=b };
look:
  atomic{ if :: (h<tail && !(sst[h%RS]==READY && slap[h%RS]==LAP(h))) -> h++; goto look
             :: else -> skip fi };
  atomic{ if :: head==b -> head=h :: else fi; h=0; b=0; if :: n==0 -> goto loop :: else -> goto rows fi };
rows:
#ifdef BUG_UNLINK_FIRST
  i=0;
#endif
rows2:
  /* C5: CAS page CLAIMED -> RUNNING */
  atomic{ g=G[i]; d=D[i]; assert(!freed[g]);
     if :: C[i] -> k=R_RELEASED           /* cancelled in the slot: never runs */
        :: (!C[i] &&
#ifdef BUG_RUN_STORE
            true
#else
            pst[me*BR+i]==P_CLAIMED
#endif
           ) -> pst[me*BR+i]=P_RUNNING; assert(!nrun[g]); running[g]++; isrun[me]=1; rung[me]=g; assert(running[g]==1);
                if :: k=R_ANSWER :: (raises<RAISES) -> raises++; k=R_RAISED fi
#ifndef BUG_RUN_STORE
        :: (!C[i] && pst[me*BR+i]!=P_CLAIMED) -> k=R_RELEASED
#endif
     fi };
#ifdef BUG_CLEAR_BEFORE_RECORD
  atomic{ FREEROW };
#endif
  /* C6: publish the record (blocks while the ring is full) */
  atomic{ if :: (!me) -> comp0!g,d,k :: (me) -> comp1!g,d,k fi; 
     assert(!freed[g]); if :: isrun[me] -> running[g]--; isrun[me]=0; rung[me]=0 :: else fi };
#ifdef BUG_REL_BEFORE_EMPTY
  if :: C[i] -> atomic{ UNLINK(H[i]) } :: else fi;
#endif
  /* C7: page row <- FREE */
  atomic{
#ifndef BUG_CLEAR_BEFORE_RECORD
     FREEROW;
#endif
     G[i]=0; D[i]=0; H[i]=0; C[i]=0; g=0; d=0; k=0; i++;
     if :: i<n -> goto rows2 :: else -> i=0; n=0; goto loop fi }
  } unless { (dead[me] || stopped[me]) }
out: skip
}

inline trySealFree(x) { if :: (gs[x]==SEALED && live[x]==0) -> freed[x]=1 :: else fi }
inline seal(x) { seals[x]++; assert(seals[x]==1); gs[x]=SEALED }
inline handle(x,dd,kk) {   /* shard-private; called inside atomic */
   if :: (live[x] & BIT(dd)) ->
         live[x] = live[x] & (255-BIT(dd));
         if :: (gs[x]==DISP && disp[x]==dd) ->
               if :: kk==R_ANSWER -> seal(x)
                  :: else -> gs[x]=UNQ   /* raised (innocent) or given back: again, uncharged */
               fi
            :: else fi;
         trySealFree(x)
      :: else /* stale: discarded */
   fi }
#ifdef BUG_FREE_ON_SEAL
#define FREEONSEAL(x) freed[x]=1
#else
#define FREEONSEAL(x) trySealFree(x)
#endif

proctype shard() {
  byte i,j,g,d,k,s; bit w, found; bit first[NG];
  #ifdef BUG_KEY_ATTEMPT
  byte charged[NG];
#define CHG(x) charged[x]=1
#else
#define CHG(x) skip
#endif

  do
  :: /* push the first unqueued grain */
     atomic{ (
#if NG>2
        gs[2]==UNQ ||
#endif
        gs[0]==UNQ || gs[1]==UNQ) && (sst[tail%RS]==EMPTY
#ifndef BUG_NO_SKIP
        || (sst[tail%RS]==SCLAIMED && sst[(tail+1)%RS]==EMPTY)
#endif
        ) ->
        if :: gs[0]==UNQ -> g=0 :: else -> if :: gs[1]==UNQ -> g=1 :: else -> g=2 fi fi;
        /* a position whose slot is still claimed from the lap before is skipped, not waited for */
        if :: sst[tail%RS]!=EMPTY -> tail=tail+1 :: else fi;
#ifdef BUG_KEY_ATTEMPT
        if :: first[g] -> disp[g]=disp[g]+charged[g] :: else -> disp[g]=0 fi; first[g]=1; charged[g]=0;
#else
        if :: first[g] -> disp[g]++ :: else fi; first[g]=1;
#endif
        assert(disp[g]<7);
        live[g]=live[g]|BIT(disp[g]);
        ddesc[g]=disp[g]                 /* P1: descriptor */
#ifdef SPLIT_P1
        } atomic{
#else
        ;
#endif
        s=tail%RS; assert(sst[s]==EMPTY); shg[s]=g; shd[s]=disp[g]; pos[g]=tail; gs[g]=DISP;
        sst[s]=READY; sg[s]=g; slap[s]=LAP(tail); sc[s]=0; sw[s]=0 }      /* P2: slot READY(lap,g) */
     atomic{ tail=tail+1; g=0; s=0 }                                           /* P3: tail */
  :: atomic{ comp0?g,d,k -> handle(g,d,k); g=0; d=0; k=0 }
  :: atomic{ comp1?g,d,k -> handle(g,d,k); g=0; d=0; k=0 }
  :: /* cancel (suppress) one grain, once */
     atomic{ cancels<CANCELS -> cancels++;
       if :: gs[0]!=SEALED -> g=0 :: gs[1]!=SEALED -> g=1
#if NG>2
          :: gs[2]!=SEALED -> g=2
#endif
          :: (gs[0]==SEALED && gs[1]==SEALED && (NG<3 || gs[NG-1]==SEALED)) -> goto cdone fi;
       if :: gs[g]==UNQ -> seal(g); nrun[g]=1; FREEONSEAL(g); goto cdone :: else fi;
       s=pos[g]%RS; d=disp[g] }
#ifdef BUG_PAGE_BEFORE_SLOT
     w=0;
bpg: do
     :: atomic{ for (i : 0 .. BR-1) { if :: (pst[w*BR+i]!=P_FREE && pg[w*BR+i]==g && pd[w*BR+i]==d) -> found=1; k=w*BR+i :: else fi };
        if :: (found && pst[k]==P_CLAIMED) -> pst[k]=P_CANCELLED; seal(g); nrun[g]=1; FREEONSEAL(g); goto cdone
           :: (found && pst[k]!=P_CLAIMED) -> seal(g); FREEONSEAL(g); goto cdone
           :: !found fi }
        if :: w==0 -> w=1 :: w==1 -> break fi
     od;
#endif
     /* X1: CAS READY -> EMPTY(lap+1) ("DEAD") */
     atomic{ if :: (sst[s]==READY && slap[s]==LAP(pos[g]) && sg[s]==g) -> sst[s]=EMPTY; sg[s]=0; slap[s]=LAP(pos[g]+RS);
                   live[g]=live[g]&(255-BIT(d)); seal(g); nrun[g]=1; FREEONSEAL(g); goto cdone :: else fi }
     /* X2: CAS CLAIMED(lap,g,w) -> CLAIMED|CANCEL */
     atomic{ if :: (sst[s]==SCLAIMED && slap[s]==LAP(pos[g]) && sg[s]==g) -> sc[s]=1; seal(g); nrun[g]=1; FREEONSEAL(g); goto cdone :: else fi }
#ifndef BUG_PAGE_BEFORE_SLOT
     /* X3: CAS page CLAIMED(g,d) -> CANCELLED(g,d), worker by worker, row by row */
     k=0;
     do
     :: atomic{ k<2*BR -> 
             if :: (pst[k]!=P_FREE && pg[k]==g && pd[k]==d) ->
                   if :: pst[k]==P_CLAIMED -> pst[k]=P_CANCELLED; nrun[g]=1 :: else -> skip /* RUNNING: result will be discarded */ fi;
                   seal(g); FREEONSEAL(g); goto cdone
                :: else fi; k++ }
     :: atomic{ k==2*BR -> k=0; break }
     od;
#endif
#ifdef BUG_AUDIT_NO_RINGS
     assert(0); /* breach: a READY grain that no slot and no page names */
#endif
     /* X4: then it was answered before we looked: the record must be in a ring; drain all rings and look again */
     do
     :: atomic{ comp0?i,k,j -> handle(i,k,j) }
     :: atomic{ comp1?i,k,j -> handle(i,k,j) }
     :: atomic{ (empty(comp0) && empty(comp1)) -> break }
     od;
     /* after draining, the dispatch we looked for is released or named by nobody = breach */
     /* afterwards the dispatch looked for is released; if it were not, nobody names it: a breach */
     assert(!(gs[g]==DISP && disp[g]==d && (live[g]&BIT(d))));
cdone: atomic{ g=0; d=0; s=0; w=0; i=0; k=0; j=0; found=0 }
  :: /* recall one CLAIMED row, once */
     atomic{ (recalls<RECALLS && (pst[0]==P_CLAIMED || pst[BR]==P_CLAIMED || pst[BR-1]==P_CLAIMED || pst[2*BR-1]==P_CLAIMED)) ->
       if :: pst[0]==P_CLAIMED -> k=0 :: pst[BR]==P_CLAIMED -> k=BR
          :: pst[BR-1]==P_CLAIMED -> k=BR-1 :: pst[2*BR-1]==P_CLAIMED -> k=2*BR-1 fi;
       g=pg[k]; d=pd[k];
       if :: (gs[g]==DISP && disp[g]==d
#ifndef BUG_RECALL_LINKED
              && !(sst[pos[g]%RS]==SCLAIMED && slap[pos[g]%RS]==LAP(pos[g]) && sg[pos[g]%RS]==g)   /* the slot no longer names it */
#endif
             ) -> recalls++ :: else -> g=0; d=0; k=0; goto progress_rdone fi }
     /* L1: CAS page CLAIMED(g,d) -> RECALLED(g,d) */
     atomic{ if :: (pst[k]==P_CLAIMED && pg[k]==g && pd[k]==d) -> pst[k]=P_RECALLED; gs[g]=UNQ :: else fi; g=0; d=0; k=0 }
progress_rdone: skip
  :: /* recovery of a dead worker: one block; nobody else can change what it reads (the victim's ring, page, and slots CLAIMED by it) */
     atomic{ ((dead[0] && !rec[0]) || (dead[1] && !rec[1])) -> if :: (dead[0] && !rec[0]) -> w=0 :: else -> w=1 fi;
     do
     :: (w==0) && nempty(comp0) -> comp0?g,d,k; handle(g,d,k)
     :: (w==1) && nempty(comp1) -> comp1?g,d,k; handle(g,d,k)
     :: ((w==0 && empty(comp0)) || (w==1 && empty(comp1))) -> break
     od;
     i=0;
     do
     :: i<RS -> if :: (sst[i]==SCLAIMED && sw[i]==w) ->
            g=sg[i];
#ifdef BUG_RECOVER_BY_GRAIN
            d=disp[g];
#else
            d=shd[i]; assert(shg[i]==g);
#endif
            if :: (live[g]&BIT(d)) -> live[g]=live[g]&(255-BIT(d));
                  if :: (gs[g]==DISP && disp[g]==d) -> gs[g]=UNQ; CHG(g) :: else fi; trySealFree(g) :: else fi;
            sst[i]=EMPTY; sg[i]=0; sw[i]=0; sc[i]=0; slap[i]=(slap[i]+1)%LAPMOD
          :: else fi; i++
     :: else -> break
     od;
     i=0;
     do
     :: i<BR -> k=w*BR+i; if :: pst[k]!=P_FREE ->
            g=pg[k]; d=pd[k];
            if :: (live[g]&BIT(d)) -> live[g]=live[g]&(255-BIT(d));
                  if :: (gs[g]==DISP && disp[g]==d) -> gs[g]=UNQ; CHG(g) :: else fi; trySealFree(g) :: else fi;
            pst[k]=P_FREE; pg[k]=0; pd[k]=0
          :: else fi; i++
     :: else -> break
     od;
     rec[w]=1; w=0; i=0; g=0; d=0; k=0 }
  :: /* the id of a finished grain is used for a new grain, once */
     atomic{ (reuses<REUSES && gs[0]==SEALED && live[0]==0) -> reuses++; gs[0]=UNQ; seals[0]=0; freed[0]=0; nrun[0]=0;
#ifdef BUG_KEY_ATTEMPT
        first[0]=0; charged[0]=0
#endif
      }
  :: atomic{ (gs[0]==SEALED && gs[1]==SEALED && (NG<3 || gs[NG-1]==SEALED) && live[0]==0 && live[1]==0 && live[NG-1]==0) ->
       fin=1; assert(freed[0] && freed[1] && freed[NG-1]); break }
  od
}
proctype killer() {  /* fate + supervisor: kill at any step of the victim, or stop it for ever */
end_k: do
  :: atomic{ kills<KILLS && !fin -> kills++; if :: !stopped[0] -> dead[0]=1; if :: isrun[0] -> running[rung[0]]--; isrun[0]=0; rung[0]=0 :: else fi
                                          :: !stopped[1] -> dead[1]=1; if :: isrun[1] -> running[rung[1]]--; isrun[1]=0; rung[1]=0 :: else fi fi }
#if STOPS>0
  :: atomic{ stops<STOPS && !fin -> stops++; if :: !dead[0] -> stopped[0]=1 :: !dead[1] -> stopped[1]=1 fi }
#endif
  od
}
#if STOPS>0
#define HELD(g) ((stopped[0]||stopped[1]) && (live[g]!=0))
#define HELDBY(w,g) (stopped[w] && ((sst[0]==SCLAIMED&&sw[0]==w&&sg[0]==g)||(sst[1]==SCLAIMED&&sw[1]==w&&sg[1]==g)||(pst[w*BR]!=P_FREE&&pg[w*BR]==g)||(pst[w*BR+BR-1]!=P_FREE&&pg[w*BR+BR-1]==g)))
#define OKG(g) (gs[g]==SEALED || HELDBY(0,g) || HELDBY(1,g))
proctype mon() {
end_m: do :: timeout -> assert(OKG(0) && OKG(1) && OKG(NG-1)); break od
}
#endif
init { atomic{ run shard(); run worker(0); run worker(1); run killer();
#if STOPS>0
 run mon();
#endif
} }
