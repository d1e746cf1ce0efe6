#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daft: a list of pages per document, explode, a class over batches of rows, group by document, write."""
import asyncio
import concurrent.futures

import daft
import work
from daft import DataType, col


@daft.cls(use_process=True, max_concurrency=1)
class Pages:
    @daft.method(return_dtype=DataType.list(DataType.int64()))
    def __call__(self, path):
        return list(range(work.Documents.get().page_count(path)))


def documents_classes(options):
    """Processes, since pdfium is not for threads."""

    @daft.cls(use_process=True, max_concurrency=options.workers)
    class ReadPages:
        @daft.method.batch(return_dtype=DataType.binary(), batch_size=options.batch)
        def __call__(self, paths, pages):
            documents = work.Documents.get()
            return [documents.page(path, page) for path, page in zip(paths.to_pylist(), pages.to_pylist())]

    @daft.cls(use_process=True, max_concurrency=options.workers)
    class Write:
        @daft.method(return_dtype=DataType.int64())
        def __call__(self, path, pages, contents):
            ordered = [content for _, content in sorted(zip(pages, contents))]
            return work.Documents.get().write(path, ordered, options.output)

    return ReadPages(), Write()


def run_documents(options, report):
    read, write = documents_classes(options)
    report.running()
    frame = (daft.from_pydict({'path': options.lines})
             .with_column('page', Pages()(col('path')))
             .explode('page')
             .into_batches(options.batch)
             .with_column('content', read(col('path'), col('page')))
             .groupby('path')
             .agg(col('page').list_agg(), col('content').list_agg())
             .with_column('pages', write(col('path'), col('page'), col('content')))
             .select('pages'))
    pages = frame.to_pydict()['pages']
    report.done(len(pages), sum(pages))


def sleep_class(options):
    """Coroutines over a pool of threads: a class that is not asynchronous is run by as many threads as there are cores."""

    @daft.cls(max_concurrency=options.workers)
    class Sleep:
        def __init__(self):
            self.sleeper = work.Sleeper(options.ns_per_row)
            self.pool = concurrent.futures.ThreadPoolExecutor(options.workers)

        @daft.method.batch(return_dtype=DataType.int64(), batch_size=options.batch)
        async def __call__(self, pages):
            await asyncio.get_running_loop().run_in_executor(self.pool, self.sleeper.sleep, len(pages))
            return pages

    return Sleep()


def run_sleep(options, report):
    sleep, counts = sleep_class(options), [int(line) for line in options.lines]
    report.running()
    frame = (daft.from_pydict({'document': list(range(len(counts))), 'pages': [list(range(count)) for count in counts]})
             .explode('pages')
             .into_batches(options.batch)
             .with_column('done', sleep(col('pages')))
             .groupby('document')
             .agg(col('done').list_agg()))
    groups = frame.to_pydict()
    whole = sum(sorted(pages) == list(range(counts[document]))
                for document, pages in zip(groups['document'], groups['done']))
    report.done(whole, sum(map(len, groups['done'])))


if __name__ == '__main__':
    chosen = work.arguments(__doc__)
    (run_documents if chosen.workload == 'documents' else run_sleep)(chosen, work.Report())
