# SPDX-License-Identifier: Apache-2.0
"""Where a build folder keeps what is measured, and the environment to run it in."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 77


class Build:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.pages = os.path.join(self.folder, 'perf', 'perf_pages')
        self.bench = os.path.join(self.folder, 'perf', 'sheaf_bench')
        self.loop = os.path.join(self.folder, 'perf', 'plain_loop')
        self.document_work = os.path.join(self.folder, 'perf', 'libdocument_work.so')
        self.timing = os.path.join(self.folder, 'perf', 'libperf_timing_shared.so')
        self.sheaf = os.path.join(self.folder, 'tools', 'sheaf')
        self.peers_python = os.path.join(self.folder, 'peers', 'bin', 'python')
        self.environment = dict(os.environ)
        self.environment.setdefault('SHEAF_WORKER', os.path.join(self.folder, 'src', 'worker', 'sheaf-worker'))
        self.environment.setdefault('SHEAF_PDFIUM', os.path.join(self.folder, 'pdfium', 'libpdfium.so'))

    def need(self, *programs):
        for program in programs:
            if not os.path.exists(program):
                sys.exit('%s is not there: ninja -C %s' % (program, self.folder))

    def has_pdfium(self):
        return os.path.exists(self.environment['SHEAF_PDFIUM'])

    def has_peers(self):
        return os.path.exists(self.peers_python)


def add_build_option(parser):
    parser.add_argument('--build', default=os.path.join(ROOT, 'build'), help='the build folder (build)')
