#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's multiprocessing: a Pool, imap_unordered, one task a document (or, for rows that sleep, a batch of pages)."""
import multiprocessing

import work


def one_document(arguments):
    path, folder = arguments
    documents = work.Documents.get()
    return documents.write(path, [documents.page(path, index) for index in range(documents.page_count(path))], folder)


def start_sleeper(ns_per_row):
    global sleeper
    sleeper = work.Sleeper(ns_per_row)


def one_batch(batch):
    sleeper.sleep(len(batch))
    return batch


def batches(lines, size):
    batch = []
    for document, pages in enumerate(lines):
        for page in range(int(pages)):
            batch.append((document, page))
            if len(batch) == size:
                yield batch
                batch = []
    if batch:
        yield batch


def run_documents(options, report):
    tasks = [(path, options.output) for path in options.lines]
    with multiprocessing.Pool(options.workers) as pool:
        report.running()
        pages = sum(pool.imap_unordered(one_document, tasks))
    report.done(len(tasks), pages)


def run_sleep(options, report):
    found = {}
    with multiprocessing.Pool(options.workers, start_sleeper, (options.ns_per_row,)) as pool:
        report.running()
        for batch in pool.imap_unordered(one_batch, batches(options.lines, options.batch)):
            for document, page in batch:
                found.setdefault(document, []).append(page)
    whole = sum(sorted(pages) == list(range(int(options.lines[document]))) for document, pages in found.items())
    report.done(whole, sum(map(len, found.values())))


if __name__ == '__main__':
    chosen = work.arguments(__doc__)
    (run_documents if chosen.workload == 'documents' else run_sleep)(chosen, work.Report())
