#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_program.py SHEAF MAKE_SAMPLES: the program as a person meets it. Usage and errors, exit codes, settings, then the
documents pipeline over the sample set: statuses, files, names that are bytes, going on, passwords, lists."""
import json
import os
import resource
import subprocess
import sys

import tool

TEXT_ONLY = """
sources: {document: file}
steps:
- {call: open, op: pdf.open, in: document, out: [pages, info]}
- {expand: pages, as: page}
- {broadcast: document, like: page, as: page_document}
- {call: text, op: pdf.text, in: [page, page_document], out: [content, needs_ocr, wants_image]}
- {gather: content, as: contents}
outputs: [contents]
"""


def check_usage(checks):
    expect = checks.expect_exit
    expect(0, "help")
    expect(0, "--help")
    run = expect(0, "help", "run")
    for word in (b"--input", b"--files-from", b"--allow-failures", b"Examples", b"130"):
        checks.expect(word in run.stdout, f"help run does not say {word}")
    expect(0, "run", "--help")
    checks.expect(expect(0, "version").stdout.startswith(b"sheaf "), "version")
    expect(2, says="try sheaf help")
    expect(2, "rnu", says="did you mean run?")
    expect(2, "run", says="which pipeline?")
    expect(2, "run", "documents", says="--input")
    expect(2, "run", "documents", "--input", checks.folder, says="--output")
    expect(2, "run", "documents", "--inptu", "x", says="did you mean --input?")
    expect(2, "run", "documents", "--workers", "x", "-i", "x", "-o", "y", says="does not fit")
    expect(2, "run", "documents", "-i", checks.path("missing"), "-o", checks.path("o"), says="No such file")
    expect(2, "run", "nothing", "-i", checks.folder, "-o", checks.path("o"), says="nothing.yaml: No such file")
    expect(2, "check", "documents", "--set", "ocr.lnag=deu", says="lang")
    with open(checks.path("text.yaml"), "w", encoding="utf-8") as file:
        file.write(TEXT_ONLY)
    expect(0, "check", checks.path("text.yaml"), "--ocr", "never")
    expect(2, "check", checks.path("text.yaml"), "--ocr", "never", "--lang", "deu", says='no Call "ocr"')
    everywhere = {**os.environ, "SHEAF_LANG": "deu", "SHEAF_DPI": "100", "SHEAF_IMAGES": "jpeg"}
    expect(0, "check", checks.path("text.yaml"), env=everywhere)
    expect(2, "check", "documents", env={**everywhere, "SHEAF_DPI": "1"}, says="between 18 and 2400")
    expect(2, "check", "documents", "--dpi", "0", says='override "render.dpi=0": write a whole number between 18 and 2400')
    expect(2, "check", "documents", "--set", "text.ocr=seldom", says='override "text.ocr=seldom": choose one of auto|never|always')
    with open(checks.path("far.yaml"), "w", encoding="utf-8") as file:
        file.write(TEXT_ONLY.replace("pdf.text", "lines.of.another.plug-in"))
    expect(2, "check", checks.path("far.yaml"), says="SHEAF_PLUGINS")
    expect(2, "plan", "documents", "--format", "json", says="want text|dot")
    expect(2, "ops", "--format", "dot", says="want text|json")
    expect(2, "ops", "pdf.opne", says="did you mean pdf.open?")
    expect(2, "config", says="config show")
    expect(2, "doctor", "now", says="one word too many")
    expect(5, "run", "documents", "-i", checks.path("*.none"), "-o", checks.path("o"), says="nothing matches")
    with open("/dev/full", "wb") as full:
        code = subprocess.run([sys.argv[1], "help", "run"], stdout=full, stderr=subprocess.DEVNULL, check=False).returncode
        checks.expect(code == 1, f"help to a full disk: exit {code}")
    expect(0, "check", "documents")
    checks.expect(b"pdf.open" in expect(0, "ops").stdout, "ops does not list pdf.open")
    checks.expect(b"passwords" in expect(0, "ops", "pdf.open").stdout, "ops pdf.open does not show its options")
    for line in expect(0, "ops", "--format", "json").stdout.splitlines():
        json.loads(line)
    checks.expect(b"documents.yaml" in checks.run("doctor").stdout, "doctor does not find the pipeline")
    few = checks.run("doctor", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1000)))
    checks.expect(b"open files 1000" in few.stdout, "the soft limit of open files is not raised")
    checks.expect(not os.path.exists(checks.path("o")), "a refused run made its output folder")


def check_simulation(checks):
    """Simulated runs say so, are functions of their options, and leave a trace that a viewer reads."""
    trace = checks.path("trace.json")
    checks.expect_exit(0, "sim", "--experiment", "E9", "--trace", trace)
    with open(trace, encoding="utf-8") as file:
        written = json.load(file)
    rows = sum(event["args"]["rows"] for event in written["traceEvents"] if event["name"] == "page")
    checks.expect(written["otherData"]["simulated"] and rows == 2 * 1024, f"the trace has {rows} rows")
    options = ("sim", "--experiment", "E13", "--json", "--spread", "lognormal:20", "--slow", "50:3", "--losses", "50000",
               "--copy-in", "1000", "--link", "100", "--bridge", "150:4", "--in-flight", "2")
    once, again = (checks.run(*options, "--seed", "7").stdout for _ in range(2))
    checks.expect(once == again and json.loads(once)["simulated"], "a seed is not a run")
    many = json.loads(checks.expect_exit(0, "sim", "--experiment", "E13", "--json", "--seeds", "3", "--jitter", "10").stdout)
    checks.expect(many["seeds"] == 3 and many["targets"][0]["seeds_reached"] == 3, str(many))
    for wrong in (("--slow", "50"), ("--bridge", "1:0"), ("--spread", "normal"), ("--seeds", "0"), ("--experiment", "E1")):
        checks.expect_exit(2, "sim", *wrong, says="not understood")


def check_placement(checks):
    """Where things would be, on a machine that hwloc makes up: two sockets, four cores each, two threads a core."""
    machine = {**os.environ, "HWLOC_SYNTHETIC": "pack:2 [numa(memory=8GB)] core:4 pu:2"}
    plan = checks.expect_exit(0, "plan", "documents", env=machine).stdout.decode()
    rows = [line.split() for line in plan.splitlines()]
    for row in ("0 4 7.5 GiB 0 node 0 0-7", "1 4 7.5 GiB 1 node 1 8-15", "pages 0 4 0-6:2", "pages 1 4 8-14:2"):
        checks.expect(row.split() in rows, f"plan does not say: {row}\n{plan}")
    both = checks.expect_exit(0, "plan", "documents", "--workers-per-core", "2", env=machine).stdout.decode()
    checks.expect("pages 1 8 8-15".split() in [line.split() for line in both.splitlines()], both)
    checks.expect(b"not this machine" in checks.run("doctor", env=machine).stdout, "doctor does not say whose plan it is")
    checks.expect_exit(4, "plan", "documents", "--topology", checks.path("none.xml"), says="hwloc XML")
    checks.expect_exit(2, "run", "documents", "--topology", "x", "-i", "x", "-o", "y", says="sheaf plan")


def check_settings(checks):
    file = checks.path("config.yaml")
    with open(file, "w", encoding="utf-8") as config:
        config.write("workers: 3\nmemory: 1G\n")
    environment = {**os.environ, "SHEAF_CONFIG": file, "SHEAF_MEMORY": "2G"}
    shown = checks.expect_exit(0, "config", "show", "--lang", "deu", env=environment).stdout.decode()
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    checks.expect(rows["workers"] == ["3", file + ":1"], f"workers: {rows['workers']}")
    checks.expect(rows["memory"] == ["2G", "SHEAF_MEMORY"], f"memory: {rows['memory']}")
    checks.expect(rows["lang"] == ["deu", "--lang"], f"lang: {rows['lang']}")
    checks.expect(rows["durability"] == ["full", "default"], f"durability: {rows['durability']}")
    checks.expect(rows["integrity"] == ["crash", "default"], f"integrity: {rows['integrity']}")
    with open(file, "w", encoding="utf-8") as config:
        config.write("wrokers: 3\n")
    checks.expect_exit(2, "config", "show", env=environment, says="did you mean workers?")


def check_nothing(checks):
    os.mkdir(checks.path("empty"))
    with open(checks.path("empty", ".hidden"), "w", encoding="utf-8"):
        pass
    checks.expect_exit(5, "run", "documents", "-i", checks.path("empty"), "-o", checks.path("none"),
                       says="nothing to do")
    checks.expect_exit(5, "run", "documents", "--files-from", "-", "-o", checks.path("none"), input=b"\n\n")
    checks.expect(not os.path.exists(checks.path("none")), "a run without sources made its output folder")


def read_text(checks, *parts):
    path = checks.path(*parts)
    if not checks.expect(os.path.exists(path), f"{path} is missing"):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_samples(checks, make_samples):
    samples, tree = checks.path("samples"), checks.path("tree")
    subprocess.run([sys.executable, make_samples, samples], check=True)
    passwords = os.path.join(samples, ".passwords")
    arguments = ["run", "documents", "-i", samples, "-o", tree, "--progress", "none", "--passwords", passwords]
    run = checks.expect_exit(3, *arguments)
    checks.expect(run.stdout == b"", "a run prints to standard output")
    rows, ledger = tool.read_manifest(tree), tool.read_ledger(tree)
    checks.expect(tool.balance(ledger) is None, f"run.json: {tool.balance(ledger)}")
    wanted = {"one-page.pdf": 1, "five-pages.pdf": 5, "two-columns.pdf": 2, "encrypted.pdf": 1, "scanned.pdf": 1,
              "notice.png": 1, "Überblick (Größe) €.pdf": 1}
    for name, pages in wanted.items():
        row = rows.get(name, {})
        checks.expect(row.get("status") == "ok" and row.get("pages") == pages, f"{name}: {row}")
        checks.expect(all(os.path.exists(os.path.join(tree, output)) for output in row.get("outputs", ["?"])),
                      f"{name}: its outputs are not there")
    broken = rows.get("broken.pdf", {})
    checks.expect(broken.get("status") == "failed" and broken.get("class") == "malformed", f"broken.pdf: {broken}")
    checks.expect(broken.get("outputs") == [], "a failed document has files")
    checks.expect(len(rows) == 8 and ledger["inputs"] == 8 and ledger["failed"] == 1, f"ledger: {sorted(rows)}")
    errors = tool.read_lines(os.path.join(tree, "errors.jsonl"))
    checks.expect([os.path.basename(row["source"]) for row in errors] == ["broken.pdf"], f"errors.jsonl: {errors}")
    for key in "root coordinate page call operator version class message attempt elapsed_ms".split():
        checks.expect(all(key in row for row in errors), f"errors.jsonl has no {key}")
    check_texts(checks, rows)
    return samples, tree, arguments


def check_texts(checks, rows):
    def markdown(name):
        outputs = [output for output in rows.get(name, {}).get("outputs", []) if output.endswith(".md")]
        return " ".join(read_text(checks, "tree", outputs[0]).split()) if outputs else ""

    checks.expect("A sheaf is what a harvester binds together" in markdown("one-page.pdf"), "one-page.pdf: text")
    places = [markdown("five-pages.pdf").find(f"Chapter {n}") for n in range(1, 6)]
    checks.expect(-1 not in places and places == sorted(places), f"five-pages.pdf: chapters at {places}")
    columns = markdown("two-columns.pdf")
    places = [columns.find(f"{side} column of page {n}") for n in (1, 2) for side in ("Left", "Right")]
    checks.expect(-1 not in places and places == sorted(places), f"two-columns.pdf: columns at {places}")
    checks.expect("Übermaß: 5 €" in markdown("Überblick (Größe) €.pdf"), "umlauts")
    checks.expect("Behind a password" in markdown("encrypted.pdf"), "encrypted.pdf: text")
    for name in ("scanned.pdf", "notice.png"):
        seen = markdown(name).upper().split()
        read = sum(word in seen for word in "THIS PAGE IS PICTURE NO TEXT LAYER ONLY CAN READ".split())
        checks.expect(read >= 7, f"{name}: OCR read {read} of 10 words: {markdown(name)}")


def check_going_on(checks, samples, tree, arguments):
    before = tool.snapshot(tree)
    checks.expect_exit(3, *arguments)  # the broken one is tried again
    ledger = tool.read_ledger(tree)
    checks.expect(ledger["skipped"] == 7 and ledger["failed"] == 1, f"going on: {ledger['skipped']} skipped")
    checks.expect(tool.balance(ledger) is None, f"going on: {tool.balance(ledger)}")
    after = tool.snapshot(tree)
    for files in (before, after):
        files.pop(b"manifest.jsonl", None)
        files.pop(b"errors.jsonl", None)
    checks.expect(tool.difference(before, after) is None, f"going on changed files: {tool.difference(before, after)}")
    checks.expect_exit(0, *arguments, "--retry-failed", "--allow-failures", "1")
    checks.expect_exit(0, *arguments, "--restart", "--allow-failures", "13%")
    checks.expect_exit(2, *arguments, "--set", "text.ocr=never", says='was made by another pipeline; now "option text.ocr: never"')
    os.remove(os.path.join(samples, "broken.pdf"))
    os.rename(os.path.join(samples, "one-page.pdf"), os.path.join(samples, "encrypted.pdf"))
    checks.expect_exit(0, *arguments, "--progress", "plain", says="changed")


def check_names(checks, samples):
    """Any byte but NUL and slash, names at the limit, and two that differ only where they are cut."""
    folder, tree = os.fsencode(checks.path("names")), os.fsencode(checks.path("names-tree"))
    os.mkdir(folder)
    names = [b"caf\xe9.pdf", b"a b\n\"c\".pdf", b"\xff\xfe", b"%.pdf", b"con.pdf", b"x" * 240 + b"1.pdf",
             b"x" * 240 + b"2.pdf", b"-dash.pdf", "文書.pdf".encode(), b"manifest.jsonl", b"run.json"]
    with open(os.path.join(samples, "notice.png"), "rb") as file:
        content = file.read()
    with open(os.path.join(samples, "reports", "two-columns.pdf"), "rb") as file:
        pdf = file.read()
    for name in names:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(pdf if name.endswith(b".pdf") else content)
    checks.expect_exit(0, "run", "documents", "-i", folder, "-o", tree, "--progress", "none", "--images", "jpeg", "--dpi",
                       "36")
    rows = tool.read_lines(os.path.join(os.fsdecode(tree), "manifest.jsonl"))
    seen = sorted(os.path.basename(os.fsencode(row["source"])) for row in rows)
    checks.expect(seen == sorted(names), f"names: {seen}")
    outputs = [os.fsencode(output) for row in rows for output in row["outputs"]]
    checks.expect(len(outputs) == len(set(outputs)), "two sources have one output")
    missing = [output for output in outputs if not os.path.isfile(os.path.join(tree, output))]
    checks.expect(not missing, f"names: outputs are not there: {missing}")
    for row in rows:
        document = next(os.path.join(tree, os.fsencode(output)) for output in row["outputs"] if output.endswith(".json"))
        with open(document, encoding="utf-8") as file:
            image = json.load(file)["pages"][0]["image"]
        ours = os.path.basename(row["source"]) in ("manifest.jsonl", "run.json")
        there = image is not None and os.path.isfile(os.path.join(os.path.dirname(document), os.fsencode(image)))
        checks.expect(there or (ours and image is None), f"names: the image of {row['source']} is {image}")


def check_lists(checks, samples):
    listed = [os.path.join(samples, "scanned.pdf"), os.path.join(samples, "missing.pdf"), samples]
    run = checks.expect_exit(3, "run", "documents", "--files-from", "-", "-0", "-o", checks.path("listed"),
                             "--progress", "json", input="\0".join(listed).encode())
    rows = tool.read_manifest(checks.path("listed"))
    checks.expect(rows.get("scanned.pdf", {}).get("status") == "ok", f"listed: {rows}")
    for name in ("missing.pdf", "samples"):
        row = rows.get(name, {})
        checks.expect(row.get("status") == "failed" and row.get("class") == "unreadable" and row.get("message"),
                      f"{name}: {row}")
    for line in run.stderr.splitlines():
        if line.startswith(b"{"):
            json.loads(line)
    checks.expect_exit(1, "run", "documents", "--files-from", "-", "-o", checks.path("nul"), says="try -0",
                       input="\0".join(listed).encode())
    dos = checks.expect_exit(3, "run", "documents", "--files-from", "-", "-o", checks.path("dos"), input=b"missing.pdf\r\n")
    checks.expect(b"1 failed" in dos.stderr, f"dos: {dos.stderr}")
    row = tool.read_lines(os.path.join(checks.path("dos"), "manifest.jsonl"))[0]
    checks.expect("carriage return" in row["message"], f"dos: {row}")
    os.makedirs(checks.path("way", "scanned.pdf.md", "not ours"))
    checks.expect_exit(3, "run", "documents", "-i", samples, "-o", checks.path("way"), "--ocr", "never")
    rows, ledger = tool.read_manifest(checks.path("way")), tool.read_ledger(checks.path("way"))
    row = rows.get("scanned.pdf", {})
    checks.expect((row.get("status"), row.get("class")) == ("failed", "io"), f"a folder in the way: {row}")
    checks.expect(len(rows) == 8 and rows["one-page.pdf"]["status"] == "ok", f"a folder in the way of one: {rows}")
    checks.expect(tool.balance(ledger) is None, f"a folder in the way: {tool.balance(ledger)}")
    refused = ["run", "documents", "-i", samples, "-o", checks.path("refused")]
    checks.expect_exit(2, *refused, "--workers", "100000", says="at most 4096")
    checks.expect_exit(2, *refused, "--lang", "eng+", says="not a list of languages")
    run = checks.expect_exit(0, "plan", "documents", "-i", samples)
    checks.expect(b"sources: " in run.stdout and b"{name}.md" in run.stdout, "plan says too little")


def main():
    checks = tool.Checks(sys.argv[1])
    for name in ("CONFIG", "WORKERS", "MEMORY", "LANG", "OCR", "IMAGES", "DPI", "PASSWORDS", "TIMEOUT", "PROGRESS"):
        os.environ.pop("SHEAF_" + name, None)
    os.environ["XDG_CONFIG_HOME"] = checks.folder
    check_usage(checks)
    check_placement(checks)
    check_simulation(checks)
    check_settings(checks)
    check_nothing(checks)
    samples, tree, arguments = check_samples(checks, sys.argv[2])
    check_names(checks, samples)
    check_lists(checks, samples)
    check_going_on(checks, samples, tree, arguments)
    checks.finish()


if __name__ == "__main__":
    main()
