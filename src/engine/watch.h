/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor knows of the process behind each worker number, and looking after those that live: a row over
 * its deadline, memory over the share, a process that was stopped from outside or does not get ready. Who is found is
 * killed; its death tells the rest. One whose memory grew and stays is asked to end after the row at hand, and
 * replaced: what operators leak does not add up. The supervisor's thread, except where a field says otherwise.
 */
#ifndef SRC_ENGINE_WATCH_H
#define SRC_ENGINE_WATCH_H

#include "engine/run.h"
#include "engine/spawn.h"

enum { OUTPUT_LINE_BYTES = 1024 };

enum phase {
    PHASE_NONE,       /* no process */
    PHASE_STARTING,   /* said hello to */
    PHASE_READY,      /* claims and runs */
    PHASE_RECOVERING, /* dead; shards take what is theirs */
};

struct process {
    enum phase phase;
    struct child child;
    _Atomic pid_t pid; /* 0: none; what other threads may see of `child` */
    uint32_t generation;
    uint32_t futile_starts;
    uint32_t stopped_ticks; /* in a row that found it stopped */
    uint64_t rows_run;      /* by the last tick */
    uint64_t bytes;         /* of its private memory when last read */
    bool killed;            /* by us, for `end` */
    bool idle;              /* because it took no rows */
    bool by_shard;          /* for what others of its Pool may have done as well */
    uint64_t killed_ns;     /* when */
    bool undead_told;       /* it was said that it does not die */
    bool greeted;           /* it has its hello */
    enum worker_end end;
    uint64_t started_ns;       /* when it was made */
    bool start_told;           /* it was said that its start takes long */
    uint64_t ready_ns;         /* when it said that it was */
    uint64_t ending_since_ns;  /* it is to end and has no rows since; 0: not so */
    uint64_t ending_waited_ns; /* and how long it had waited for a core then */
    uint64_t least_bytes;      /* of its private memory, in the ticks counted so far */
    uint32_t least_ticks;
    uint64_t row_since_ns;  /* of the row that ran longest at the last thorough look ... */
    uint64_t row_waited_ns; /* ... and how long the process had waited for a core at the one before that row */
    uint32_t grain;         /* the row over its deadline */
    uint64_t number;
    enum device_fault fault;      /* of its device, in its last words */
    bool fault_alone;             /* and nothing else ran there */
    uint32_t device_faults;       /* of the device, over all its processes, that are its own */
    uint32_t faults_in_a_row;     /* of any kind, with no batch done in between */
    bool retired;                 /* no process is started any more */
    uint64_t base_bytes;          /* private memory when it was first looked at: a driver's, on a device */
    char refusal[256];            /* why it cannot serve, in its own words */
    char why[128];                /* why we killed it */
    _Atomic bool to_blame;        /* the process that died had a row running, or had run some */
    _Atomic bool moved_on;        /* the run went on between its death and the one before */
    uint32_t idle_deaths;         /* in a row, of processes that had nothing to do with any row, as they weigh */
    _Atomic uint32_t shards_left; /* that have not yet recovered from its death */
    char line[OUTPUT_LINE_BYTES]; /* output not yet ended by a newline */
    size_t line_bytes;
};

/* Ends a process: its death is reported as `end`, with the reason in the words of `format`. */
void process_kill(struct process *process, enum worker_end end, const char *format, ...) SHEAF_PRINTF(3, 4);

/* How long a process may take to be gone once it was killed: beyond, it is stuck in the system. */
uint64_t watch_death_ns(void);

/* Resident memory of a process less what it shares. */
uint64_t process_private_bytes(pid_t pid);

/*
 * What of `elapsed_ns` counts against a deadline when the process waited `waited_ns` of it for a core: a machine with
 * more to do than cores must not make rows fail. At least a sixteenth counts, so that every deadline comes.
 */
static inline uint64_t watch_own_ns(uint64_t elapsed_ns, uint64_t waited_ns)
{
    enum { STRETCH_MAX = 16 };
    uint64_t least_ns = elapsed_ns / STRETCH_MAX;
    return waited_ns < elapsed_ns - least_ns ? elapsed_ns - waited_ns : least_ns;
}

/* How often to look, so that a deadline is kept to a quarter of it. */
int watch_period_ms(const struct sheaf_run *run);
/* In every so many ticks everything is looked at, by the supervisor and by shards (audit.c); in the others what costs
 * little, and who is near its share of memory. A long deadline is kept to a sixteenth of it, or four seconds, and a
 * tick. */
uint64_t watch_thorough_ticks(const struct sheaf_run *run);
/* It ended by itself with no row running: to be replaced, and nobody's fault. */
bool process_ended_well(const struct sheaf_run *run, uint32_t worker, const struct process *process, int status);

/* Payload memory that a process uses without having been given it goes back, and the process ends: stray.c. */
void watch_stray(struct sheaf_run *run, struct process *processes);

/* Looks at every process of the run once. */
void watch_tick(struct sheaf_run *run, struct process *processes, bool thorough);

#endif
