#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_text.py TEXT_DUMP CORPUS [NAME ...]

How far the text Sheaf gives is from that of pdftotext and of pdfium itself, for every PDF of CORPUS/pdf that has a text
layer: Levenshtein distance over words in order, in percent of the longer text. TEXT_DUMP is the developer tool of that
name from the build. Prints a Markdown table, worst first where it matters: docs/TEXT.md holds one.

Columns: words we give; distance to pdftotext; to pdftotext with the same words counted without order (what is really missing
or added: the rest is reading order); to pdfium's plain text, both ways; and pdftotext to pdfium, as a measure of what two
tools differ anyway.

All are compared after the same folding: compatibility forms are taken apart, hyphens at line ends are resolved in the same
way, directional marks go, case and the text itself stay.
"""
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter

INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\u00ad\ufffe\x02]")
HYPHEN_AT_LINE_END = re.compile(r"(\w)[-\u2010][ \t]*\r?\n\s*(?=[a-z\u00df-\u00ff])")
SPACES = re.compile(r"\s+")


def fold(text):
    """The words of a text."""
    text = text.replace("\x02\r\n", "").replace("\x02", "")
    text = HYPHEN_AT_LINE_END.sub(r"\1", text)
    text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = "".join(c if c >= " " else " " for c in text)
    return SPACES.sub(" ", text).split()


def distance(a, b):
    """Levenshtein distance of two lists of words, by bit-parallel rows (Myers): Python's integers are the bit vectors."""
    if not a or not b:
        return max(len(a), len(b))
    where = {}
    for i, word in enumerate(a):
        where[word] = where.get(word, 0) | 1 << i
    mask, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    plus, minus, score = mask, 0, len(a)
    for word in b:
        match = where.get(word, 0)
        x = match | minus
        d = ((((x & plus) + plus) ^ plus) | x) & mask
        h_plus = minus | ~(d | plus) & mask
        h_minus = plus & d
        score += bool(h_plus & last) - bool(h_minus & last)
        h_plus = (h_plus << 1 | 1) & mask
        h_minus = h_minus << 1 & mask
        plus = h_minus | ~(d | h_plus) & mask
        minus = h_plus & d
    return score


def percent(a, b):
    return 100 * distance(a, b) / max(len(a), len(b), 1)


def percent_unordered(a, b):
    left, right = Counter(a), Counter(b)
    both = sum((left & right).values())
    return 100 * (max(len(a), len(b)) - both) / max(len(a), len(b), 1)


def run(*command, encoding="utf-8"):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode(encoding, errors="replace") if done.returncode == 0 else None


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, folder, wanted = sys.argv[1], os.path.join(sys.argv[2], "pdf"), sys.argv[3:]
    print("| file | words | pdftotext | unordered | pdfium | unordered | pdftotext : pdfium |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    total = [0, 0, 0]
    for name in sorted(os.listdir(folder), key=str.lower):
        if not name.endswith(".pdf") or wanted and name not in wanted:
            continue
        path = os.path.join(folder, name)
        ours, pdfium, poppler = run(tool, "--plain", path), run(tool, "--pdfium", path, encoding="utf-16-le"), run("pdftotext", path, "-")
        if ours is None or poppler is None or pdfium is None:
            continue
        ours, pdfium, poppler = fold(ours), fold(pdfium), fold(poppler)
        if not (ours or poppler or pdfium):
            continue
        total = [total[0] + len(ours), total[1] + distance(ours, poppler), total[2] + distance(ours, pdfium)]
        print(f"| {name} | {len(ours)} | {percent(ours, poppler):.1f} % | {percent_unordered(ours, poppler):.1f} % "
              f"| {percent(ours, pdfium):.1f} % | {percent_unordered(ours, pdfium):.1f} % | {percent(poppler, pdfium):.1f} % |")
        sys.stdout.flush()
    if total[0]:
        print(f"| all | {total[0]} | {100 * total[1] / total[0]:.1f} % | | {100 * total[2] / total[0]:.1f} % | | |")


main()
