#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_headers.py INCLUDE_DIR CC CXX: every public header compiles alone, as C (gnu17, c11) and as C++ (c++17), without
a warning, and twice in one file."""
import os
import shlex
import subprocess
import sys

include, cc, cxx = sys.argv[1:4]
names = sorted(name for name in os.listdir(os.path.join(include, "sheaf")) if name.endswith(".h"))
wrong = [] if names else [f"no headers in {include}/sheaf"]
for name in names:
    text = f"#include <sheaf/{name}>\n#include <sheaf/{name}>\nint sheaf_header_test;\n"
    for compiler, language, standard in ((cc, "c", "gnu17"), (cc, "c", "c11"), (cxx, "c++", "c++17")):
        command = shlex.split(compiler) + ["-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror"]
        command += ["-pedantic", "-fsyntax-only", "-I", include, "-"]
        run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            wrong.append(f"{name} as {standard}:\n{run.stderr}")
print("\n".join(wrong) if wrong else f"{len(names)} headers, three standards each")
sys.exit(1 if wrong else 0)
