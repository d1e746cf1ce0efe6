#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_kill.py SHEAF workers|engine: the documents pipeline over text PDFs of the corpus (SHEAF_SHARED/corpus; skipped
where there is none) while processes are killed from outside.

workers   SIGKILL, SIGSEGV and SIGSTOP to workers at random moments, until SHEAF_KILLS (default 30) were sent
engine    SIGKILL to the program at SHEAF_KILLS (default 8) random moments; after each, no worker lives for longer than
          two seconds and what the journal names is whole; the same command again, in the end, completes the tree

The trees must be those of an undisturbed run, byte for byte but for times and numbers of attempts. SHEAF_SEED picks the
moments. A row whose worker is killed while it runs is charged with that (after one more run alone), so the pipeline is
`documents` with `recovery: retry` in every Call: what is tested is that nothing is lost or doubled, not who is blamed.
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import tool  # noqa: E402  pylint: disable=wrong-import-position

NAMES = ("us_constitution", "congress", "multicolumn", "minimal-document", "form", "pdflatex-4-pages",
         "with-attachment", "china", "cardinal", "nics-background-checks-2015-11-rotated",
         "layout-parser-paper-with-empty-pages", "toc_maxdepth", "right_to_left_01", "GeoTopo-komprimiert",
         "freeculture", "simple-open-password", "bad1", "pages-loop")
WORKERS = 4
FRAME = struct.Struct("<IIQQBB6x")
FRAME_MAGIC, KIND_ROOT, KIND_RETRACT = 0x314C4A53, 2, 3
TIMING = ("elapsed_ms", "attempt")


def find_documents():
    here = os.path.dirname(os.path.abspath(__file__))
    shared = os.environ.get("SHEAF_SHARED") or os.path.join(here, "..", "..", "..", "shared")
    folder = os.path.join(shared, "corpus", "handed", "pdf")
    if not os.path.isdir(folder):
        print(f"skipped: no corpus at {folder}; set SHEAF_SHARED")
        sys.exit(tool.SKIP)
    return folder


def retrying_pipeline(checks):
    """`documents` with `recovery: retry` in every Call."""
    with open(os.path.join(os.environ["SHEAF_PIPELINES"], "documents.yaml"), encoding="utf-8") as file:
        text = file.read()
    words = ("recovery: retry", "retries: 50", "backoff_ms: 1")
    text = text.replace("pool: pages\n", "pool: pages\n" + "".join(f"    {word}\n" for word in words))
    text = text.replace("pool: pages,", f"pool: pages, {', '.join(words)},")
    path = checks.path("retrying.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class Ground:
    """Sources, pipeline, and what an undisturbed run makes of them."""

    def __init__(self, checks):
        self.checks = checks
        self.sources = checks.path("in")
        documents = find_documents()
        os.mkdir(self.sources)
        for name in NAMES:
            shutil.copy(os.path.join(documents, name + ".pdf"), self.sources)
        self.pipeline = retrying_pipeline(checks)
        begun = time.monotonic()
        run = self.start("calm")
        said = run.communicate(timeout=600)[1]
        self.duration_s = time.monotonic() - begun
        checks.expect(run.returncode == 3, f"undisturbed: exit {run.returncode}: {said.decode(errors='replace')}")
        self.calm = self.snapshot("calm")
        checks.expect(len(self.calm) > len(NAMES), f"undisturbed: only {len(self.calm)} files")

    def tree(self, name):
        return self.checks.path(name)

    def start(self, name):
        return subprocess.Popen([self.checks.program, "run", self.pipeline, "-i", self.sources, "-o", self.tree(name),
                                 "--set", "text.ocr=never", "--workers", str(WORKERS), "--progress", "none"],
                                stderr=subprocess.PIPE)

    def snapshot(self, name):
        files = tool.snapshot(self.tree(name))
        for path in (b"manifest.jsonl", b"errors.jsonl"):
            rows = [json.loads(line) for line in files.get(path, ())]
            for row in rows:
                for key in TIMING:
                    row.pop(key, None)
            files[path] = sorted(json.dumps(row, sort_keys=True) for row in rows)
        return files

    def compare(self, name, resumed=False):
        files, calm = self.snapshot(name), dict(self.calm)
        if resumed:  # these two tell of the last run, and of the order of roots in it
            for path in (b"manifest.jsonl", b"errors.jsonl"):
                files.pop(path)
                calm.pop(path)
        difference = tool.difference(calm, files)
        self.checks.expect(difference is None, f"{name}: {difference}")
        self.check_journal(name, True, resumed)
        left = os.listdir(os.path.join(self.tree(name), ".sheaf", "tmp"))
        self.checks.expect(not left, f"{name}: temporary files are left: {left[:5]}")

    def check_journal(self, name, whole, resumed=False):
        """What it names is there, whole, and named once."""
        named = {}
        for kind, text in journal_records(self.tree(name)):
            record = json.loads(text.splitlines()[0]) if text else {}
            source = json.dumps(record.get("source"))
            if kind == KIND_RETRACT:
                named.clear()  # nothing retracts in these runs: sources and pipeline stay the same
                self.checks.expect(False, f"{name}: a record was retracted")
            if kind != KIND_ROOT:
                continue
            again = source in named and not (resumed and named[source]["status"] == "failed")  # those are tried again
            self.checks.expect(not again, f"{name}: {source} was committed twice")
            named[source] = record
            for entry in record["files"]:
                path = os.fsencode(entry["path"])
                with open(os.path.join(os.fsencode(self.tree(name)), path), "rb") as file:
                    self.checks.expect(file.read() == self.calm.get(path), f"{name}: {entry['path']} is not whole")
        self.checks.expect(not whole or len(named) == len(NAMES), f"{name}: the journal names {len(named)} sources")
        return len(named)


def journal_records(tree):
    """The good records up to a torn end."""
    path = os.path.join(tree, ".sheaf", "journal")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + FRAME.size <= len(data):
        magic, text_bytes, _, _, kind, _ = FRAME.unpack_from(data, at)
        end = at + FRAME.size + text_bytes
        if magic != FRAME_MAGIC or end > len(data):
            return
        yield kind, data[at + FRAME.size:end].decode(errors="surrogateescape")
        at = end


def stat_of(pid):
    """(parent, state) or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[1]), fields[0]
    except (OSError, IndexError):
        return None


def children_of(pid):
    found = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    stats = {entry: stat_of(entry) for entry in found}
    return [entry for entry, stat in stats.items() if stat and stat[0] == pid and stat[1] != "Z"]


def is_gone(pid):
    stat = stat_of(pid)
    return stat is None or stat[1] == "Z"


def has_settled(pid):
    """Whether a worker has closed its sandbox: three deaths of one number in a row before that end a run, as they must."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return "NoNewPrivs:\t1" in file.read()
    except OSError:
        return False


def wait_gone(pids, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if all(is_gone(pid) for pid in pids):
            return []
        time.sleep(0.02)
    return [pid for pid in pids if not is_gone(pid)]


def kill_workers_of(process, chance, kills, seen):
    """One run with signals sent to its workers; returns how many of each."""
    sent = {}
    while process.poll() is None:
        workers = children_of(process.pid)
        seen.update(workers)
        ready = [pid for pid in workers if has_settled(pid) and (stat_of(pid) or (0, "T"))[1] != "T"]
        if ready and sum(sent.values()) < kills:
            number = chance.choices((signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP), (10, 8, 1))[0]
            try:
                os.kill(chance.choice(ready), number)
                sent[number.name] = sent.get(number.name, 0) + 1
            except ProcessLookupError:
                pass
        time.sleep(chance.expovariate(1 / 0.08))
    return sent


def test_workers(checks, ground, chance, kills):
    total = {}
    memory_files = set(os.listdir("/dev/shm"))
    number = 0
    while sum(total.values()) < kills and not checks.failures:
        name, seen = f"run{number}", set()
        process = ground.start(name)
        sent = kill_workers_of(process, chance, kills - sum(total.values()), seen)
        said = process.stderr.read().decode(errors="replace")
        for key, count in sent.items():
            total[key] = total.get(key, 0) + count
        checks.expect(process.returncode == 3, f"{name}: exit {process.returncode} after {sent}: {said.strip()[-600:]}")
        if process.returncode == 3:
            ledger = tool.read_ledger(ground.tree(name))
            checks.expect(tool.balance(ledger) is None, f"{name}: {tool.balance(ledger)}")
            ground.compare(name)
            print(f"{name}: {sent}, {ledger['worker_deaths']} deaths, {ledger['wall_s']:.1f} s")
        checks.expect(not wait_gone(seen, 0.5), f"{name}: workers are left")
        if not checks.failures:
            shutil.rmtree(ground.tree(name))
        number += 1
    left = set(os.listdir("/dev/shm")) - memory_files
    checks.expect(not [name for name in left if "sheaf" in name], f"left in /dev/shm: {left}")
    print(f"{sum(total.values())} signals in {number} runs: {total}")


def test_engine(checks, ground, chance, kills):
    trees, resumed = 0, False
    for number in range(kills):
        name = f"tree{trees}"
        process = ground.start(name)
        seen = set()
        begun = time.monotonic()
        deadline = begun + chance.uniform(0, 1.3 * ground.duration_s)
        while time.monotonic() < deadline and process.poll() is None:
            seen.update(children_of(process.pid))
            time.sleep(0.02)
        seen.update(children_of(process.pid))
        process.kill()
        process.communicate()
        checks.expect(not wait_gone(seen, 2), f"kill {number}: workers live on")
        named = ground.check_journal(name, False, resumed=True)
        print(f"kill {number}: {time.monotonic() - begun:.2f} s, exit {process.returncode}, {named} sources are done")
        if process.returncode != -signal.SIGKILL:  # it had ended: a whole tree
            ground.compare(name, resumed)
            shutil.rmtree(ground.tree(name))
            trees, resumed = trees + 1, False
        else:
            resumed = True
    process = ground.start(f"tree{trees}")
    said = process.communicate(timeout=600)[1].decode(errors="replace")
    checks.expect(process.returncode in (0, 3), f"the last run: exit {process.returncode}: {said}")
    ground.compare(f"tree{trees}", resumed)
    print(f"{kills} kills, {trees} trees were complete before")


def main():
    checks = tool.Checks(sys.argv[1])
    mode = sys.argv[2]
    kills = int(os.environ.get("SHEAF_KILLS", {"workers": 30, "engine": 8}[mode]))
    seed = int(os.environ.get("SHEAF_SEED", random.randrange(1 << 32)))
    print(f"SHEAF_SEED={seed} SHEAF_KILLS={kills}", flush=True)
    {"workers": test_workers, "engine": test_engine}[mode](checks, Ground(checks), random.Random(seed), kills)
    checks.finish()


if __name__ == "__main__":
    main()
