#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_wide_loads.py CUOBJDUMP FATBIN: kernels that are bound by memory load sixteen bytes at once, and keep what they compute
in registers."""
import re
import subprocess
import sys

WIDE = ("copy", "gray", "histogram", "reduce", "resize_few", "skew_strips", "threshold")
IN_REGISTERS = ("copy", "gray", "histogram", "reduce", "skew_strips", "skew_scores", "threshold")

run = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], capture_output=True, text=True, check=True)
code = dict(part.split("\n", 1) for part in re.split(r"Function : sheaf_", run.stdout)[1:])
wrong = [f"{name} has no LDG.E.128" for name in WIDE if "LDG.E.128" not in code[name]]
wrong += [f"{name} uses local memory" for name in IN_REGISTERS if re.search(r"\bLDL|\bSTL", code[name])]
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
