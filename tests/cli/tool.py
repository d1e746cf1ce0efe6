# SPDX-License-Identifier: Apache-2.0
"""What the tests of the program share: running it, reading its output trees, a list of failed expectations."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
# Fields that may differ between two runs over the same files.
TIMING = ("elapsed_ms",)


class Checks:
    """Expectations that go on after a failure, and a folder that is removed at the end."""

    def __init__(self, program):
        self.program = program
        self.failures = []
        self.folder = tempfile.mkdtemp(prefix="sheaf-test-")
        atexit.register(self.tell)  # an exception is mostly the consequence of what failed before

    def expect(self, ok, what):
        if not ok:
            self.failures.append(what)
        return ok

    def run(self, *arguments, **options):
        options.setdefault("timeout", 600)
        return subprocess.run([self.program, *arguments], capture_output=True, check=False, **options)

    def expect_exit(self, wanted, *arguments, says=None, **options):
        run = self.run(*arguments, **options)
        said = run.stderr.decode(errors="replace")
        name = " ".join(str(argument) for argument in arguments)
        self.expect(run.returncode == wanted, f"{name}: exit {run.returncode}, want {wanted}: {said.strip()}")
        if says is not None:
            self.expect(says in said, f"{name}: wanted '{says}' in: {said.strip()}")
        return run

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def tell(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        print("\n".join(self.failures))

    def finish(self):
        sys.exit(1 if self.failures else 0)


def read_lines(path):
    """A .jsonl file as objects; names come back as the bytes they are by os.fsencode."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return [json.loads(line) for line in file]


def read_manifest(tree):
    return {os.path.basename(row["source"]): row for row in read_lines(os.path.join(tree, "manifest.jsonl"))}


def read_ledger(tree):
    with open(os.path.join(tree, "run.json"), encoding="utf-8") as file:
        return json.load(file)


def balance(ledger):
    """None, or how the ledger is wrong."""
    total = sum(ledger[key] for key in ("ok", "partial", "filtered", "failed", "skipped"))
    if ledger["inputs"] != total:
        return f"{ledger['inputs']} inputs, {total} accounted for"
    return None


def snapshot(tree):
    """What of a tree must not depend on time: path -> bytes; lines of manifest and errors sorted, without times."""
    files = {}
    for folder, _, names in os.walk(os.fsencode(tree)):
        for name in names:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, os.fsencode(tree))
            if short.startswith(b".") or short == b"run.json":
                continue  # the journal, the lock; the ledger
            if short in (b"manifest.jsonl", b"errors.jsonl"):
                rows = read_lines(os.fsdecode(path))
                for row in rows:
                    for key in TIMING:
                        row.pop(key, None)
                files[short] = sorted(json.dumps(row, sort_keys=True) for row in rows)
            else:
                with open(path, "rb") as file:
                    files[short] = file.read()
    return files


def difference(left, right):
    """The first few paths at which two snapshots differ, or None."""
    paths = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
    if not paths:
        return None
    return f"{len(paths)} paths differ: " + ", ".join(os.fsdecode(path) for path in paths[:5])
