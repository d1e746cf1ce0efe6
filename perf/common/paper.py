# SPDX-License-Identifier: Apache-2.0
"""Writes a PDF of so many pages full of text, each different, the same bytes each time."""
import random

WORDS = ('sheaf field harvest stalk binder straw grain furrow barley rye oats meadow scythe flail winnow granary mill '
         'miller flour loaf oven ember the of and to in a is that for it as was with be by on not he his but at are this').split()
LINES, WORDS_A_LINE = 48, 12


def page_stream(draw, number):
    lines = ['BT /F1 10 Tf 12 TL 60 780 Td (Page %d) Tj T*' % number]
    lines += ['(%s) Tj T*' % ' '.join(draw.choice(WORDS) for _ in range(WORDS_A_LINE)) for _ in range(LINES)]
    return '\n'.join(lines + ['ET']).encode()


def write(path, pages, seed=1):
    draw, offsets, first = random.Random(seed), [], 4
    with open(path, 'wb') as file:
        def put(number, body):
            offsets.append((number, file.tell()))
            file.write(b'%d 0 obj\n%s\nendobj\n' % (number, body))

        file.write(b'%PDF-1.4\n')
        put(1, b'<< /Type /Catalog /Pages 2 0 R >>')
        kids = b' '.join(b'%d 0 R' % (first + 2 * at) for at in range(pages))
        put(2, b'<< /Type /Pages /Count %d /Kids [%s] >>' % (pages, kids))
        put(3, b'<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>')
        for at in range(pages):
            stream = page_stream(draw, at + 1)
            put(first + 2 * at, b'<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R '
                                b'/Resources << /Font << /F1 3 0 R >> >> >>' % (first + 2 * at + 1))
            put(first + 2 * at + 1, b'<< /Length %d >>\nstream\n%s\nendstream' % (len(stream), stream))
        table = file.tell()
        file.write(b'xref\n0 %d\n0000000000 65535 f \n' % (len(offsets) + 1))
        file.write(b''.join(b'%010d 00000 n \n' % offset for _, offset in sorted(offsets)))
        file.write(b'trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n' % (len(offsets) + 1, table))
