# SPDX-License-Identifier: Apache-2.0
"""Figures as all commands here write them: a name, a unit, the values of all rounds, and how they were come by."""
import json
import statistics

KINDS = ('real', 'simulated', 'limit')


def figure(name, unit, values, better=None, **more):
    """`better`: 'more', 'less', or None where neither is. A single count is a list of one."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return dict({'name': name, 'unit': unit, 'values': values, 'better': better}, **more)


def target(what, value, wanted, than):
    return {'what': what, 'value': value, 'wanted': wanted, 'than': than,
            'reached': value >= than if wanted == '>=' else value <= than}


def median(one):
    return statistics.median(one['values'])


def spread(values):
    return (max(values) - min(values)) / 2


def number(value):
    if value == 0 or abs(value) >= 1000:
        return '%.0f' % value
    return '%.4g' % value


def text(one):
    values = one['values']
    said = number(statistics.median(values))
    if len(values) > 1:
        said += ' (%s to %s)' % (number(min(values)), number(max(values)))
    return '%s %s' % (said, one['unit'])


def print_section(section):
    print('%s [%s]: %s' % (section['name'], section['kind'].upper(), section['what']))
    print('  command: %s' % section['command'])
    for one in section['figures']:
        print('  %-58s %s' % (one['name'], text(one)))
    for one in section.get('targets', []):
        print('  %s: %s: %s, wanted %s %s (%s)' % ('reached' if one['reached'] else 'MISSED', one['what'],
                                                   number(one['value']), one['wanted'], number(one['than']), section['kind']))
    for note in section.get('notes', []):
        print('  note: %s' % note)


def write(path, document):
    with open(path, 'w') as file:
        json.dump(document, file, indent=1)
        file.write('\n')


def read(path):
    with open(path) as file:
        return json.load(file)
