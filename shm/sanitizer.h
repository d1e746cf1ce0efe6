/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sanitizers this is built with, as gcc and clang say it: for what they forbid, or would not see through. 1 or 0.
 */
#ifndef SHM_SANITIZER_H
#define SHM_SANITIZER_H

#if defined(__has_feature)
#define SANITIZER_HAS_FEATURE(name) __has_feature(name)
#else
#define SANITIZER_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZER_HAS_FEATURE(address_sanitizer)
#define BUILT_WITH_ADDRESS_SANITIZER 1
#else
#define BUILT_WITH_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZER_HAS_FEATURE(thread_sanitizer)
#define BUILT_WITH_THREAD_SANITIZER 1
#else
#define BUILT_WITH_THREAD_SANITIZER 0
#endif

#define BUILT_WITH_SANITIZER                                                                                           \
    (BUILT_WITH_ADDRESS_SANITIZER || BUILT_WITH_THREAD_SANITIZER || SANITIZER_HAS_FEATURE(memory_sanitizer))

#endif
