/* SPDX-License-Identifier: Apache-2.0 */
/* Writes over every byte of shared memory that a worker can write. Where that is is found out before the seal. */
#ifndef TESTS_HOSTILE_SCRIBBLE_H
#define TESTS_HOSTILE_SCRIBBLE_H

enum scribble_pattern { SCRIBBLE_ZEROS, SCRIBBLE_ONES, SCRIBBLE_RANDOM, SCRIBBLE_SOME_WORDS, SCRIBBLE_PATTERNS };
/* How the scribbler ends. */
enum scribble_end { SCRIBBLE_ANSWERS, SCRIBBLE_CRASHES, SCRIBBLE_STAYS, SCRIBBLE_ENDS };

#define SCRIBBLE(pattern, end, seed) ((unsigned)(pattern) + 10u * (unsigned)(end) + 100u * (unsigned)(seed))

void scribble_prepare(void);
void scribble(unsigned how);
/* Makes holes of payload memory real, of its own segment or of all others, and stays. */
void touch_holes(int own);

#endif
