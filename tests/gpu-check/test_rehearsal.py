#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_rehearsal.py SHEAF_GPU_CHECK SCRIPT FAKE_CUDA_FOLDER KERNELS_FOLDER: on the driver of the tests every kernel is found
right and nothing is timed; one that is wrong, and one that faults, are found; without a driver that is said."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

program, script, fake_folder, kernels_folder = sys.argv[1:5]
wrong = []
plain = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**plain, **more}, timeout=100)


def expect(true, what):
    if not true:
        wrong.append(what)


def fake(kernels):
    return {"LD_LIBRARY_PATH": fake_folder, "SHEAF_FAKE_CUDA_MEMORY": str(1 << 30),
            "SHEAF_FAKE_CUDA_TIMES": "20000:20000:20000:0:0",
            "SHEAF_FAKE_CUDA_KERNELS": os.path.join(kernels_folder, f"gpu_check_kernels_{kernels}.so")}


def check_right(said):
    expect(said.returncode == 0, f"exit {said.returncode}: {said.stdout}{said.stderr}")
    rows = re.findall(r"^(.{24}) right +- +-$", said.stdout, re.M)
    expect(len(rows) >= 20, f"{len(rows)} kernels are right: {said.stdout}")
    expect("nothing is timed" in said.stdout and "not measured" in said.stdout, said.stdout)
    expect(re.search(r"^the engine, .*\nright +- +-$", said.stdout, re.M) or "has no kernels" in said.stdout, said.stdout)
    expect("%" not in said.stdout, f"a share was printed: {said.stdout}")


with tempfile.TemporaryDirectory(prefix="sheaf-gpu-") as tree:
    # As in an installation: the script lies beside the program.
    copy = shutil.copy(script, tree)
    os.symlink(os.path.abspath(program), os.path.join(tree, "sheaf-gpu-check"))
    check_right(run([copy], **fake("right")))
    lost = run([script])
    expect(lost.returncode == 2 and "--make" in lost.stderr, f"outside a tree: {lost.returncode} {lost.stderr}")

bad = run([program], **fake("wrong"))
expect(bad.returncode == 1 and re.findall(r"^(.*?) +WRONG", bad.stdout, re.M) == ["Sauvola"], f"{bad.returncode} {bad.stdout}")
faulty = run([program], **fake("right"), SHEAF_FAKE_CUDA_ERRORS="0:cuLaunchKernel:5:700")
expect(faulty.returncode == 1 and "illegal" in faulty.stderr.lower(), f"{faulty.returncode} {faulty.stderr}")
none = run([program])
expect(none.returncode == 77 and none.stdout.startswith("no GPU: "), f"without a driver: {none.returncode} {none.stdout}")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
