#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_install.py SOURCE_DIR BUILD_DIR LIBSHEAF: the library exports only sheaf_ names; an installation into a folder
has its parts in their places, names nothing of the build, moves to another place and runs there; a program builds
against its pkg-config file."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

source, build, library = sys.argv[1:4]
wrong = []


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def check_symbols():
    names = [line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    other = [name for name in names if not name.startswith("sheaf_")]
    if other:
        wrong.append(f"exported, but not sheaf_: {' '.join(other)}")
    if "sheaf_version" not in names:
        wrong.append("sheaf_version is not exported")
    declared = set()
    for header in glob.glob(os.path.join(source, "include", "sheaf", "*.h")):
        with open(header, encoding="utf-8") as file:
            declared |= set(re.findall(r"SHEAF_API[^;({]*?\b(sheaf_\w+)\s*\(", file.read()))
    missing = sorted(declared - set(names))
    if missing:
        wrong.append(f"declared, but not exported: {' '.join(missing)}")
    if not re.search(r"SONAME.*\[libsheaf\.so\.\d+\]", output("readelf", "-d", library)):
        wrong.append("libsheaf has no SONAME with a version")


def find(top, pattern):
    found = glob.glob(os.path.join(top, "**", pattern), recursive=True)
    if not found:
        wrong.append(f"{pattern} is not installed")
    return found[0] if found else None


def check_run_path(path, wanted):
    match = re.search(r"(?:RPATH|RUNPATH).*\[(.*)\]", output("readelf", "-d", path))
    if not match or wanted not in match.group(1) or build in match.group(1):
        wrong.append(f"{os.path.basename(path)}: run path {match.group(1) if match else 'missing'}, want {wanted}")


def check_installation(top):
    program, shared = find(top, "bin/sheaf"), find(top, "libsheaf.so.[0-9]*")
    find(top, "include/sheaf/sheaf.h")
    find(top, "share/sheaf/pipelines/documents.yaml")
    find(top, "lib*/**/sheaf/plugins/*.so")
    find(top, "libexec/sheaf/*")
    package = find(top, "sheaf.pc")
    if not program or not shared or not package:
        return
    check_run_path(program, "$ORIGIN")
    prefix = os.path.dirname(os.path.dirname(program))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHEAF_") and k != "LD_LIBRARY_PATH"}
    if not output(program, "version", env=environment).startswith("sheaf "):
        wrong.append("sheaf version says something else")
    listed = subprocess.run([program, "ops"], capture_output=True, text=True, env=environment, check=False)
    if "pdf.open" not in listed.stdout:
        wrong.append(f"the moved program does not find its operators: {listed.stderr.strip()}")
    checked = subprocess.run([program, "check", "documents"], capture_output=True, text=True, env=environment,
                             check=False)
    if checked.returncode != 0:
        wrong.append(f"the moved program does not find its pipeline: {checked.stderr.strip()}")
    if os.path.exists(os.path.join(build, "pdfium", "libpdfium.so")):
        check_run(program, top, environment)
    plain = os.path.join(os.path.dirname(top), "plain")  # pkg-config has no one way to write a blank
    os.symlink(prefix, plain)
    check_client(plain, os.path.join(plain, os.path.relpath(package, prefix)), environment)


def check_run(program, top, environment):
    """The worker, the plug-in, pdfium beside it and the pipeline are all found from where the program is now."""
    find(top, "sheaf/libpdfium.so")
    samples, tree = os.path.join(top, "samples"), os.path.join(top, "tree")
    os.mkdir(samples)
    subprocess.run([sys.executable, os.path.join(source, "tools", "make-samples"), "--pages", "3",
                    os.path.join(samples, "three.pdf")], check=True)
    run = subprocess.run([program, "run", "documents", "-i", samples, "-o", tree, "--workers", "1"], text=True,
                         capture_output=True, env=environment, check=False, stdin=subprocess.DEVNULL)
    if run.returncode != 0 or not os.path.exists(os.path.join(tree, "three.pdf.md")):
        wrong.append(f"the moved program ends with {run.returncode}: {run.stderr.strip()}")


def check_client(prefix, package, environment):
    client = os.path.join(prefix, "client.c")
    with open(client, "w", encoding="utf-8") as file:
        file.write('#include <sheaf/sheaf.h>\nint main(void)\n{\n    return sheaf_version()[0] == 0;\n}\n')
    environment = {**environment, "PKG_CONFIG_PATH": os.path.dirname(package)}
    with open(package, encoding="utf-8") as file:
        moves = "${pcfiledir}" in file.read()
    defined = [] if moves else [f"--define-variable=prefix={prefix}"]  # a build folder with other options
    flags = output("pkg-config", *defined, "--cflags", "--libs", "sheaf", env=environment).split()
    program = os.path.join(prefix, "client")
    subprocess.run(["cc", client, "-o", program, *flags], check=True)
    folder = next(flag[2:] for flag in flags if flag.startswith("-L"))
    subprocess.run([program], check=True, env={**environment, "LD_LIBRARY_PATH": folder})


def main():
    check_symbols()
    top = tempfile.mkdtemp(prefix="sheaf-install-")
    try:
        first = os.path.join(top, "first")
        run = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", first],
                             capture_output=True, text=True, check=False)
        if run.returncode != 0:
            wrong.append(f"meson install: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        else:
            moved = os.path.join(top, "moved to another place")
            os.rename(first, moved)
            check_installation(moved)
    finally:
        shutil.rmtree(top)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    if shutil.which("meson") is None:
        print("skipped: meson is not in the path")
        sys.exit(77)
    sys.exit(main())
