#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""notice.py BUILD SLOW_BENCH: a claim path that is slower by a tenth is noticed by the gate and by compare, and the same
program twice is not. SLOW_BENCH is sheaf_bench with perf/micro/slow_claim.c."""
import os
import subprocess
import sys
import tempfile

PERF = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLAIM = 'ready_ring/push_and_claim/32'


def gate(build, *more):
    done = subprocess.run([os.path.join(PERF, 'gate'), '--build', build, '--only', 'instructions', '--parts', CLAIM] + list(more),
                          capture_output=True, text=True)
    print(done.stdout, done.stderr)
    return done.returncode


def compare(before, after):
    done = subprocess.run([os.path.join(PERF, 'compare'), before, after], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    return done.returncode


def main():
    build, slow = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        files = [os.path.join(scratch, name) for name in ('first.json', 'second.json', 'slow.json')]
        codes = [gate(build, '--json', files[0]), gate(build, '--json', files[1]), gate(build, '--bench', slow, '--json', files[2])]
        if 77 in codes:
            return 77
        if codes != [0, 0, 1]:
            print('the gate said %s, not [0, 0, 1]' % codes)
            return 1
        said = compare(files[0], files[1]), compare(files[0], files[2])
        if said != (0, 1):
            print('compare said %s, not (0, 1)' % (said,))
            return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
