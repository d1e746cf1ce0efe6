# SPDX-License-Identifier: Apache-2.0
"""--memory holds: test_memory.py SHEAF MAKE_SAMPLES PLUGIN CASE [MEMORY_MIB], one of

pages      a PDF of thousands of pages
large      pages of 14,400 points, rendered
scans      40 large scans at once
shares     operators that take nearly all their workers may have, heap and values, all at once
gather     a strict gather of more than the budget
deaths     the same while workers are killed
emit       every worker blocked in emit, with room for three children
alone      the same with one worker
results    a root whose outputs are more than the budget
minimum    too small a budget is refused with exit 4, and the least that would do is named and does

SHEAF_TEST_SCALE=10 makes ten times as many inputs; SHEAF_TEST_OCR=auto reads them too, which takes minutes.
"""
import os
import re
import signal
import struct
import subprocess
import sys
import zlib

import held

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import tool  # noqa: E402

MIB = 1 << 20
SCALE = int(os.environ.get("SHEAF_TEST_SCALE", "1"))
PICTURES = ("--images", "jpeg", "--ocr", os.environ.get("SHEAF_TEST_OCR", "never"))


def write_pdf_page(path, side_points):
    """One page, with strokes but no text."""
    strokes = b"".join(b"%d 0 m 0 %d l S\n" % (at, at) for at in range(100, side_points, 100))
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
               b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 4 0 R >>" % (side_points, side_points),
               b"<< /Length %d >>\nstream\n" % len(strokes) + strokes + b"endstream"]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table
    end += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    with open(path, "wb") as file:
        file.write(body + end)


def write_scan(path, width, height):
    """A PNG that is as large as its pixels: paper, with black bars where lines of text would be."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    white, line = b"\0" + b"\xf8" * width, b"\0" + b"\xf8" * 300 + b"\x10" * (width - 600) + b"\xf8" * 300
    rows = b"".join(line if 400 < y < height - 400 and y % 200 < 12 else white for y in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                   + chunk(b"pHYs", struct.pack(">IIB", 11811, 11811, 1)) + chunk(b"IDAT", zlib.compress(rows, 0))
                   + chunk(b"IEND", b""))


def check_held(checks, name, memory_mib, sources, *options, pipeline="documents", each=None):
    """Runs over the folder of that name; it must end well and never hold more than the budget."""
    tree = checks.path("out")
    command = [checks.program, "run", pipeline, "--input", checks.path(name), "--output", tree, "--memory",
               f"{memory_mib}M", "--progress", "none", *options]
    code, said, peak, at_peak, samples = held.watch(command, each)
    by_holder = ", ".join(f"{who} {size / MIB:.1f}" for who, size in sorted(at_peak.items()))
    print(f"{name}: peak {peak / MIB:.1f} MiB of {memory_mib} in {samples} samples: {by_holder}")
    checks.expect(code == 0, f"{name}: exit {code}: {said.strip()}")
    checks.expect(peak <= memory_mib * MIB, f"{name}: held {peak / MIB:.1f} MiB of {memory_mib}: {by_holder}")
    checks.expect(samples > 3, f"{name}: only {samples} samples; make the input larger")
    if code == 0:
        ledger = tool.read_ledger(tree)
        checks.expect(ledger["ok"] == sources, f"{name}: {ledger['ok']} of {sources} sources are well")
        memory = ledger["memory_bytes"]
        counted = memory["peak_by_class"]
        checks.expect(memory["peak"] <= memory_mib * MIB and counted["lineage"] and counted["rings"], f"{name}: run.json has {memory}")
        checks.expect(memory["engine_uncounted_peak"] < 32 * MIB, f"{name}: the engine does not count {memory}")
        print(f"{name}: run.json says {ledger['memory_bytes']}")
    return tree


def write_folder(checks, name, count):
    os.mkdir(checks.path(name))
    for number in range(count):
        with open(checks.path(name, f"{number}.txt"), "w", encoding="utf-8") as file:
            file.write(f"{number}\n")


def write_pipeline(checks, name, steps, outputs):
    path = checks.path(f"{name}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"name: {name}\nsources:\n  document: file\nsteps:\n")
        file.writelines(f"  - {{{step}}}\n" for step in steps)
        file.write(f"outputs: [{', '.join(outputs)}]\nfiles:\n")
        file.writelines(f'  {output}: "{{name}}{ending}"\n' for output, ending in outputs.items())
    return path


def read_output(tree, name):
    with open(os.path.join(tree, name), encoding="utf-8") as file:
        return file.read()


def check_shares(checks, make_samples, memory_mib):
    """Of 1 GiB two workers have 384 MiB each: 208 for their heaps; 480 of sources and values together."""
    roots = 6 * SCALE
    write_folder(checks, "shares", roots)
    pipeline = write_pipeline(checks, "shares", [
        "call: fill, op: memory.fill, in: [document], out: [words], with: {heap_mib: 180, value_mib: 220}, pool: all",
        "call: check, op: memory.check, in: [words], out: [text], pool: all"], {"text": ".txt"})
    tree = check_held(checks, "shares", 1024, roots, "--workers", "2", pipeline=pipeline)
    for number in range(roots):
        text = read_output(tree, f"{number}.txt.txt")
        checks.expect(text.strip() == f"well {220 * MIB}", f"shares: root {number} is '{text}'")


def check_strict(checks, name, roots, children, child_mib, *options, each=None):
    """Two copies of everything, from whichever workers, then all of it as one row's input."""
    write_folder(checks, name, roots)
    pipeline = write_pipeline(checks, name, [
        f"call: split, op: memory.split, in: [document], out: [parts], pool: all,"
        f" with: {{value_mib: {child_mib}, children: {children}}}, recovery: retry, retries: 100",
        "expand: [parts], as: [part]",
        f"call: copy, op: memory.copy, in: [part], out: [copied], with: {{value_mib: {child_mib}}}, pool: all,"
        " recovery: retry, retries: 100",
        "gather: [copied], mode: strict, as: [all_copied]",
        "call: join, op: memory.join, in: [all_copied], out: [text], pool: all, recovery: retry, retries: 100"],
        {"text": ".txt"})
    tree = check_held(checks, name, 256, roots, *options, pipeline=pipeline, each=each)
    for number in range(roots):
        text = read_output(tree, f"{number}.txt.txt")
        wanted = f"{children} of {children} well, {children * child_mib * MIB} bytes"
        checks.expect(text.strip() == wanted, f"{name}: root {number} is '{text}'")


def check_gather(checks, make_samples, memory_mib):
    os.environ["SHEAF_SHARDS"] = "2"
    check_strict(checks, "gather", 2, 40 * SCALE, 4, "--workers", "2")


def check_deaths(checks, make_samples, memory_mib):
    """The same, and some worker is killed at every third sample."""
    killed = []

    def kill(pid, sample):
        workers = held.children_of(pid)
        if sample % 3 == 0 and workers and len(killed) < 20 * SCALE:
            killed.append(workers[sample // 3 % len(workers)])
            try:
                os.kill(killed[-1], signal.SIGKILL)
            except ProcessLookupError:
                pass

    check_strict(checks, "deaths", 8, 40 * SCALE, 4, "--workers", "2", each=kill)
    checks.expect(len(killed) > 2, "deaths: nobody was killed; make the input larger")


def check_emit(checks, make_samples, memory_mib):
    """Of 256 MiB two workers have 72 MiB for values: three children, and every worker is blocked in emit."""
    check_strict(checks, "emit", 4, 8 * SCALE, 20, "--workers", "2")


def check_alone(checks, make_samples, memory_mib):
    """One worker for all Calls: what would make room is what only it could run."""
    check_strict(checks, "alone", 3, 8 * SCALE, 16, "--workers", "1")


def check_results(checks, make_samples, memory_mib):
    write_folder(checks, "results", 1)
    children, child_mib = 40 * SCALE, 4
    path = write_pipeline(checks, "results", [
        f"call: split, op: memory.split, in: [document], out: [parts], pool: all,"
        f" with: {{value_mib: {child_mib}, children: {children}}}",
        "expand: [parts], as: [part]",
        f"call: copy, op: memory.copy, in: [part], out: [copied], with: {{value_mib: {child_mib}}}, pool: all"],
        {"copied": ".parts/{2:05}.bin"})
    tree = check_held(checks, "results", 256, 1, "--workers", "2", "--durability", "none", pipeline=path)
    parts = os.path.join(tree, "0.txt.parts")
    names = sorted(os.listdir(parts))
    checks.expect(len(names) == children, f"results: {len(names)} parts")
    for index, name in enumerate(names):
        with open(os.path.join(parts, name), "rb") as file:
            words = file.read()
        ok = len(words) == child_mib * MIB and struct.unpack("<Q", words[:8])[0] == index << 32
        checks.expect(ok and struct.unpack("<Q", words[-8:])[0] == (index << 32) + len(words) // 8 - 1,
                      f"results: part {name} is not what was made")


def check_pages(checks, make_samples, memory_mib):
    os.mkdir(checks.path("pages"))
    count = 3000 * SCALE
    subprocess.run([sys.executable, make_samples, "--pages", str(count), checks.path("pages", "long.pdf")], check=True)
    tree = check_held(checks, "pages", memory_mib, 1)
    with open(os.path.join(tree, "long.pdf.md"), encoding="utf-8") as file:
        found = re.findall(r"Page (\d+)", file.read())
    checks.expect(found == [str(number) for number in range(1, count + 1)], "pages: not all of them, in order")


def check_large(checks, make_samples, memory_mib):
    os.mkdir(checks.path("large"))
    for number in range(2 * SCALE):
        write_pdf_page(checks.path("large", f"poster-{number}.pdf"), 14400)
    check_held(checks, "large", memory_mib, 2 * SCALE, *PICTURES)


def check_scans(checks, make_samples, memory_mib):
    os.mkdir(checks.path("scans"))
    write_scan(checks.path("scans", "0.png"), 2480, 3508)
    for number in range(1, 40 * SCALE):
        os.link(checks.path("scans", "0.png"), checks.path("scans", f"{number}.png"))
    check_held(checks, "scans", memory_mib, 40 * SCALE, *PICTURES)


def check_minimum(checks, make_samples, memory_mib):
    os.mkdir(checks.path("minimum"))
    subprocess.run([sys.executable, make_samples, "--pages", "3", checks.path("minimum", "short.pdf")], check=True)

    def arguments(memory, tree):
        return ["run", "documents", "--input", checks.path("minimum"), "--output", checks.path(tree),
                "--memory", memory, "--workers", "2", "--progress", "none"]

    run = checks.expect_exit(4, *arguments("100M", "small"), says="the least for them is")
    least = re.search(rb"the least for them is (\d+) MiB", run.stderr)
    if least is None:
        return
    least = int(least.group(1))
    checks.expect_exit(4, *arguments(f"{least - 1}M", "smaller"), says=f"{least} MiB")
    checks.expect_exit(0, *arguments(f"{least}M", "least"))


def main():
    program, make_samples, plugin, case = sys.argv[1:5]
    memory_mib = int(sys.argv[5]) if len(sys.argv) > 5 else 512
    if case in ("shares", "gather", "deaths", "emit", "alone", "results"):
        os.environ["SHEAF_PLUGINS"] = os.path.dirname(plugin)
    checks = tool.Checks(program)
    cases = {"pages": check_pages, "large": check_large, "scans": check_scans, "shares": check_shares,
             "gather": check_gather, "deaths": check_deaths, "emit": check_emit, "alone": check_alone,
             "results": check_results, "minimum": check_minimum}
    cases[case](checks, make_samples, memory_mib)
    checks.finish()


if __name__ == "__main__":
    main()
