#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_tidy.py ROOT [--self-test]: the rules of the source that a script can check. Prints breaches as file:line.

--self-test checks the checks: each must find the breach it is made for, and nothing in a clean file.
A line that must break a rule says so beside it: /* tidy: allowed because ... */; a function of up to 100 lines says so
before it: /* tidy: long because ... */.
"""
import os
import re
import subprocess
import sys

CODE = (".c", ".h", ".cc", ".cu", ".cuh")
SCRIPTS = (".py", ".sh")
LINE_MAX, SCRIPT_LINE_MAX, FUNCTION_MAX, FUNCTION_MAX_EXPLAINED, FILE_MAX = 120, 140, 70, 100, 800

LIBRARY = ("src/", "shm/", "include/", "kernels/")
# Who must not call what, and why.
BANNED = [
    (LIBRARY, r"\b(exit|abort)\s*\(", "a library does not end its host"),
    (LIBRARY, r"\b(signal|sigaction)\s*\(", "a library installs no signal handlers"),
    (LIBRARY, r"(?<![\w.>])(printf|puts|putchar|perror)\s*\(", "a library does not print"),
    (LIBRARY, r"\bf(printf|puts)\s*\(\s*std|\bfputs\s*\([^;]*\bstd(out|err)\b", "a library does not print"),
    (LIBRARY, r"\b(system|popen)\s*\(", "a library starts no shell"),
    (LIBRARY + ("tools/",), r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|rand)\s*\(",
     "it does not know its bounds, or is not what it seems"),
    (("src/lineage/", "src/sched/"), r"\b(clock_gettime|gettimeofday|time)\s*\(", "time is an argument here"),
]
# Allocation, where the data path is: only while something is opened or closed.
NO_ALLOCATION = ("shm/", "src/lineage/")
ALLOCATION = re.compile(r"\b(malloc|calloc|realloc|strdup|free)\s*\(")
OPENING = re.compile(r"_(open|close|create|destroy|attach|detach|init|fini)\(")


def joined(*parts):
    """Words that this file must not contain itself."""
    return "".join(parts)


HOSTS = re.compile(r"\b(pypi|pythonhosted|debian|npmjs|crates|rubygems|golang|github)\s*" + r"\.(org|io|com|net)\b")
PLACES = re.compile(r"(?<![\w.])/(" + "|".join([joined("wo", "rk"), joined("ro", "ot"), joined("ho", "me")]) + r")/\w")
ORGANISATION = re.compile(r"\b(" + "|".join([
    joined("sub", "agents?"), joined("clau", "de"), joined("ll", "ms?"), joined("brief", r"\.md"),
    joined("work", "trees?"), joined("iss", r"ue #?\d+"), joined("the le", "ad session")]) + r")\b", re.I)
UNFINISHED = re.compile(r"\b(" + "|".join([
    joined("TO", "DO"), joined("FIX", "ME"), joined("X", "XX"), joined("HA", "CK")]) + r")\b")


def listed_files(root):
    """Files under version control, or all that are not hidden or built."""
    try:
        out = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True).stdout
        names = [name for name in out.decode().split("\0") if name]
        if names:
            return sorted(name for name in names if os.path.isfile(os.path.join(root, name)))
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "build")) and f != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def is_script(name, lines):
    return name.endswith(SCRIPTS) or bool(lines) and lines[0].startswith("#!")


def code_only(line):
    """The line without its strings and comments, well enough for looking up calls."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"/\*.*?\*/|//.*|^\s*\*.*|/\*.*", "", line)


def check_lines(name, lines, is_code, is_a_script):
    width = LINE_MAX if is_code else SCRIPT_LINE_MAX
    is_ours = is_code or is_a_script or name.endswith(("meson.build", ".yaml"))
    for number, line in enumerate(lines, 1):
        if (is_code or is_a_script) and len(line) > width:
            yield number, f"{len(line)} columns, more than {width}"
        if is_ours and "\t" in line:
            yield number, "a tab"
        if is_ours and line != line.rstrip():
            yield number, "blanks at its end"
        if UNFINISHED.search(line):
            yield number, "unfinished work is not committed"
        if HOSTS.search(line):
            yield number, "the host of a registry"
        if PLACES.search(line):
            yield number, "a path of one machine"
        if ORGANISATION.search(line):
            yield number, "how the work is organised is no part of the project"


def check_calls(name, lines):
    function = ""
    for number, line in enumerate(lines, 1):
        if line[:1].isalpha() and "(" in line:
            function = line
        if "tidy: allowed" in line:
            continue
        code = code_only(line)
        if name.startswith(NO_ALLOCATION) and ALLOCATION.search(code) and not OPENING.search(function):
            yield number, "no allocation outside the segment or arena, except to open and close"
        for prefixes, pattern, why in BANNED:
            applies = name.startswith(prefixes) and os.path.basename(name) != "main.c"  # a program may do all this
            match = re.search(pattern, code) if applies else None
            if match:
                yield number, f"{match.group(0).rstrip('( ')}: {why}"


def check_functions(lines):
    """clang-format puts the braces of functions, and of nothing longer, into the first column."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            length = number - start + 1
            before = " ".join(lines[max(0, start - 8):start])
            limit = FUNCTION_MAX_EXPLAINED if "tidy: long because" in before else FUNCTION_MAX
            if length > limit:
                yield start, f"a function of {length} lines, more than {limit}"
            start = None


def check_spdx(lines, is_a_script):
    place = lines[1:2] if is_a_script and lines and lines[0].startswith("#!") else lines[:1]
    if not place or "SPDX-License-Identifier: Apache-2.0" not in place[0]:
        yield 1, "no SPDX line at its beginning"


def check_file(name, text):
    lines = text.split("\n")
    is_code, is_a_script = name.endswith(CODE), is_script(name, lines)
    yield from check_lines(name, lines, is_code, is_a_script)
    if is_code or is_a_script:
        yield from check_spdx(lines, is_a_script)
    if is_code:
        yield from check_calls(name, lines)
        yield from check_functions(lines)
        if len(lines) > FILE_MAX:
            yield 1, f"{len(lines)} lines, more than {FILE_MAX}"


def check_built(names, read):
    """Every source file is named in a meson.build at or above it, or with its folder in any."""
    builds = {os.path.dirname(name): read(name) for name in names if os.path.basename(name) == "meson.build"}
    for name in names:
        if not name.endswith((".c", ".cc")):
            continue
        folder, stem = os.path.dirname(name), os.path.basename(name).rsplit(".", 1)[0]
        if any("/".join(name.split("/")[-2:]) in text for text in builds.values()):
            continue  # a file that folders share
        words = [os.path.basename(name)] + ([f"'{re.sub(r'^(test|bench|fuzz)_', '', stem)}'", f"'{stem}'"])
        while True:
            if any(word in builds.get(folder, "") for word in words):
                break
            if folder == "":
                yield name, 1, "is in no meson.build"
                break
            folder = os.path.dirname(folder)


def check_tree(root):
    names = listed_files(root)

    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()

    for name in names:
        if name == "LICENSE":
            continue
        try:
            text = read(name)
        except UnicodeDecodeError:
            continue
        for number, what in check_file(name, text):
            yield name, number, what
    yield from check_built(names, read)


def self_test():
    spdx = "/* SPDX-License-Identifier: Apache-2.0 */\n"
    body = "    call();\n"
    cases = [  # file, text, what must be said
        ("src/a.c", spdx + "int x;" + " " * 130 + "/* */\n", "columns"),
        ("src/a.c", spdx + "\tint x;\n", "a tab"),
        ("src/a.c", spdx + "int x; \n", "blanks"),
        ("src/a.c", "int x;\n", "no SPDX"),
        ("tools/a", "#!/bin/sh\necho\n", "no SPDX"),
        ("src/a.c", spdx + "/* " + joined("TO", "DO") + " */\n", "unfinished"),
        ("README.md", "from pypi" + ".org\n", "registry"),
        ("README.md", "in /" + joined("wo", "rk") + "/x\n", "one machine"),
        ("docs/a.md", "see " + joined("iss", "ue 2") + "\n", "organised"),
        ("src/a.c", spdx + "    exit(1);\n", "end its host"),
        ("shm/a.c", spdx + "void x_push(void)\n{\n    p = malloc(1);\n}\n", "no allocation"),
        ("src/a.c", spdx + '    printf("x");\n', "print"),
        ("src/a.c", spdx + '    fprintf(stderr, "x");\n', "print"),
        ("src/sched/a.c", spdx + "    clock_gettime(C, &t);\n", "argument"),
        ("src/a.c", spdx + "    signal(1, f);\n", "signal"),
        ("src/a.c", spdx + "int f(void)\n{\n" + body * 69 + "}\n", "function of 71"),
        ("src/a.c", spdx + "/* tidy: long because */\nint f(void)\n{\n" + body * 99 + "}\n", "function of 101"),
        ("src/a.c", spdx + "int x;\n" * 800, "lines, more"),
    ]
    clean = [
        ("src/a.c", spdx + "/* exit(1) is not called */\nint f(void)\n{\n" + body * 68 + "}\n"),
        ("src/a.c", spdx + '    log("exit(1)"); snprintf(a, 1, "x"); host->printf("x"); _exit_code = 1;\n'),
        ("src/a.c", spdx + "    exit(1); /* tidy: allowed because this is a child */\n    _exit(1);\n"),
        ("src/worker/main.c", spdx + '    fprintf(stderr, "x");\n'),
        ("shm/a.c", spdx + "int x_open(void)\n{\n    p = malloc(1);\n}\n"),
        ("tools/a.c", spdx + "    free(x); exit(1); printf();\n"),
        ("src/a.c", spdx + "/* tidy: long because */\nint f(void)\n{\n" + body * 80 + "}\n"),
    ]
    wrong = [f"{name}: wanted '{want}'" for name, text, want in cases
             if not any(want in what for _, what in check_file(name, text))]
    for name, text in clean:
        wrong += [f"{name}: said '{what}' of a clean file" for _, what in check_file(name, text)]
    files = {"meson.build": "subdir('src')", "src/meson.build": "'a.c'", "src/a.c": "", "src/b.c": "", "src/x/c.c": ""}
    missing = [name for name, _, _ in check_built(sorted(files), files.get)]
    if missing != ["src/b.c", "src/x/c.c"]:
        wrong.append(f"unbuilt files: {missing}")
    return wrong


def main():
    root = sys.argv[1]
    if "--self-test" in sys.argv:
        breaches = self_test()
    else:
        breaches = [f"{name}:{number}: {what}" for name, number, what in check_tree(root)]
    print("\n".join(breaches))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
