# SPDX-License-Identifier: Apache-2.0
"""Runs a command and says what its whole tree of processes took.

CPU is what the kernel counts for every process that was waited for. Processes that outlive their parent come to us (we
are their reaper) and count too; those that are still there when the command has ended are ended. A parent that ignores its
children's deaths (Ray's) loses their time: for such trees every process is looked at four times a second as well, and the
larger sum counts.
System calls' bytes come from the same accounting: what read and write moved, not what sendmsg or shared memory did.
"""
import ctypes
import os
import signal
import subprocess
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
LEFT_OVER_S = 5
TICK_S = 1 / os.sysconf('SC_CLK_TCK')


def become_reaper():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ''


def children_of(pid):
    try:
        tasks = os.listdir('/proc/%d/task' % pid)
    except OSError:
        return []
    return [int(child) for task in tasks for child in read('/proc/%d/task/%s/children' % (pid, task)).split()]


def tree_of(pid):
    """All descendants of a process, itself included."""
    found, rest = [], [pid]
    while rest:
        one = rest.pop()
        found.append(one)
        rest.extend(children_of(one))
    return found


def io_bytes():
    fields = dict(line.split(': ') for line in read('/proc/self/io').splitlines())
    return int(fields.get('rchar', 0)) + int(fields.get('wchar', 0))


def pss(pid):
    """Proportional bytes of a process: private and file pages, and shared memory apart."""
    own, shared = 0, 0
    for line in read('/proc/%d/smaps_rollup' % pid).splitlines():
        name, _, rest = line.partition(':')
        if name in ('Pss_Anon', 'Pss_File'):
            own += int(rest.split()[0]) << 10
        elif name == 'Pss_Shmem':
            shared += int(rest.split()[0]) << 10
    return own, shared


def shared_files(pid):
    """Shared memory that a process has open, by inode: memfds and files of /dev/shm, with what they really take."""
    found = {}
    try:
        names = os.listdir('/proc/%d/fd' % pid)
    except OSError:
        return found
    for name in names:
        path = '/proc/%d/fd/%s' % (pid, name)
        try:
            if os.readlink(path).startswith(('/memfd:', '/dev/shm/')):
                about = os.stat(path)
                found[about.st_dev, about.st_ino] = about.st_blocks * 512
        except OSError:
            pass
    return found


def tree_bytes(pid):
    """Shared memory counts once, as what is mapped or what the files take, whichever is more."""
    own, mapped, files = 0, 0, {}
    for one in tree_of(pid):
        private, shared = pss(one)
        own += private
        mapped += shared
        files.update(shared_files(one))
    return own + max(mapped, sum(files.values()))


class Sampler(threading.Thread):
    """Memory of the tree against time. Reading it costs the machine something, so runs whose times count go without."""

    def __init__(self, pid, since, every_s):
        super().__init__(daemon=True)
        self.pid, self.since, self.every_s, self.samples, self.over = pid, since, every_s, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.every_s):
            self.samples.append((time.monotonic() - self.since, tree_bytes(self.pid)))


class CpuSampler(threading.Thread):
    """CPU seconds of every process of the tree as last seen. What it misses is the last moment of each."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seen, self.over = pid, {}, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.25):
            for one in tree_of(self.pid):
                fields = read('/proc/%d/stat' % one).rpartition(')')[2].split()
                if len(fields) > 12:
                    self.seen[one] = (int(fields[11]) + int(fields[12])) * TICK_S

    def seconds(self):
        return sum(self.seen.values())


class FirstFile(threading.Thread):
    """Notes when the first file with this ending appears in a folder."""

    def __init__(self, folder, ending, since):
        super().__init__(daemon=True)
        self.folder, self.ending, self.since, self.first_s, self.over = folder, ending, since, None, threading.Event()
        self.start()

    def look(self):
        try:
            return any(entry.name.endswith(self.ending) for entry in os.scandir(self.folder))
        except OSError:
            return False

    def run(self):
        while not self.over.is_set():
            if self.look():
                self.first_s = time.monotonic() - self.since
                return
            self.over.wait(0.01)


def reap_the_rest():
    """Waits for what the command left behind, and ends what does not end; their CPU seconds."""
    cpu, until = 0, time.monotonic() + LEFT_OVER_S
    while True:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu
        if pid:
            cpu += used.ru_utime + used.ru_stime
            continue
        if time.monotonic() > until:
            for one in children_of(os.getpid()):
                os.kill(one, signal.SIGKILL)
        time.sleep(0.02)


def run(command, environment=None, watch=None, memory_every_s=None, sample_cpu=False, timeout_s=3600):
    """The command's wall and CPU seconds and whatever else was asked for. `watch`: a folder and an ending.

    Raises RuntimeError with the last lines of standard error when the command fails."""
    become_reaper()
    before, since = io_bytes(), time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL)
    sampler = Sampler(process.pid, since, memory_every_s) if memory_every_s else None
    first = FirstFile(watch[0], watch[1], since) if watch else None
    cpu_sampler = CpuSampler(os.getpid()) if sample_cpu else None
    killer = threading.Timer(timeout_s, process.kill)
    killer.start()
    said, complained = drain(process)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - since
    killer.cancel()
    for thread in (sampler, first, cpu_sampler):
        if thread:
            thread.over.set()
            thread.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime + reap_the_rest()
    if cpu_sampler:
        cpu_sampler.seen.pop(os.getpid(), None)
        cpu = max(cpu, cpu_sampler.seconds())
    if process.returncode != 0:
        raise RuntimeError('exit %d of %s: %s' % (process.returncode, ' '.join(command), complained[-2000:]))
    result = {'wall_s': wall, 'cpu_s': cpu, 'io_bytes': io_bytes() - before - len(said), 'stdout': said}
    if first:
        result['first_s'] = first.first_s if first.first_s is not None else wall
    if sampler:
        result['memory'] = sampler.samples
        result['peak_bytes'] = max([size for _, size in sampler.samples] or [0])
    return result


def drain(process):
    """Both outputs, until both are closed."""
    complained = []
    reader = threading.Thread(target=lambda: complained.append(process.stderr.read()), daemon=True)
    reader.start()
    said = process.stdout.read()
    reader.join(LEFT_OVER_S)
    return said, ''.join(complained)
