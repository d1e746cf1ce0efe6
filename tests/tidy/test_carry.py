#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_carry.py SOURCE_DIR BUILD_DIR LIBDIR: an installation with what it loads carried along runs where there is nothing
but a C library, /proc and /dev/null, and writes there what it writes here."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

source, build, libdir = sys.argv[1:4]
wrong = []
# A namespace of its own for mounts; of users too, where one is not root.
APART = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
INSIDE = 'mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null" && exec chroot "$0" "$@"'
FOR_ALL = {k: v for k, v in os.environ.items() if not k.startswith(("SHEAF_", "LD_", "TESSDATA"))}


def install(root):
    """The tree of meson install, under another name, with what tools/carry adds."""
    staged = os.path.join(root, "staged")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", staged], check=True,
                   capture_output=True)
    program = glob.glob(os.path.join(staged, "**", "bin", "sheaf"), recursive=True)[0]
    prefix = os.path.dirname(os.path.dirname(program))
    said = subprocess.run([os.path.join(source, "tools", "carry"), libdir], check=True, capture_output=True, text=True,
                          env={**FOR_ALL, "MESON_INSTALL_DESTDIR_PREFIX": prefix})
    print(said.stdout.strip())
    os.rename(prefix, os.path.join(root, "moved"))
    shutil.rmtree(staged)


def put_c_library(root):
    """Where the loader looks by itself: the libraries of glibc, and the loader."""
    libraries = subprocess.run(["ldd", os.path.join(build, "tools", "sheaf")], capture_output=True, text=True,
                               check=True).stdout.split()
    c_library = next(word for word in libraries if word.endswith("/libc.so.6"))
    loader = next(word for word in libraries if "/ld-linux" in word)
    for name in ("libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1",
                 "libresolv.so.2"):
        path = os.path.join(os.path.dirname(c_library), name)
        if os.path.exists(path):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
    os.makedirs(root + os.path.dirname(loader), exist_ok=True)
    shutil.copy(loader, root + loader)


def inside(root, *command):
    return subprocess.run([*APART, "sh", "-c", INSIDE, root, *command], capture_output=True, text=True, check=False,
                          env=FOR_ALL, stdin=subprocess.DEVNULL, timeout=120)


def files(tree):
    found = {}
    for path in glob.glob(os.path.join(tree, "**", "*.*"), recursive=True):
        if os.path.isfile(path) and os.path.basename(path) not in ("run.json", "manifest.jsonl", "errors.jsonl"):
            with open(path, "rb") as file:
                found[os.path.relpath(path, tree)] = file.read()
    return found


def statuses(tree):
    with open(os.path.join(tree, "manifest.jsonl"), encoding="utf-8") as file:
        return sorted((os.path.basename(row["source"]), row["status"]) for row in map(json.loads, file))


def check(root):
    os.makedirs(os.path.join(root, "proc"))
    os.makedirs(os.path.join(root, "dev"))
    os.makedirs(os.path.join(root, "tmp"))
    with open(os.path.join(root, "dev", "null"), "w", encoding="utf-8"):
        pass
    install(root)
    put_c_library(root)
    samples = os.path.join(root, "samples")
    subprocess.run([sys.executable, os.path.join(source, "tools", "make-samples"), samples], check=True,
                   capture_output=True)
    there = inside(root, "/moved/bin/sheaf", "run", "documents", "-i", "/samples", "-o", "/out", "--progress", "none")
    here = subprocess.run([os.path.join(build, "tools", "sheaf"), "run", "documents", "-i", samples, "-o",
                           os.path.join(root, "here"), "--progress", "none"], capture_output=True, text=True,
                          check=False, env={**FOR_ALL, "SHEAF_PIPELINES": os.path.join(source, "pipelines")},
                          stdin=subprocess.DEVNULL, timeout=120)
    if (there.returncode, there.stderr) != (here.returncode, here.stderr) or here.returncode != 3:
        wrong.append(f"there: exit {there.returncode}, {there.stderr}\nhere: exit {here.returncode}, {here.stderr}")
        return
    ours, theirs = files(os.path.join(root, "here")), files(os.path.join(root, "out"))
    for path in sorted(ours.keys() | theirs.keys()):
        if ours.get(path) != theirs.get(path):
            wrong.append(f"{path} is not what it is here")
    if not any(path.endswith(".md") for path in ours) or statuses(os.path.join(root, "here")) != statuses(
            os.path.join(root, "out")):
        wrong.append("the manifests are not alike")


def main():
    if shutil.which("meson") is None or not os.path.exists(os.path.join(build, "pdfium", "libpdfium.so")):
        print("skipped: no meson, or no pdfium in the build folder")
        return 77
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: no mount namespaces may be made here")
        return 77
    with tempfile.TemporaryDirectory(prefix="sheaf-carry-") as root:
        check(root)
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
