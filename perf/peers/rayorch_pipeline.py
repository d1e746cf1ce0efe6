#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RayOrch: expand a document into pages, a pool of actors over batches of pages of any documents, reduce, assemble."""
import ray
import rayorch
import work


class Pages:
    def __init__(self):
        self.documents = work.Documents.get()

    def run(self, paths):
        return [[(path, page) for page in range(self.documents.page_count(path))] for path in paths]


class ReadPages:
    def __init__(self):
        self.documents = work.Documents.get()

    def run(self, pages):
        return [self.documents.page(path, page) for path, page in pages]


class Write:
    def __init__(self, folder):
        self.folder = folder
        self.documents = work.Documents.get()

    def run(self, paths, contents):
        return [self.documents.write(path, list(content), self.folder) for path, content in zip(paths, contents)]


class DocumentsPipeline(rayorch.Pipeline):
    def __init__(self, options):
        pool = {'replicas': options.workers, 'num_cpus': 0}
        self.pages = rayorch.RayModule(Pages).ray_options(replicas=1, batch_size=1, num_cpus=0)
        self.read = rayorch.RayModule(ReadPages).ray_options(batch_size=options.batch, **pool)
        self.write = rayorch.RayModule(Write).pre_init(options.output).ray_options(batch_size=1, **pool)

    def forward(self, paths):
        pages = rayorch.F.expand(self.pages(paths))
        return self.write(paths, rayorch.F.reduce(self.read(pages)))


class Numbers:
    def run(self, counts):
        return [list(range(count)) for count in counts]


class Sleep:
    def __init__(self, ns_per_row):
        self.sleeper = work.Sleeper(ns_per_row)

    def run(self, pages):
        self.sleeper.sleep(len(pages))
        return pages


class Count:
    def run(self, groups):
        return [len(group) if list(group) == list(range(len(group))) else -1 for group in groups]


class SleepPipeline(rayorch.Pipeline):
    def __init__(self, options):
        self.pages = rayorch.RayModule(Numbers).ray_options(replicas=1, batch_size=1, num_cpus=0)
        self.sleep = rayorch.RayModule(Sleep).pre_init(options.ns_per_row).ray_options(
            replicas=options.workers, batch_size=options.batch, num_cpus=0)
        self.count = rayorch.RayModule(Count).ray_options(replicas=1, batch_size=16, num_cpus=0)

    def forward(self, counts):
        return self.count(rayorch.F.reduce(self.sleep(rayorch.F.expand(self.pages(counts)))))


def run(options, report):
    documents = options.workload == 'documents'
    pipeline = (DocumentsPipeline if documents else SleepPipeline)(options)
    sources = options.lines if documents else [int(line) for line in options.lines]
    ray.init(num_cpus=options.workers + 2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    with rayorch.Executor(pipeline) as executor:
        report.running()
        # Small input batches, many of them at once: a document is assembled as soon as its pages are there.
        result = executor.run(sources, input_batch_size=1, max_active_input_batches=8 * options.workers)
        pages = [output for output in result.outputs if isinstance(output, int) and output >= 0]
        report.done(len(pages), sum(pages), rpcs=result.rpc_count)


if __name__ == '__main__':
    run(work.arguments(__doc__), work.Report())
