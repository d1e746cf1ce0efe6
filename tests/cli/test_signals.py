#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_signals.py SHEAF MAKE_SAMPLES: a run that is interrupted, terminated, killed or asked, and one that finds another at
work in its output folder. Whatever happened, the same command finishes the tree, byte for byte as if nothing had."""
import os
import re
import signal
import subprocess
import sys
import time

import tool

DOCUMENTS, PAGES = 200, 30


def make_sources(checks, make_samples):
    folder = checks.path("many")
    os.mkdir(folder)
    first = os.path.join(folder, "000.pdf")
    subprocess.run([sys.executable, make_samples, "--pages", str(PAGES), first], check=True)
    for number in range(1, DOCUMENTS):
        os.link(first, os.path.join(folder, f"{number:03}.pdf"))
    return folder


def command_for(checks, folder, tree):
    return [checks.program, "run", "documents", "-i", folder, "-o", tree, "--progress", "none", "--workers", "1"]


def documents_of(tree):
    """What the sources became, without the lines that tell of this run only."""
    files = tool.snapshot(tree)
    files.pop(b"manifest.jsonl", None)
    files.pop(b"errors.jsonl", None)
    return files


def start(checks, folder, tree):
    """A run that has some documents behind it and most before it."""
    process = subprocess.Popen(command_for(checks, folder, tree), stderr=subprocess.PIPE)
    manifest = os.path.join(tree, "manifest.jsonl")
    while process.poll() is None and not (os.path.exists(manifest) and os.path.getsize(manifest) > 0):
        try:
            process.wait(0.01)
        except subprocess.TimeoutExpired:
            pass
    return process


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                        found.append(int(entry))
            except OSError:
                pass
    return found


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def check_finished(checks, name, folder, tree, whole, least):
    """The same command once more does the rest."""
    run = subprocess.run(command_for(checks, folder, tree), capture_output=True, check=False)
    ledger = tool.read_ledger(tree)
    checks.expect(run.returncode == 0, f"{name}, again: exit {run.returncode}: {run.stderr}")
    checks.expect(ledger["ok"] + ledger["skipped"] == DOCUMENTS and ledger["skipped"] >= least,
                  f"{name}, again: {ledger['ok']} done, {ledger['skipped']} skipped of {least}")
    difference = tool.difference(whole, documents_of(tree))
    checks.expect(difference is None, f"{name}, again: {difference}")


def check_signals(checks, name, folder, whole, signals, wanted):
    tree = checks.path(name)
    with start(checks, folder, tree) as process:
        workers = children_of(process.pid)
        checks.expect(process.poll() is None and workers, f"{name}: it was over too soon")
        for number in signals:
            process.send_signal(number)
            time.sleep(0.05)  # two signals of one number may become one
        said = process.stderr.read().decode()
        code = process.wait()
    checks.expect(code == wanted, f"{name}: exit {code}, want {wanted}: {said}")
    done = 0
    if wanted >= 0:
        ledger = tool.read_ledger(tree)
        done = ledger["ok"]
        checks.expect(tool.balance(ledger) is None, f"{name}: {tool.balance(ledger)}")
        checks.expect(0 < done <= DOCUMENTS, f"{name}: {done} of {DOCUMENTS} done")
        checks.expect(ledger["interrupted"] is True and ledger["exit_code"] == wanted, f"{name}: {ledger}")
        checks.expect("the same command goes on" in said or "once more to stop now" in said, f"{name}: said {said}")
    if name == "once":
        checks.expect(ledger["failed"] == 0, f"{name}: {ledger['failed']} of the admitted failed")
    deadline = time.monotonic() + 10
    while not all(is_gone(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    checks.expect(all(is_gone(pid) for pid in workers), f"{name}: workers are left: {workers}")
    check_finished(checks, name, folder, tree, whole, done)


def check_signal_while_starting(checks, name, folder, whole, number, wanted):
    """Workers whose models never come are not waited for once a signal came: one is enough."""
    tree, worker = checks.path(name), checks.path(f"{name}-worker")
    with open(worker, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec sleep 1000\n")
    os.chmod(worker, 0o755)
    environment = {**os.environ, "SHEAF_WORKER": worker}
    with subprocess.Popen(command_for(checks, folder, tree), stderr=subprocess.PIPE, env=environment) as process:
        while process.poll() is None and not (workers := children_of(process.pid)):
            time.sleep(0.01)
        process.send_signal(number)
        try:
            said = process.communicate(timeout=20)[1].decode()
        except subprocess.TimeoutExpired:
            process.kill()
            said = "nothing for 20 s"
        code = process.wait()
    checks.expect(code == wanted, f"{name}: exit {code}, want {wanted}: {said}")
    checks.expect("the same command goes on" in said, f"{name}: said {said}")
    checks.expect(all(is_gone(pid) for pid in workers), f"{name}: workers are left: {workers}")
    check_finished(checks, name, folder, tree, whole, 0)


def check_state(checks, folder, whole):
    """SIGUSR1 asks how it is going, as often as one likes, and changes nothing."""
    tree = checks.path("asked")
    with start(checks, folder, tree) as process:
        for _ in range(4):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
        said = process.communicate()[1].decode()
    checks.expect(process.returncode == 0, f"asked: exit {process.returncode}: {said}")
    calls = re.findall(r"^sheaf:   (\S+): \d+ done.*, \d+ running.*, \d+ waiting$", said, re.MULTILINE)
    checks.expect(re.search(r"^sheaf: \d+ of \d+\+? documents", said, re.MULTILINE) is not None, f"asked: said {said}")
    checks.expect("1 workers, memory" in said and "open" in calls and "text" in calls, f"asked: said {said}")
    difference = tool.difference(whole, documents_of(tree))
    checks.expect(difference is None, f"asked: {difference}")


def check_lock(checks, folder):
    """Two runs never share an output folder: the second says so, and leaves the first alone."""
    tree = checks.path("locked")
    with start(checks, folder, tree) as process:
        run = checks.expect_exit(2, *command_for(checks, folder, tree)[1:], says=tree)
        checks.expect(str(process.pid) in run.stderr.decode(), f"locked: by whom? {run.stderr}")
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        checks.expect(process.wait() == 130, f"locked: the first ends with {process.returncode}")


def main():
    checks = tool.Checks(sys.argv[1])
    os.environ["XDG_CONFIG_HOME"] = checks.folder
    folder = make_sources(checks, sys.argv[2])
    whole_run = subprocess.run(command_for(checks, folder, checks.path("whole")), capture_output=True, check=False)
    checks.expect(whole_run.returncode == 0, f"whole: exit {whole_run.returncode}: {whole_run.stderr}")
    whole = documents_of(checks.path("whole"))
    checks.expect(len(whole) == 2 * DOCUMENTS, f"whole: {len(whole)} files")
    check_state(checks, folder, whole)
    check_signals(checks, "once", folder, whole, [signal.SIGINT], 130)
    check_signals(checks, "twice", folder, whole, [signal.SIGINT, signal.SIGINT], 130)
    check_signals(checks, "terminated", folder, whole, [signal.SIGTERM], 143)
    check_signals(checks, "killed", folder, whole, [signal.SIGKILL], -signal.SIGKILL)
    check_signal_while_starting(checks, "starting-interrupted", folder, whole, signal.SIGINT, 130)
    check_signal_while_starting(checks, "starting-terminated", folder, whole, signal.SIGTERM, 143)
    check_lock(checks, folder)
    checks.finish()


if __name__ == "__main__":
    main()
