#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_documents.py SHEAF corpus|determinism|resume: the documents pipeline over the corpus of real files
(SHEAF_SHARED/corpus; skipped where there is none).

corpus        the corpus's own check
determinism   1, 2 and 7 workers, and once more: the same trees byte for byte, but for run.json, times, order of lines
resume        interrupted again and again, then finished: the same tree as without interruption
"""
import os
import shutil
import signal
import subprocess
import sys

import tool


def find_corpus():
    here = os.path.dirname(os.path.abspath(__file__))
    shared = os.environ.get("SHEAF_SHARED") or os.path.join(here, "..", "..", "..", "shared")
    corpus = os.path.join(shared, "corpus")
    if not os.path.isdir(os.path.join(corpus, "handed", "pdf")):
        print(f"skipped: no corpus at {corpus}; set SHEAF_SHARED")
        sys.exit(tool.SKIP)
    return corpus


def check_corpus(checks, corpus):
    run = subprocess.run([sys.executable, os.path.join(corpus, "check_documents.py"), checks.program,
                          os.path.join(corpus, "handed")], capture_output=True, text=True, check=False)
    print(run.stdout)
    checks.expect(run.returncode == 0, f"check_documents.py: {run.stdout}{run.stderr}")


def sample_of(checks, corpus, count):
    """A folder of links to the smaller files of the corpus, valid and broken, PDFs and images."""
    folder = checks.path("in")
    os.mkdir(folder)
    for kind in ("pdf", "image"):
        names = os.listdir(os.path.join(corpus, "handed", kind))
        names.sort(key=lambda name: (os.path.getsize(os.path.join(corpus, "handed", kind, name)), name))
        for name in names[:count]:
            os.symlink(os.path.abspath(os.path.join(corpus, "handed", kind, name)), os.path.join(folder, name))
    return folder


def run_into(checks, folder, name, *options):
    tree = checks.path(name)
    run = checks.run("run", "documents", "-i", folder, "-o", tree, "--progress", "none", *options, timeout=1200)
    checks.expect(run.returncode in (0, 3), f"{name}: exit {run.returncode}: {run.stderr.decode(errors='replace')}")
    ledger = tool.read_ledger(tree)
    checks.expect(tool.balance(ledger) is None, f"{name}: {tool.balance(ledger)}")
    return tool.snapshot(tree)


def check_determinism(checks, corpus):
    folder = sample_of(checks, corpus, 40)
    options = ("--images", "jpeg", "--dpi", "72")
    first = run_into(checks, folder, "one", "--workers", "1", *options)
    checks.expect(len(first) > 40, f"only {len(first)} files came out")
    for name, workers in (("two", "2"), ("seven", "7"), ("again", "2")):
        other = run_into(checks, folder, name, "--workers", workers, *options)
        checks.expect(tool.difference(first, other) is None, f"{name}: {tool.difference(first, other)}")
        shutil.rmtree(checks.path(name))


def check_resume(checks, corpus):
    folder = sample_of(checks, corpus, 40)
    whole = run_into(checks, folder, "whole")
    tree = checks.path("pieces")
    command = [checks.program, "run", "documents", "-i", folder, "-o", tree, "--progress", "none", "--workers", "2"]
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        before = count_lines(tree)
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and count_lines(tree) <= before + 3:
                try:
                    process.wait(0.02)
                except subprocess.TimeoutExpired:
                    pass
            process.send_signal(number)
    pieces = run_into(checks, folder, "pieces", "--workers", "2")
    for files in (whole, pieces):
        files.pop(b"manifest.jsonl")
        files.pop(b"errors.jsonl", None)
    checks.expect(tool.difference(whole, pieces) is None, f"resumed: {tool.difference(whole, pieces)}")
    rows = tool.read_manifest(tree)
    checks.expect(len(rows) == len(os.listdir(folder)), f"resumed: {len(rows)} sources in the manifest")


def count_lines(tree):
    try:
        with open(os.path.join(tree, "manifest.jsonl"), "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def main():
    corpus = find_corpus()
    checks = tool.Checks(sys.argv[1])
    {"corpus": check_corpus, "determinism": check_determinism, "resume": check_resume}[sys.argv[2]](checks, corpus)
    checks.finish()


if __name__ == "__main__":
    main()
