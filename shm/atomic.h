/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few atomic operations shared memory is built from, with their orders in their names.
 *
 * Every word that two processes touch is an `_Atomic` of 32 or 64 bits (lock-free and address-free on every machine
 * this runs on, asserted below) and is read and written through these, so that each use names its order and a reader of
 * the code can look for the partner. A plain load of such a word (sequentially consistent by accident) does not occur.
 */
#ifndef SHM_ATOMIC_H
#define SHM_ATOMIC_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CACHE_LINE_BYTES 64u
/* Adjacent-line prefetch pulls lines in pairs: words of different writers stand this far apart. */
#define FALSE_SHARING_BYTES 128u
#define HUGE_PAGE_BYTES (2u << 20)

typedef _Atomic uint32_t shared_u32;
typedef _Atomic uint64_t shared_u64;

static_assert(sizeof(shared_u32) == 4 && ATOMIC_INT_LOCK_FREE == 2, "shared words need lock-free 32-bit atomics");
static_assert(sizeof(shared_u64) == 8 && ATOMIC_LONG_LOCK_FREE == 2, "shared words need lock-free 64-bit atomics");

static inline uint32_t load_relaxed_u32(const shared_u32 *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline uint64_t load_relaxed_u64(const shared_u64 *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline uint32_t load_acquire_u32(const shared_u32 *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline uint64_t load_acquire_u64(const shared_u64 *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void store_relaxed_u32(shared_u32 *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline void store_relaxed_u64(shared_u64 *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline void store_release_u32(shared_u32 *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static inline void store_release_u64(shared_u64 *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* `expected` -> `wanted`, acquire and release; true when it was done. `expected` is by value: callers start over. */
static inline bool swap_exact_u32(shared_u32 *word, uint32_t expected, uint32_t wanted)
{
    return atomic_compare_exchange_strong_explicit(word, &expected, wanted, memory_order_acq_rel, memory_order_acquire);
}

static inline bool swap_exact_u64(shared_u64 *word, uint64_t expected, uint64_t wanted)
{
    return atomic_compare_exchange_strong_explicit(word, &expected, wanted, memory_order_acq_rel, memory_order_acquire);
}

/* Between "I published" and "I look whether somebody sleeps", and between "I announced my sleep" and "I look again". */
static inline void fence_total(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
