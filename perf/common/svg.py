# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, drawn by hand: no library, no script, no font that is not there."""
import html
import math

COLOURS = ('#1b6ca8', '#d1495b', '#3a7d44', '#e08e1b', '#6a4c93', '#0f8b8d', '#8d6e63', '#5b5b5b', '#b5179e')
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 30, 44


def text(x, y, words, anchor='middle', size=12, more=''):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%g"%s>%s</text>' % (x, y, anchor, size, more, html.escape(words))


def rectangle(x, y, width, height, colour, title=''):
    inside = '<title>%s</title>' % html.escape(title) if title else ''
    return '<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s">%s</rect>' % (
        x, y, max(0.3, width), max(0.3, height), colour, inside)


def line(x1, y1, x2, y2, colour='#ccc', width=1):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>' % (x1, y1, x2, y2, colour, width)


def short(value):
    for size, letter in ((1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
        if abs(value) >= size:
            return '%g%s' % (round(value / size, 2), letter)
    return '%g' % float('%.3g' % value)


def frame(width, height, body, label):
    return '<svg viewBox="0 0 %d %d" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">%s</svg>' % (
        width, height, html.escape(label), ''.join(body))


class Axis:
    """From values to places, linear or logarithmic, with ticks."""

    def __init__(self, low, high, start, end, logarithmic=False, tight=False):
        self.logarithmic, self.start, self.end = logarithmic, start, end
        if logarithmic:
            self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high) - 1e-9)
            self.high += self.high == self.low
            self.ticks = [10.0 ** power for power in range(int(self.low), int(self.high) + 1)]
            if tight:
                self.low, self.high = math.log10(low), math.log10(high)
        else:
            step = self.step((high - low) or 1)
            self.low, self.high = math.floor(low / step) * step, math.ceil(high / step - 1e-4) * step
            self.ticks = [self.low + at * step for at in range(int(round((self.high - self.low) / step)) + 1)]

    @staticmethod
    def step(span):
        power = 10 ** math.floor(math.log10(span))
        return next(power * part for part in (0.2, 0.5, 1, 2) if span / (power * part) <= 6)

    def at(self, value):
        value = math.log10(value) if self.logarithmic else value
        return self.start + (value - self.low) / ((self.high - self.low) or 1) * (self.end - self.start)


def axes(width, height, x, y, title, x_label, y_label, x_ticks=None):
    body = [text(width / 2, 17, title, size=14, more=' font-weight="600"')]
    for tick in y.ticks:
        body += [line(LEFT, y.at(tick), width - RIGHT, y.at(tick), '#e4e4e4'),
                 text(LEFT - 6, y.at(tick) + 4, short(tick), 'end')]
    for tick in x_ticks if x_ticks is not None else x.ticks:
        body += [line(x.at(tick), height - BOTTOM, x.at(tick), height - BOTTOM + 4, '#888'),
                 text(x.at(tick), height - BOTTOM + 17, short(tick))]
    body += [line(LEFT, height - BOTTOM, width - RIGHT, height - BOTTOM, '#888'),
             text((LEFT + width - RIGHT) / 2, height - 8, x_label),
             text(0, 0, y_label, more=' transform="translate(15 %.1f) rotate(-90)"' % ((TOP + height - BOTTOM) / 2))]
    return body


def lines(title, x_label, y_label, series, width=570, height=330, log_x=False, log_y=False, x_ticks=None, points=True):
    """`series`: (name, [(x, y)], dashed)."""
    xs = [x for _, values, _ in series for x, _ in values]
    ys = [y for _, values, _ in series for _, y in values if y > 0 or not log_y]
    if not xs or not ys:
        return ''
    x = Axis(min(xs) if log_x else min(0, min(xs)), max(xs), LEFT, width - RIGHT, log_x, tight=x_ticks is not None)
    y = Axis(min(ys) if log_y else min(0, min(ys)), max(ys), height - BOTTOM, TOP + 16, log_y)
    body = axes(width, height, x, y, title, x_label, y_label, x_ticks)
    for at, (name, values, dashed) in enumerate(series):
        colour = '#777' if dashed else COLOURS[at % len(COLOURS)]
        places = [(x.at(one), y.at(value)) for one, value in values if value > 0 or not log_y]
        body.append('<polyline fill="none" stroke="%s" stroke-width="2"%s points="%s"/>' % (
            colour, ' stroke-dasharray="5 4"' if dashed else '', ' '.join('%.1f,%.1f' % place for place in places)))
        if points and not dashed:
            body += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (px, py, colour) for px, py in places]
    return frame(width, height, body + legend([(name, dashed) for name, _, dashed in series], width), title)


def legend(names, width):
    body, at, coloured = [], LEFT + 4, 0
    for name, dashed in names:
        colour = '#777' if dashed else COLOURS[coloured % len(COLOURS)]
        coloured += 1
        body += [line(at, TOP + 4, at + 18, TOP + 4, colour, 3), text(at + 23, TOP + 8, name, 'start', 11)]
        at += 34 + 6.3 * len(name)
    return body


def bars(title, unit, rows, width=570, log=False):
    """Lying bars: (name, median, lowest, highest). The first one is ours."""
    rows = [row for row in rows if row[1] is not None and (row[1] > 0 or not log)]
    if not rows:
        return ''
    left, height = 170, 62 + 27 * len(rows)
    low = min(row[2] for row in rows) / 2 if log else 0
    x = Axis(max(low, 1e-9) if log else 0, max(row[3] for row in rows), left, width - 66, log)
    body = [text(width / 2, 17, title, size=14, more=' font-weight="600"')]
    for tick in x.ticks:
        body += [line(x.at(tick), 26, x.at(tick), height - 34, '#e4e4e4'), text(x.at(tick), height - 20, short(tick), size=11)]
    for at, (name, middle, lowest, highest) in enumerate(rows):
        y = 31 + 27 * at
        body += [text(left - 6, y + 14, name, 'end'),
                 rectangle(left, y, x.at(middle) - left, 19, COLOURS[0] if at == 0 else '#a8b5c0', '%s: %g %s' % (name, middle, unit)),
                 line(x.at(max(lowest, 10.0 ** x.low if log else 0)), y + 9.5, x.at(highest), y + 9.5, '#333', 1.5),
                 text(x.at(highest) + 5, y + 14, short(middle), 'start')]
    body.append(text((left + width) / 2, height - 5, unit, size=11))
    return frame(width, height, body, title)


def columns(title, x_label, y_label, counts, width=570, height=300):
    """A histogram: {value: count}."""
    if not counts:
        return ''
    x = Axis(0, max(counts) + 1, LEFT, width - RIGHT)
    y = Axis(0, max(counts.values()), height - BOTTOM, TOP)
    body = axes(width, height, x, y, title, x_label, y_label)
    each = max(1.5, (x.at(1) - x.at(0)) * 0.85)
    for value, count in sorted(counts.items()):
        body.append(rectangle(x.at(value) - each / 2, y.at(count), each, y.at(0) - y.at(count), COLOURS[0],
                              '%d of %d rows' % (count, value)))
    return frame(width, height, body, title)


def stacked(title, unit, rows, parts, width=1170):
    """Lying bars in parts: rows (name, {part: value}); `parts` in order."""
    rows = [row for row in rows if sum(row[1].values()) > 0]
    if not rows:
        return ''
    left, height = 300, 76 + 24 * len(rows)
    x = Axis(0, max(sum(values.values()) for _, values in rows), left, width - 30)
    body = [text(width / 2, 17, title, size=14, more=' font-weight="600"')]
    at = left
    for number, part in enumerate(parts):
        body += [rectangle(at, 27, 12, 12, COLOURS[number % len(COLOURS)]), text(at + 17, 37, part, 'start', 11)]
        at += 36 + 6.5 * len(part)
    for row, (name, values) in enumerate(rows):
        y, start = 48 + 24 * row, 0
        body.append(text(left - 6, y + 13, name, 'end', 11))
        for number, part in enumerate(parts):
            value = values.get(part, 0)
            if value > 0:
                body.append(rectangle(x.at(start), y, x.at(start + value) - x.at(start), 17, COLOURS[number % len(COLOURS)],
                                      '%s: %.4g %s' % (part, value, unit)))
            start += value
    for tick in x.ticks:
        body.append(text(x.at(tick), height - 14, short(tick), size=11))
    body.append(text(left - 6, height - 14, unit, 'end', 11))
    return frame(width, height, body, title)


def lanes(title, batches, workers, end_s, width=1170):
    """What every worker did when: (start, end, lane, rows). White is time without a batch."""
    height, most = TOP + 13 * workers + BOTTOM, max(rows for _, _, _, rows in batches)
    x = Axis(0, end_s, LEFT, width - RIGHT)
    body = [text(width / 2, 17, title, size=14, more=' font-weight="600"'),
            rectangle(LEFT, TOP, width - RIGHT - LEFT, 13 * workers, '#f3e3e3')]
    for start, end, lane, rows in batches:
        full = rows >= most
        body.append(rectangle(x.at(start), TOP + 13 * lane + 1, x.at(end) - x.at(start) - 0.4, 11,
                              COLOURS[0] if full else COLOURS[3]))
    for tick in x.ticks:
        body += [line(x.at(tick), height - BOTTOM, x.at(tick), height - BOTTOM + 4, '#888'),
                 text(x.at(tick), height - BOTTOM + 17, short(tick))]
    body += [text((LEFT + width) / 2, height - 8, 'seconds from the start of the run'),
             text(LEFT - 6, TOP + 10, 'worker 1', 'end', 11), text(LEFT - 6, TOP + 13 * workers - 3, str(workers), 'end', 11)]
    return frame(width, height, body, title)
