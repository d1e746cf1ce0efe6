#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report.py BUILD: makes a report of a few real figures and looks at it in headless Chromium: it renders without a word on
the console, nothing is cut off at 1280 pixels, no text is too small to read, it prints, and it asks for nothing from elsewhere.
Skipped where there is no Chromium (apt install chromium)."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

PERF = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALLEST_PX = 8.5
# In a copy of the page, which itself has no script: what the browser made of it, written where --dump-dom shows it.
PROBE = """<script>addEventListener('load', () => {
  const texts = [...document.querySelectorAll('svg text')].map(one =>
    parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getScreenCTM().a, one.getScreenCTM().b));
  const empty = [...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().height < 20).length;
  document.title = 'width ' + document.documentElement.scrollWidth + ' smallest ' + Math.min(...texts).toFixed(1) +
    ' plots ' + document.querySelectorAll('svg').length + ' empty ' + empty;
})</script>"""


def chromium(scratch, *words):
    program = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
    if not program:
        print('skipped: no Chromium (apt install chromium)')
        sys.exit(77)
    done = subprocess.run([program, '--headless=new', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
                           '--user-data-dir=' + os.path.join(scratch, 'profile'), '--window-size=1280,2000'] + list(words),
                          capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit('chromium ended with %d: %s' % (done.returncode, done.stderr[-1000:]))
    return done


def make_report(build, scratch):
    for name, *more in (['E13'], ['E10'], ['E1', '--take', '400', '--pairs', '2', '--batches', '8']):
        subprocess.run([os.path.join(PERF, 'experiment'), name, '--build', build, '--json',
                        os.path.join(scratch, name + '.json')] + more, check=True, stdout=subprocess.DEVNULL)
    path = os.path.join(scratch, 'report.html')
    subprocess.run([os.path.join(PERF, 'report'), scratch, '--output', path], check=True)
    return path


def main():
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        chromium(scratch, '--dump-dom', 'about:blank')  # is there one?
        path = make_report(sys.argv[1], scratch)
        with open(path) as file:
            page = file.read()
        probed = os.path.join(scratch, 'probed.html')
        with open(probed, 'w') as file:
            file.write(page.replace('</body>', PROBE + '</body>'))
        done = chromium(scratch, '--dump-dom', 'file://' + probed)
        seen = re.search(r'<title>width (\d+) smallest ([\d.]+) plots (\d+) empty (\d+)</title>', done.stdout)
        print(seen.group(0) if seen else done.stdout[:500])
        if not seen or int(seen[1]) > 1280 or float(seen[2]) < SMALLEST_PX or int(seen[3]) < 4 or int(seen[4]):
            failures.append('what the browser made of it')
        failures += [line for line in done.stderr.splitlines() if 'CONSOLE' in line]
        if re.search(r'(src|href)\s*=\s*"(?!data:|#)', page) or '<script' in page or '@import' in page:
            failures.append('the page asks for something from elsewhere, or has a script')
        printed = os.path.join(scratch, 'report.pdf')
        chromium(scratch, '--print-to-pdf=' + printed, 'file://' + path)
        if os.path.getsize(printed) < 20000:
            failures.append('it does not print')
    print('\n'.join(failures))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
