#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_mutations.py SOURCE BUILD [NAME...]: are the tests of lineage, sched and device worth their name?

Applies each deliberate bug of mutations.json to a copy, builds that one file, links the tests with it and runs them.
A bug that no test catches is printed, and the script fails. BUILD is a build folder that is up to date.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

LIBRARIES = ("src/program/libprogram.a",)
PACKAGES = ("jansson", "cmocka", "yaml-0.1", "libxxhash")
SIGNATURES = "tests/common/operator_signatures.c"
COMPILED = "tests/common/compiled_plan.c"
DRIVER = {"LD_LIBRARY_PATH": "{build}/tests/fake_cuda",
          "SHEAF_FAKE_CUDA_KERNELS": "{build}/tests/device/device_test_ops.so",
          "SHEAF_TEST_DEVICE": "cuda", "SHEAF_FAKE_CUDA_STRICT": "1", "SHEAF_TEST_SEED": "1"}
PLAYER = ("tests/lineage/player.c", "tests/lineage/witness.c", "tests/lineage/operators.c")
SIMULATOR = tuple("src/sim/%s.c" % name for name in ("answers", "assign", "counts", "devices", "events", "prepare", "rows",
                                                     "service", "sim"))
# Modules that are tested together, and their tests, cheapest first: (name, sources, environment).
GROUPS = (
    (("src/lineage", "src/sched"), (
        ("sched", ["tests/lineage/test_sched.c", COMPILED, SIGNATURES], {}),
        ("bulk", ["tests/lineage/test_bulk.c", COMPILED, SIGNATURES], {}),
        ("admission", ["tests/lineage/test_admission.c"], {}),
        ("upstream", ["tests/lineage/test_upstream.c", COMPILED, SIGNATURES], {}),
        ("policy", ["tests/sim/test_policy.c", SIGNATURES], {}),
        ("lineage", ["tests/lineage/test_lineage.c", COMPILED, SIGNATURES], {}),
        ("reference",
         ["tests/reference/test_reference.c", "tests/reference/static.c", "tests/reference/evaluate.c",
          "tests/reference/needed.c", "tests/reference/result.c", "tests/reference/compare.c",
          "tests/common/random_program.c", "tests/common/random_typed.c", "tests/common/case_files.c",
          "tests/sim/simulated.c", *PLAYER, *SIMULATOR, SIGNATURES],
         {"SHEAF_TEST_PROGRAMS": "20000"}),
        ("conformance",
         ["tests/lineage/test_conformance.c", "tests/common/case_compare.c", "tests/common/case_files.c",
          *PLAYER, SIGNATURES], {}),
    )),
    (("src/device",), (
        ("pipeline", ["tests/device/test_pipeline.c", "tests/device/kernels.c"], DRIVER),
        ("pipeline delays", ["tests/device/test_pipeline.c", "tests/device/kernels.c"],
         {**DRIVER, "SHEAF_FAKE_CUDA_TIMES": "1000:1000:1000:0:0", "SHEAF_FAKE_CUDA_DELAY_US": "300"}),
    )),
)
SECONDS = 120


class Bench:
    def __init__(self, source, build, folder):
        self.source, self.build, self.folder = source, build, folder
        self.flags = ["-std=gnu17", "-O1", "-D_GNU_SOURCE", "-w", "-I" + source, "-I" + source + "/include",
                      "-I" + source + "/src"]
        self.flags += subprocess.run(["pkg-config", "--cflags", *PACKAGES], check=True, capture_output=True,
                                     text=True).stdout.split()
        self.libraries = [os.path.join(build, name) for name in LIBRARIES]
        self.libraries += subprocess.run(["pkg-config", "--libs", *PACKAGES], check=True, capture_output=True,
                                         text=True).stdout.split() + ["-ldl", "-lm", "-lpthread"]

    def compile(self, path, name=None):
        target = os.path.join(self.folder, (name or os.path.relpath(path, self.source)).replace("/", "_") + ".o")
        subprocess.run([os.environ.get("CC", "cc"), *self.flags, "-c", path, "-o", target], check=True)
        return target

    def link(self, name, objects):
        target = os.path.join(self.folder, "test_" + name)
        subprocess.run([os.environ.get("CC", "cc"), *objects, *self.libraries, "-o", target], check=True)
        return target

    def prepare(self, modules, tests):
        """Objects of one group, unchanged."""
        self.modules, self.tests, self.group = {}, {}, tests
        for module in modules:
            for name in sorted(os.listdir(os.path.join(self.source, module))):
                if name.endswith(".c"):
                    path = module + "/" + name
                    self.modules[path] = self.compile(os.path.join(self.source, path))
        for name in sorted({file for _, files, _ in tests for file in files}):
            self.tests[name] = self.compile(os.path.join(self.source, name))

    def catches(self, changed):
        """The first test that fails with these objects instead of the modules' own, or None."""
        modules = list({**self.modules, **changed}.values())
        for name, files, settings in self.group:
            test = self.link(name.replace(" ", "_"), [self.tests[file] for file in files] + modules)
            settings = {key: value.format(build=self.build) for key, value in settings.items()}
            environment = {**os.environ, "SHEAF_SOURCE_ROOT": self.source, **settings}
            try:
                done = subprocess.run([test], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return name + " (does not end)"
            if done.returncode not in (0, 77):
                return name
        return None


def text_of(source, mutation):
    """The file, in which the line to be changed must stand once."""
    with open(os.path.join(source, mutation["file"]), encoding="utf-8") as file:
        text = file.read()
    if text.count(mutation["from"]) != 1:
        raise SystemExit(f"{mutation['name']}: {mutation['file']} has its line {text.count(mutation['from'])} times")
    return text


def mutate(bench, mutation):
    text = text_of(bench.source, mutation)
    path = os.path.join(bench.folder, os.path.basename(mutation["file"]))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(mutation["from"], mutation["to"]))
    return {mutation["file"]: bench.compile(path, "mutant_" + mutation["name"])}


def main():
    source, build, only = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutations.json"), encoding="utf-8") as file:
        listed = json.load(file)
    for mutation in listed:
        text_of(source, mutation)  # of all: code moves on, and a bug that cannot be made any more tests nothing
    mutations = [m for m in listed if not only or m["name"] in only]
    folder = tempfile.mkdtemp(prefix="sheaf-mutations-")
    missed = 0
    try:
        bench = Bench(source, build, folder)
        for modules, tests in GROUPS:
            group = [m for m in mutations if os.path.dirname(m["file"]) in modules]
            if not group:
                continue
            bench.prepare(modules, tests)
            if not only and bench.catches({}):
                raise SystemExit("the tests fail without any mutation")
            for mutation in group:
                caught = bench.catches(mutate(bench, mutation))
                missed += caught is None
                print(f"{mutation['name']}: {'caught by ' + caught if caught else 'MISSED'}", flush=True)
    finally:
        shutil.rmtree(folder)
    print(f"{len(mutations) - missed} of {len(mutations)} caught")
    return 1 if missed or not mutations else 0


if __name__ == "__main__":
    sys.exit(main())
