# SPDX-License-Identifier: Apache-2.0
"""The machine, the build and the time, as they stand beside every figure."""
import os
import platform
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command_output(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ''


def field(path, name):
    try:
        with open(path) as file:
            for line in file:
                key, _, value = line.partition(':')
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return ''


def describe():
    return {
        'cpu': field('/proc/cpuinfo', 'model name') or platform.machine(),
        'cores': len(os.sched_getaffinity(0)),
        'memory_bytes': int((field('/proc/meminfo', 'MemTotal').split() or ['0'])[0]) << 10,
        'kernel': platform.release(),
        'system': platform.system() + ' ' + platform.machine(),
        'gpus': [line for line in command_output('nvidia-smi', '-L').splitlines() if line],
        'compiler': (command_output('cc', '--version').splitlines() or [''])[0],
        'python': platform.python_version(),
        'commit': command_output('git', 'rev-parse', '--short', 'HEAD'),
        'changed': bool(command_output('git', 'status', '--porcelain', '--untracked-files=no')),
        'taken': time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime()),
        'load': [round(one, 2) for one in os.getloadavg()],
    }


def line(machine):
    return '%s, %d cores, %.0f GiB, Linux %s, commit %s%s, load %.1f' % (
        machine['cpu'], machine['cores'], machine['memory_bytes'] / 2**30, machine['kernel'], machine['commit'],
        ' and changes' if machine['changed'] else '', machine['load'][0])
