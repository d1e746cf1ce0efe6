# SPDX-License-Identifier: Apache-2.0
"""What every peer calls: the same compiled functions as the plain loop and the engine's operators, by ctypes.

So what differs between two peers is what is around the work. Documents are kept open per process, a few at a time: a
peer that sends the pages of one document to one process opens it once there, one that does not opens it again.
"""
import argparse
import collections
import ctypes
import json
import os
import time

OPEN_MAX = 8


class Page(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('bytes', ctypes.c_size_t)]


class Documents:
    """One per process, made by whoever runs there."""

    instance = None

    def __init__(self):
        self.library = ctypes.CDLL(os.environ['SHEAF_PERF_DOCUMENT_WORK'])
        for name in ('document_work_create', 'document_work_open'):
            getattr(self.library, name).restype = ctypes.c_void_p
        error = ctypes.create_string_buffer(1024)
        self.work = ctypes.c_void_p(self.library.document_work_create(error, ctypes.c_size_t(1024)))
        if not self.work:
            raise RuntimeError(error.value.decode())
        self.opened = collections.OrderedDict()

    @classmethod
    def get(cls):
        cls.instance = cls.instance or cls()
        return cls.instance

    def open(self, path):
        if path in self.opened:
            self.opened.move_to_end(path)
            return self.opened[path]
        status = ctypes.c_int()
        opened = self.library.document_work_open(self.work, path.encode(), ctypes.byref(status))
        if not opened:
            raise RuntimeError('%s: %s' % (path, os.strerror(-status.value)))
        self.opened[path] = ctypes.c_void_p(opened)
        while len(self.opened) > OPEN_MAX:
            self.library.document_work_close(self.opened.popitem(last=False)[1])
        return self.opened[path]

    def page_count(self, path):
        return self.library.document_work_page_count(self.open(path))

    def page(self, path, index):
        """The encoded content of a page."""
        page = Page()
        status = self.library.document_work_page(self.work, self.open(path), ctypes.c_int(index), ctypes.byref(page))
        if status < 0:
            raise RuntimeError('%s, page %d: %s' % (path, index + 1, os.strerror(-status)))
        content = ctypes.string_at(page.data, page.bytes)
        self.library.document_work_free(ctypes.c_void_p(page.data))
        return content

    def write(self, path, contents, folder):
        """Markdown and JSON of a document, given the contents of its pages in order."""
        pages = (Page * (len(contents) + 1))()
        for at, content in enumerate(contents):
            pages[at] = Page(ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p), len(content))
        status = self.library.document_work_write(self.work, self.open(path), pages, folder.encode(),
                                                  os.path.basename(path).encode())
        if status < 0:
            raise RuntimeError('%s: %s' % (path, os.strerror(-status)))
        return len(contents)


class Cost(ctypes.Structure):
    _fields_ = [('ns_per_row', ctypes.c_int64), ('ns_per_batch', ctypes.c_int64), ('steps_per_us', ctypes.c_int64)]


class Sleeper:
    """The sleeping operator: one absolute deadline for a batch."""

    def __init__(self, ns_per_row):
        self.library = ctypes.CDLL(os.environ['SHEAF_PERF_TIMING'])
        self.timing = ctypes.create_string_buffer(256)
        cost = Cost(ns_per_row, 0, 0)
        if self.library.timing_open(self.timing, ctypes.byref(cost), None) < 0:
            raise RuntimeError('no timing')

    def sleep(self, rows):
        self.library.timing_work(self.timing, ctypes.c_uint32(rows))


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('workload', choices=('documents', 'sleep'))
    parser.add_argument('--list', help='documents: a file of paths, one a line. sleep: of numbers of pages')
    parser.add_argument('--output', help='documents: the folder for Markdown and JSON')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--batch', type=int, default=64)
    parser.add_argument('--ns-per-row', type=int, default=10000000)
    parser.add_argument('--by-reference', action='store_true', help='rows carry where a page lies, not the page')
    parser.add_argument('--scratch', help='a folder for pages that are passed by reference')
    options = parser.parse_args()
    with open(options.list) as file:
        options.lines = file.read().split('\n')[:-1]
    return options


class Report:
    """What a peer says at the end: when it began to run rows, and what it did."""

    def __init__(self):
        self.since = time.monotonic()
        self.more = {}

    def running(self):
        """Everything is imported and initialised; the run itself begins."""
        self.since = time.monotonic()

    def done(self, documents, pages, **more):
        print(json.dumps(dict({'run_s': time.monotonic() - self.since, 'documents': documents, 'pages': pages}, **more)))
