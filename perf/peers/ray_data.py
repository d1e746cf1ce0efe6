#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ray Data: flat_map a document to its pages, map_batches over them in a pool of actors, group them again.

The natural form lets rows carry the contents of pages through the grouping. By reference, a row carries the name of a
file in shared memory that holds them.
"""
import os
import uuid

import ray
import work
from ray.data import ActorPoolStrategy, DataContext

PARTITIONS = 16  # of the grouping; the default of 200 costs this machine a minute


def pages_of_document(row):
    count = work.Documents.get().page_count(row['path'])
    return [{'path': row['path'], 'page': page} for page in range(count)]


class ReadPages:
    def __init__(self, scratch):
        self.scratch = scratch
        self.documents = work.Documents.get()

    def keep(self, content):
        if not self.scratch:
            return content
        name = os.path.join(self.scratch, uuid.uuid4().hex)
        with open(name, 'wb') as file:
            file.write(content)
        return name.encode()

    def __call__(self, batch):
        batch['content'] = [self.keep(self.documents.page(path, int(page))) for path, page in zip(batch['path'], batch['page'])]
        return batch


class WriteDocument:
    def __init__(self, folder, by_reference):
        self.folder, self.by_reference = folder, by_reference
        self.documents = work.Documents.get()

    def load(self, content):
        if not self.by_reference:
            return bytes(content)
        with open(content, 'rb') as file:
            return file.read()

    def __call__(self, group):
        order = sorted(range(len(group['page'])), key=lambda at: group['page'][at])
        path = str(group['path'][0])
        pages = self.documents.write(path, [self.load(group['content'][at]) for at in order], self.folder)
        return {'path': [path], 'pages': [pages]}


def pages_of_number(row):
    return [{'document': row['document'], 'page': page} for page in range(row['pages'])]


class Sleep:
    def __init__(self, ns_per_row):
        self.sleeper = work.Sleeper(ns_per_row)

    def __call__(self, batch):
        self.sleeper.sleep(len(batch['page']))
        return batch


def count_group(group):
    pages = sorted(int(page) for page in group['page'])
    return {'document': [int(group['document'][0])], 'pages': [len(pages) if pages == list(range(len(pages))) else -1]}


def start(workers):
    # CPUs are counted, not used: enough for both pools of actors and the tasks around them, or nothing would move.
    ray.init(num_cpus=2 * workers + 4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    DataContext.get_current().enable_progress_bars = False


def run_documents(options, report):
    start(options.workers)
    scratch = options.scratch if options.by_reference else ''
    report.running()
    rows = (ray.data.from_items([{'path': path} for path in options.lines])
            .flat_map(pages_of_document)
            .map_batches(ReadPages, fn_constructor_args=(scratch,), batch_size=options.batch,
                         compute=ActorPoolStrategy(size=options.workers))
            .groupby('path', num_partitions=PARTITIONS)
            .map_groups(WriteDocument, fn_constructor_args=(options.output, options.by_reference),
                        compute=ActorPoolStrategy(size=options.workers))
            .take_all())
    report.done(len(rows), sum(row['pages'] for row in rows))


def run_sleep(options, report):
    start(options.workers)
    report.running()
    rows = (ray.data.from_items([{'document': at, 'pages': int(pages)} for at, pages in enumerate(options.lines)])
            .flat_map(pages_of_number)
            .map_batches(Sleep, fn_constructor_args=(options.ns_per_row,), batch_size=options.batch,
                         compute=ActorPoolStrategy(size=options.workers))
            .groupby('document', num_partitions=PARTITIONS)
            .map_groups(count_group)
            .take_all())
    report.done(sum(row['pages'] >= 0 for row in rows), sum(max(0, row['pages']) for row in rows))


if __name__ == '__main__':
    chosen = work.arguments(__doc__)
    (run_documents if chosen.workload == 'documents' else run_sleep)(chosen, work.Report())
