# SPDX-License-Identifier: Apache-2.0
"""Which tools there are, and which documents they are given."""
import os

from build import ROOT

DOCUMENT_TOOLS = ('sheaf', 'loop', 'loops', 'gnu-parallel', 'multiprocessing', 'daft', 'rayorch', 'ray-data',
                  'ray-data-by-reference')
SLEEP_TOOLS = ('sheaf', 'no-engine', 'multiprocessing', 'daft', 'rayorch', 'ray-data')
INSTALLED = ('daft', 'rayorch', 'ray-data', 'ray-data-by-reference')  # by perf/setup-peers

# Of the corpus handed out with the project: those with a text layer and many pages.
FILES = ('freeculture.pdf', 'GeoTopo-komprimiert.pdf', '1000PagesDocumentWithFullCompressionAppended.pdf',
         'us_constitution.pdf', 'demo1.pdf', 'test_241.pdf', 'toc_maxdepth.pdf', 'MOZILLA-10372-2.pdf',
         'tobacco_missed_tokens_pg1.pdf', 'multi_page.pdf', 'pdflatex-4-pages.pdf', 'multicolumn.pdf')


def corpus():
    """Those files that are here (SHEAF_SHARED or ../shared)."""
    shared = os.environ.get('SHEAF_SHARED') or os.path.join(ROOT, '..', 'shared')
    paths = [os.path.join(shared, 'corpus', 'handed', 'pdf', name) for name in FILES]
    return [path for path in paths if os.path.exists(path)]
