# SPDX-License-Identifier: Apache-2.0
"""What memory a run really holds, seen from outside: anonymous memory of all its processes and the blocks of its memfds.

Anonymous memory is what PSS says of it (so shared pages count once); memfds count whole, whoever has mapped them, and
so do those that nobody has mapped. Files are the page cache's.
"""
import os
import subprocess
import time

PERIOD_S = 0.05
BLOCK_BYTES = 512  # of st_blocks, whatever the file system


def children_of(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass  # it ended meanwhile
    return found


def processes(pid):
    """A process and all below it."""
    found = [pid]
    for one in found:
        found += children_of(one)
    return found


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss_Anon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def memfds(pid):
    """(device, inode) -> (bytes, name) of the memfds a process has open."""
    found = {}
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{number}"
            try:
                name = os.readlink(path)
                if name.startswith("/memfd:"):
                    status = os.stat(path)
                    found[status.st_dev, status.st_ino] = (status.st_blocks * BLOCK_BYTES, name.split()[0][7:])
            except OSError:
                pass
    except OSError:
        pass
    return found


def sample(pid):
    """Bytes by holder: "engine", "workers", and the names of memfds."""
    held, files = {}, {}
    for one in processes(pid):
        who = "engine" if one == pid else "workers"
        held[who] = held.get(who, 0) + anonymous_bytes(one)
        files.update(memfds(one))
    for size, name in files.values():
        held[name] = held.get(name, 0) + size
    return held


def watch(command, each=None, **options):
    """Runs a command; after each sample calls each(pid, number). Returns its exit code, what it said, the most it ever
    held, that sample by holder, and how many samples there were."""
    peak, at_peak, samples = 0, {}, 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    next_at = time.monotonic()
    while process.poll() is None:
        held = sample(process.pid)
        samples += 1
        if sum(held.values()) > peak:
            peak, at_peak = sum(held.values()), held
        if each is not None:
            each(process.pid, samples)
        next_at += PERIOD_S
        time.sleep(max(0, next_at - time.monotonic()))
    said = process.stdout.read().decode(errors="replace")
    return process.returncode, said, peak, at_peak, samples
