#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_lines.py SHEAF SOURCE_DIR PLUGIN: the example of docs/OPERATORS.md does what that page says, both as this build
made it and by the compile command that stands there."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

program, source, plugin = sys.argv[1:4]
wrong = []

TEXTS = {
    "fine.txt": "hello world\n\nend",
    "long.txt": "hello world\n" + 62 * "x" + "\nend\n",
    "many.txt": "".join(f"line {number}\n" for number in range(500)),
    "nul.txt": "bad\0text\n",
}
FINE = "10 letters, 100%: HELLO WORLD\n0 letters, 0%: \n3 letters, 27%: END\n"
LONG = ("10 letters, 17%: HELLO WORLD\n3 letters, 4%: END\n"
        "line 2 is missing: too long: 62 bytes, and at most 40 are wanted\n")
MANY = "".join(f"4 letters, {100 * len(f'line {number}') // 8}%: LINE {number}\n" for number in range(500))


def expect(found, wanted, what):
    if found != wanted:
        wrong.append(f"{what}: {found!r}, want {wanted!r}")


def sheaf(plugins, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "SHEAF_PLUGINS": plugins})


def check(plugins, folder, name):
    pipeline = os.path.join(source, "docs", "examples", "lines.yaml")
    listed = sheaf(plugins, "ops", "lines.shout")
    expect("option longest" in listed.stdout, True, f"{name}: sheaf ops: {listed.stdout}{listed.stderr}")
    expect(sheaf(plugins, "check", pipeline).returncode, 0, f"{name}: sheaf check")
    tree = os.path.join(folder, name)
    run = sheaf(plugins, "run", pipeline, "-i", os.path.join(folder, "in"), "-o", tree, "--progress", "none",
                "--workers", "2")
    # Built with sanitizers, workers say that they leave the sandbox open.
    said = "".join(line for line in run.stderr.splitlines(True) if "the sandbox is off" not in line)
    expect((run.returncode, said), (3, ""), f"{name}: sheaf run")
    for text, wanted in (("fine", FINE), ("long", LONG), ("many", MANY)):
        with open(os.path.join(tree, text + ".txt.lines.txt"), encoding="utf-8") as file:
            expect(file.read(), wanted, f"{name}: {text}")
    with open(os.path.join(tree, "manifest.jsonl"), encoding="utf-8") as file:
        rows = {os.path.basename(row["source"]): row for row in map(json.loads, file)}
    found = {text: (row["status"], row.get("class")) for text, row in rows.items()}
    expect(found, {"fine.txt": ("ok", None), "many.txt": ("ok", None), "long.txt": ("partial", "too_large"),
                   "nul.txt": ("failed", "malformed")}, f"{name}: outcomes")
    expect(rows["nul.txt"]["message"], "byte 3 is NUL: this is no text", f"{name}: cause")


def by_the_page(folder):
    """The folder of the plug-in as the page's own command builds it."""
    with open(os.path.join(source, "docs", "OPERATORS.md"), encoding="utf-8") as file:
        command = next(line.split() for line in file if line.startswith("    cc "))
    plugins = os.path.join(folder, "plugins")
    os.mkdir(plugins)
    target = command.index("-o") + 1
    command[target] = os.path.join(plugins, os.path.basename(command[target]))
    subprocess.run(command, cwd=source, check=True)
    return plugins


def main():
    folder = tempfile.mkdtemp(prefix="sheaf-example-")
    try:
        os.mkdir(os.path.join(folder, "in"))
        for name, text in TEXTS.items():
            with open(os.path.join(folder, "in", name), "w", encoding="utf-8") as file:
                file.write(text)
        check(os.path.dirname(plugin), folder, "built")
        check(by_the_page(folder), folder, "by the page")
    finally:
        shutil.rmtree(folder)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
