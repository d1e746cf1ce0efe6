# SPDX-License-Identifier: Apache-2.0
"""Every write to shared memory in shm/ and src/worker/ has a crash point after it, or stands in the list below with
a reason; and every crash point is tried by the test, or belongs to the engine, which cannot lose one thread of itself.

    check_points.py SOURCE_ROOT
"""
import re
import sys
from pathlib import Path

# How shared words are written, and memory that others read.
WRITE = re.compile(
    r"\b(store_(?:relaxed|release)_u(?:32|64)|swap_exact_u(?:32|64)|"
    r"atomic_(?:store|exchange|fetch_\w+|compare_exchange\w*)(?:_explicit)?|__atomic_(?:store|exchange|fetch)\w*)\s*\(")
MEMORY = re.compile(r"\bmemcpy\((?:layout->base|room|data_at|copy,|payload)|\bput_header\(|"
                    r"\btrailer_of\([^)]*\)->\w+ = |^\s*\*trailer_of")
POINT = re.compile(r'SHEAF_CRASH_POINT\("([^"]+)"\)')
FUNCTION_END = re.compile(r"^}")

# (file, part of the line): why no point follows it within its function.
ALLOWED = {
    ("src/worker/park.c", "counters->"): "a counter or state for people and heuristics: nothing is decided by it alone",
    ("src/worker/park.c", "watch->"): "the process's own memory",
    ("src/worker/park.c", "own->"): "the process's own memory",
    ("src/worker/claim.c", "counters->damaged"): "a counter: it only makes the shard look, and its bump is a point",
    ("src/worker/claim.c", "lane.counters->state"): "a hint: the tick and every bump make up for a wrong one",
    ("src/worker/row.c", "counters->"): "a counter for the ledger",
    ("src/worker/host.c", "counters->"): "a counter for the ledger",
    ("src/worker/worker.c", "counters->batches"): "a counter for the ledger",
    ("src/worker/device_batch.c", "counters->batches"): "a counter for the ledger",
    ("src/worker/payload.c", "lane.counters->state"): "a hint: the tick and every bump make up for a wrong one",
    ("src/worker/payload.c", "counters->heap_bytes"): "a counter for the ledger",
    ("src/worker/publish.c", "memcpy(layout->base"): "inside a block nobody knows of; payload.block_written follows",
    ("src/worker/publish.c", "memcpy(room"): "inside a value that nobody knows of; payload.written follows it",
    ("shm/spsc_ring.c", "memcpy(data_at(ring"): "a header behind the write index; spsc.filled follows it",
    ("shm/spsc_ring.c", "put_header("): "behind the write index, seen by nobody; spsc.filled follows it",
    ("shm/spsc_ring.c", "ring->"): "a ring that no process has yet, or that is reset for the next one",
    ("shm/ready_producer.c", "ring->"): "the engine's: rings that no worker may use meanwhile",
    ("shm/ready_producer.c", "slots->head"): "the engine's: a hint",
    ("shm/claim_page.c", "page->rows[row].word, 0"): "the engine's, after a death; a worker's own has its point",
    ("shm/crash_point.c", ""): "the points themselves",
    ("shm/board.c", ""): "the engine's: before any worker has the board",
    ("shm/lane.c", ""): "the engine's: before any worker has the lane",
    ("shm/segment.c", ""): "the engine's",
    ("shm/completion_ring.c", ""): "behind the write index, seen by nobody; record.written follows",
    ("shm/control_ring.c", ""): "the engine's",
    ("shm/dispatch.c", "slot++, word"): "of a slot that no ring names yet; dispatch.written follows",
}
ENGINE_POINTS = {"ready.pushed", "ready.tail_moved", "ready.cancelled", "ready.cancel_marked", "ready.swept",
                 "claim.taken_back", "dispatch.written"}


def functions(lines):
    """(first, end) of the line ranges of function bodies: from a '{' in column 0 to a '}' in column 0."""
    start = None
    for number, line in enumerate(lines):
        if line.startswith("{"):
            start = number
        elif start is not None and FUNCTION_END.match(line):
            yield start, number
            start = None


def allowed(name, line):
    for (file, part), _ in ALLOWED.items():
        if file == name and part in line:
            used.add((file, part))
            return True
    return False


def check_file(name, text, complaints):
    lines = text.splitlines()
    writes = 0
    for start, end in functions(lines):
        for number in range(start, end):
            if not (WRITE.search(lines[number]) or MEMORY.search(lines[number])):
                continue
            writes += 1
            if any(POINT.search(line) for line in lines[number:end]) or allowed(name, lines[number]):
                continue
            complaints.append(f"{name}:{number + 1}: no crash point follows this write to shared memory: "
                              f"{lines[number].strip()}")
    return writes


used = set()


def main():
    root = Path(sys.argv[1])
    complaints, points, writes = [], {}, 0
    files = sorted(root.glob("shm/*.c")) + sorted(root.glob("src/worker/*.c"))
    for path in files:
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(root))
        writes += check_file(name, text, complaints)
        for point in POINT.findall(text):
            if point in points and points[point] != name:
                complaints.append(f"{name}: the point {point} is in {points[point]} too")
            points[point] = name
    table = (root / "tests/crash/test_crash_points.c").read_text(encoding="utf-8")
    tried = set(re.findall(r'^    \{"([a-z_.]+)",', table, re.MULTILINE))
    for point in sorted(points.keys() - tried - ENGINE_POINTS):
        complaints.append(f"{points[point]}: the point {point} is tried by no test")
    for point in sorted((tried | ENGINE_POINTS) - points.keys()):
        complaints.append(f"the point {point} is named by a test and in no source")
    for file, part in sorted(ALLOWED.keys() - used):
        if part:
            complaints.append(f"{file}: nothing needs the exception for '{part}' any more")
    print("\n".join(complaints))
    print(f"{len(files)} files, {writes} writes, {len(points)} points, {len(tried)} tried")
    sys.exit(1 if complaints else 0)


main()
