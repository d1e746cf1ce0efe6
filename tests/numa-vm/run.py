#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py BUILD_DIR INIT PIPELINE: boots a machine with two NUMA nodes in QEMU and runs sheaf there (init.c).

Wants qemu-system-x86_64 and a kernel: SHEAF_TEST_KERNEL, or what tools/fetch-test-kernel left in the build folder, or
one in /boot that can be read. Exit 77 where one of them is missing. QEMU emulates: no KVM is needed, nor used."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

MEMORY_MIB = 1024
TIMEOUT_S = 300
QEMU = "qemu-system-x86_64"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_kernel(build):
    given = os.environ.get("SHEAF_TEST_KERNEL")
    candidates = [given] if given else sorted(glob.glob(os.path.join(build, "test-kernel", "vmlinuz*"))) + sorted(
        glob.glob("/boot/vmlinuz-*"), reverse=True)
    return next((path for path in candidates if os.access(path, os.R_OK)), None)


def libraries(program):
    """What the loader would load for it, the loader itself included."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/\S+) \(0x", listed))


def archive(files):
    """A cpio archive (newc), as the kernel unpacks it: {path inside: path here}, with the folders above them."""
    folders = {"dev"}
    for path in files:
        while path := os.path.dirname(path):
            folders.add(path)
    entries = [(path, 0o040755, b"") for path in sorted(folders)]
    for path, source in sorted(files.items()):
        with open(source, "rb") as file:
            entries.append((path, 0o100755, file.read()))
    entries.append(("TRAILER!!!", 0, b""))
    out = bytearray()
    for number, (path, mode, data) in enumerate(entries, 1):
        name = os.fsencode(path) + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def collect(build, init, pipeline):
    programs = {"init": init, "sheaf/sheaf": f"{build}/tools/sheaf",
                "sheaf/sheaf-worker": f"{build}/src/worker/sheaf-worker", "sheaf/lines.so": f"{build}/docs/examples/lines.so"}
    files = {**programs, "sheaf/lines.yaml": pipeline}
    for program in programs.values():
        for library in libraries(program):
            # All where LD_LIBRARY_PATH says, but the loader, whose place the programs name.
            inside = os.path.join("lib", os.path.basename(library))
            files[library.lstrip("/") if "ld-linux" in library else inside] = os.path.realpath(library)
    return {path: source for path, source in files.items() if "vdso" not in path}


def boot(kernel, initrd):
    nodes = []
    for node in range(2):
        nodes += ["-object", f"memory-backend-ram,id=m{node},size={MEMORY_MIB // 2}M",
                  "-numa", f"node,nodeid={node},cpus={2 * node}-{2 * node + 1},memdev=m{node}"]
    # A drive on a bus of the second node: nothing reads it, PCI says where it is.
    drive = ["-device", "pxb-pcie,id=far,bus=pcie.0,bus_nr=128,numa_node=1",
             "-device", "pcie-root-port,id=near,bus=far,chassis=1",
             "-drive", "id=drive,if=none,format=raw,file=null-co://", "-device", "nvme,bus=near,drive=drive,serial=1"]
    command = [QEMU, "-machine", "q35", "-nodefaults", "-no-reboot", "-nographic", "-serial", "stdio", "-accel", "tcg,thread=multi",
               "-m", f"{MEMORY_MIB}M", "-smp", "4,sockets=2,cores=2,threads=1", *nodes, *drive, "-kernel", kernel,
               "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 LD_LIBRARY_PATH=/lib"]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT_S, check=False).stdout
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"") + b"\nnuma-vm: stopped: it took too long\n"


def main():
    build, init, pipeline = sys.argv[1:4]
    if not shutil.which(QEMU):
        skip(f"{QEMU} is not installed (Debian: qemu-system-x86)")
    kernel = find_kernel(build)
    if not kernel:
        skip("no kernel to boot: tools/fetch-test-kernel, or SHEAF_TEST_KERNEL=/path/to/vmlinuz")
    with tempfile.NamedTemporaryFile(suffix=".cpio") as initrd:
        initrd.write(archive(collect(build, init, pipeline)))
        initrd.flush()
        said = boot(kernel, initrd.name).decode(errors="replace").replace("\r", "")
    print(said)
    sys.exit(0 if "numa-vm: all is where it was planned\n" in said else 1)


main()
