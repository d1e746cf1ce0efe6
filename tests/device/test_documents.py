#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_documents.py SHEAF MAKE_SAMPLES TOOL_FOLDER PLUGINS: the documents pipeline over scans made here, whose pages are measured on
the host, on one device and on eight, with delays and with faults at moments that SHEAF_TEST_SEED chooses: the same trees.

The driver is the one of the tests (tests/fake_cuda), which runs the host's side of the plug-in's own kernels.
"""
import importlib.machinery
import importlib.util
import os
import random
import struct
import sys
import time
import zlib

sys.path.insert(0, sys.argv[3])
import tool  # noqa: E402  tests/cli

loader = importlib.machinery.SourceFileLoader("samples", sys.argv[2])
samples = importlib.util.module_from_spec(importlib.util.spec_from_loader("samples", loader))
sys.dont_write_bytecode = True
loader.exec_module(samples)

seed = int(os.environ.get("SHEAF_TEST_SEED", time.time()))
print(f"SHEAF_TEST_SEED={seed}")
draw = random.Random(seed)
checks = tool.Checks(sys.argv[1])
WORDS = ("BARLEY", "SHEAF", "STALKS", "FIELD", "MOWER", "TWINE", "GRAIN", "SICKLE")


def blank(width, height):
    """Paper, with a little shade."""
    page = samples.Bitmap(width, height)
    page.rows = [bytearray(bytes([250 - y % 3]) * width) for y in range(height)]
    return page


def written(width, height, degrees):
    """Two lines of large letters that run down to the right."""
    page = blank(width, height)
    for line in range(2):
        x = 60
        for letter in " ".join(draw.sample(WORDS, 2)):
            page.text(letter, x, 130 + 130 * line + x * degrees / 57.3, 6)
            x += (4 if letter == " " else 6) * 6
    return page


def dusty(width, height):
    page = blank(width, height)
    for _ in range(60):
        page.rows[draw.randrange(height)][draw.randrange(width)] = 40
    return page


def write_rgb(path, page, tint):
    """As write_png of make-samples, in colours."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(bytes((pixel, max(0, pixel - tint), pixel // 2)) for pixel in row) for row in page.rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", page.width, page.height, 8, 2, 0, 0, 0))
                   + chunk(b"pHYs", struct.pack(">IIB", 5906, 5906, 1)) + chunk(b"IDAT", zlib.compress(rows, 1))
                   + chunk(b"IEND", b""))


def write_pdf(path, pages):
    pdf = samples.Pdf(path, "Scans")
    for page in pages:
        image = pdf.stream(page.bytes(), b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray"
                                         b" /BitsPerComponent 8" % (page.width, page.height))
        width, height = page.width * 72 // 150, page.height * 72 // 150
        pdf.page(b"q %d 0 0 %d 0 0 cm /Im0 Do Q\n" % (width, height), width, height, b"/XObject << /Im0 %d 0 R >>" % image)
    pdf.close()


def make_scans(folder):
    """Pages of few shapes and many, level and askew, blank, dusty and small; one that no batch of the devices takes."""
    os.mkdir(folder)

    def at(name):
        return os.path.join(folder, name)

    for number, degrees in enumerate((0, 1.5, -2.5)):
        samples.write_png(at(f"written-{number}.png"), written(700, 460, degrees))
    write_rgb(at("coloured.png"), written(640, 420, draw.uniform(-3, 3)), 60)
    for number in range(4):
        samples.write_png(at(f"blank-{number}.png"), blank(700, 460))
        samples.write_png(at(f"dusty-{number}.png"), dusty(draw.randrange(300, 700), draw.randrange(300, 460)))
    write_rgb(at("coloured-blank.png"), blank(333, 257), 9)
    samples.write_png(at("small.png"), dusty(37, 29))
    samples.write_png(at("tiny.png"), blank(5, 6))
    samples.write_png(at("large.png"), dusty(2600, 3000))
    write_pdf(at("pages.pdf"), [written(700, 460, -1), blank(700, 460), dusty(640, 420), written(640, 420, 2), blank(640, 420)])


def fake(name, **settings):
    """The environment of a run: nothing is counted or traced over from another."""
    for file in ("state", "trace"):
        settings.setdefault(file, checks.path(f"{name}.{file}"))
    settings = {"times": "20000:2000:2000:0:0", "memory": 36 << 20, **settings}
    return {**os.environ, **{f"SHEAF_FAKE_CUDA_{key.upper()}": str(value) for key, value in settings.items()}}


def busy_devices(name):
    """Which devices ran kernels."""
    path = checks.path(f"{name}.trace")
    if not os.path.exists(path):
        return set()
    with open(path, encoding="ascii") as file:
        return {line.split()[0] for line in file if " kernel " in line}


def say_work(name):
    """What the driver was asked to do for one device's pages."""
    lines = [line.split()[1] for line in open(checks.path(f"{name}.trace"), encoding="ascii")]
    ledger = tool.read_ledger(checks.path(name))
    measure = next(call for call in ledger["calls"] if call["call"] == "measure")
    print(f"{measure['rows']} pages in {measure['batches']} batches: {lines.count('kernel')} kernels, {lines.count('in')} copies in, "
          f"{lines.count('out')} copies out")


def measured(scans, name, device, **settings):
    tree = checks.path(name)
    run = checks.run("run", "documents", "--set", "measure.blank=dust", "-i", scans, "-o", tree, "--progress", "none", "--device", device,
                     "--log-level", "info", env=fake(name, **settings), timeout=110)
    said = run.stderr.decode(errors="replace")
    checks.expect(run.returncode == 0, f"{name}: exit {run.returncode}: {said}")
    checks.expect(tool.balance(tool.read_ledger(tree)) is None, f"{name}: {tool.balance(tool.read_ledger(tree))}")
    return tool.snapshot(tree), said


def compare(host, scans, name, device, says=None, **settings):
    other, said = measured(scans, name, device, **settings)
    checks.expect(tool.difference(host, other) is None, f"{name}: {tool.difference(host, other)}: {said}")
    checks.expect(says is None or says in said, f"{name}: wanted '{says}' in: {said}")
    return said


def some_faults():
    """Of the devices' own any number, of those that rows could be to blame for one: a batch that goes again by itself and meets
    another is charged."""
    functions = ("cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventSynchronize", "cuStreamWaitEvent")
    faults = [f"{draw.randrange(8)}:{draw.choice(functions)}:{draw.randrange(1, 9)}:{draw.choice((214, 999))}" for _ in range(6)]
    return ",".join(faults + [f"{draw.randrange(8)}:cuLaunchKernel:{draw.randrange(1, 60)}:{draw.choice((700, 702, 719))}"])


def main():
    scans = checks.path("scans")
    make_scans(scans)
    host, _ = measured(scans, "host", "host")
    texts = [text for name, text in host.items() if name.endswith(b".json")]
    checks.expect(len(texts) == 17, f"{len(texts)} documents came out")
    checks.expect(b"".join(texts).count(b'"source":"ocr"') == 6, "other pages than the written ones were read")
    checks.expect(not busy_devices("host"), "the host's run used a device")
    for devices in (1, 8):
        name = f"devices-{devices}"
        compare(host, scans, name, "cuda", devices=devices)
        checks.expect(busy_devices(name) and len(busy_devices(name)) <= devices, f"{name}: {busy_devices(name)} were busy")
    say_work("devices-1")
    compare(host, scans, "delays", "cuda", devices=8, seed=seed, delay_us=300, times="1000:1000:1000:0:0", read_only=0)
    for number in range(2):
        faults = some_faults()
        print(faults)
        compare(host, scans, f"faults-{number}", "auto", devices=8, seed=seed + number, delay_us=200, errors=faults)
    compare(host, scans, "broken", "auto", says="goes on on the host", devices=1, errors="0:cuLaunchKernel:20+:214")
    said = compare(host, scans, "unsuited", "auto", says="goes on on the host", devices=2, errors="*:cuModuleLoadData:1+:209")
    checks.expect(said.count("is retired") == 2, f"unsuited: {said}")
    checks.expect_exit(4, "run", "documents", "-i", scans, "-o", checks.path("none"), "--device", "cuda", says="NO_BINARY_FOR_GPU",
                       env=fake("none", devices=1, errors="*:cuModuleLoadData:1+:209"))
    imageless = {"SHEAF_PLUGINS": sys.argv[4], "SHEAF_TEST_IMAGELESS": "1"}
    os.environ.update(imageless)
    compare(host, scans, "imageless", "auto", says="image.measure were built without nvcc")
    checks.expect(not busy_devices("imageless"), "kernels without an image ran on a device")
    checks.expect_exit(4, "run", "documents", "-i", scans, "-o", checks.path("none"), "--device", "cuda", says="without nvcc")
    checks.finish()


main()
