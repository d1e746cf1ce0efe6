# SPDX-License-Identifier: Apache-2.0
"""The trace of engine/timing.h: what every process did when, and what it did not."""
import struct

HEAD, RECORD = struct.Struct('<QQ'), struct.Struct('<QQII')


def make(path, records):
    with open(path, 'wb') as file:
        file.truncate(HEAD.size + records * RECORD.size)


def read(path):
    """(start_s, end_s, process, rows), in order of start."""
    with open(path, 'rb') as file:
        data = file.read()
    used = min(HEAD.unpack_from(data)[0], (len(data) - HEAD.size) // RECORD.size)
    records = [RECORD.unpack_from(data, HEAD.size + at * RECORD.size) for at in range(used)]
    return sorted((start * 1e-9, end * 1e-9, process, rows) for start, end, process, rows in records)


def phases(batches, started_s, run_s):
    """Ramp: until every process has begun its first batch. Drain: from when the first process is done with its last one.
    Between them all could work; `idle` is the part of that time in which they did not."""
    first, last, busy = {}, {}, 0
    for start, end, process, _ in batches:
        first.setdefault(process, start)
        last[process] = end
    ramp, drain = max(first.values()), min(last.values())
    for start, end, _, _ in batches:
        busy += max(0, min(end, drain) - max(start, ramp))
    steady = max(0, drain - ramp)
    return {'ramp_s': ramp - started_s, 'steady_s': steady, 'drain_s': started_s + run_s - drain,
            'idle_in_steady': 1 - busy / (steady * len(first)) if steady > 0 else 0}


def rows_done(batches, at_s):
    return sum(rows for _, end, _, rows in batches if end <= at_s)


def sizes(batches):
    """How many batches had how many rows."""
    found = {}
    for _, _, _, rows in batches:
        found[rows] = found.get(rows, 0) + 1
    return found
