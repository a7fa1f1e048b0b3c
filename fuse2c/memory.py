"""The memory map of a plan, as text and as an SVG picture: time across, addresses down, every buffer as a box.

Time is counted in rows computed (a kernel that is not split takes one unit). A tensor whose rows die one by one is a
staircase: its bytes are free for others above and below the steps.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from fuse2c.errors import printable
from fuse2c.passes import place
from fuse2c.plan import Plan

COLUMNS, LINES = 96, 24             # of the text
MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
WIDTH, HEIGHT = 1000, 480           # of the boxes in the picture, in pixels
LEFT, TOP, BELOW = 70, 40, 60       # margins
COLOURS = {"tensor": "#9ecae1", "ring": "#a1d99b", "scratch": "#fdd0a2", "state": "#dadaeb"}
LETTER = 6.2                        # width of a letter in the boxes, in pixels


@dataclass(frozen=True, slots=True)
class Band:
    """Bytes start .. end - 1 of the arena, taken from time `first` to time `last`."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Box:
    """A buffer and the bands that it takes: one for each row of a tensor whose rows die one by one."""

    name: str
    label: str          # the number and operator of the kernel that writes it
    kind: str           # of COLOURS
    size: int           # bytes
    bands: tuple[Band, ...]

    @property
    def start(self) -> int:
        """Its first byte."""
        return min(b.start for b in self.bands)

    @property
    def span(self) -> tuple[int, int]:
        """From when to when any of it is in use."""
        return min(b.first for b in self.bands), max(b.last for b in self.bands)


def boxes(plan: Plan) -> list[Box]:
    """Every buffer of the arena, by address."""
    at = {p.name: p.offset for p in plan.places}
    end = len(place.units(plan)) - 1
    writers = {name: f"{i} {step.node.op}" for i, step in reversed(list(enumerate(plan.steps, 1)))
               for name in [*map(plan.root, step.node.outputs), *(plan.scratch(step, n) for n in range(plan.options.cores))]}
    found = []
    for life in place.lifetimes(plan):
        start, rows = at[life.name], len(life.born)
        if life.ring or rows == 1:
            kind = "ring" if life.ring else "scratch" if life.scratch else "tensor"
            bands = tuple(Band(start, start + life.size, *span) for span in life.spans)
        else:
            kind, size = "tensor", life.row_bytes
            bands = tuple(Band(start + i * size, start + (i + 1) * size, int(life.born[i]), int(life.dies[i]))
                          for i in range(rows))
        found.append(Box(life.name, writers.get(life.name, life.name), kind, life.size, bands))
    if plan.options.arena == "caller":
        found += [Box(p.name, p.name, "state", p.size, (Band(p.offset, p.offset + p.size, 0, end),)) for p in plan.state_places]
    return sorted(found, key=lambda b: (b.start, b.span))


def segments(plan: Plan) -> Iterator[tuple[int, int, str]]:
    """(first time, last time, which kernels run) for each kernel, or group of kernels that take turns."""
    spans: dict[int, tuple[int, int]] = {}
    for time, (step, _) in enumerate(place.units(plan)):
        spans[step] = (spans.get(step, (time, 0))[0], time)
    now: tuple[int, int, int, int] | None = None       # first time, last time, first step, last step
    for step, (first, last) in spans.items():
        if now is not None and first <= now[1]:
            now = (now[0], max(now[1], last), min(now[2], step), max(now[3], step))
            continue
        if now is not None:
            yield now[0], now[1], _numbers(now[2], now[3])
        now = (first, last, step, step)
    if now is not None:
        yield now[0], now[1], _numbers(now[2], now[3])


def _numbers(first: int, last: int) -> str:
    return f"{first + 1}" if first == last else f"{first + 1}-{last + 1}"


def text(plan: Plan) -> str:
    """A grid of letters, and what the letters stand for; a cell shows the buffer that takes most of it."""
    found = boxes(plan)
    if not found:
        return "the arena is empty"
    size, end = plan.arena_bytes, len(place.units(plan))
    lines, columns = min(LINES, -(-size // 8)), min(COLUMNS, end)
    share = np.zeros((len(found), lines, columns))
    for i, box in enumerate(found):
        for b in box.bands:
            share[i] += np.outer(_overlap(b.start, b.end, size, lines), _overlap(b.first, b.last + 1, end, columns))
    mark = [MARKS[i % len(MARKS)] for i in range(len(found))]
    grid = np.where(share.max(axis=0) > 0, np.asarray(mark)[share.argmax(axis=0)], ".")
    rows = [f"{size * i // lines:>8} |{''.join(row)}|" for i, row in enumerate(grid)]
    kernels = ", ".join(f"{numbers} until {last}" for _, last, numbers in segments(plan))
    rows.append(f"{size:>8} bytes; {end} rows from left to right, by kernel: {kernels}")
    rows += [f"  {m} {b.kind:8}{b.start:>8} .. {b.start + b.size - 1:<8} {b.span[0]:>5} .. {b.span[1]:<5} {b.label}: "
             + printable(b.name, 48) for m, b in zip(mark, found, strict=True)]
    return "\n".join(rows)


def _overlap(first: int, end: int, size: int, cells: int) -> np.ndarray:
    """How much of each of `cells` equal parts of 0 .. size lies in first .. end."""
    edges = np.arange(cells + 1) * (size / cells)
    return np.asarray(np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], first), 0, None))


def svg(plan: Plan) -> str:
    """The picture, as the text of an SVG file."""
    found, end = boxes(plan), max(len(place.units(plan)), 1)
    size = max(plan.arena_bytes, 1)

    def x(time: float) -> str:
        return f"{LEFT + WIDTH * time / end:.1f}"

    def y(address: float) -> str:
        return f"{TOP + HEIGHT * address / size:.1f}"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{TOP + HEIGHT + BELOW}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="16" font-size="13">{escape(plan.graph.name)}: arena of {plan.arena_bytes} bytes; time in '
           "rows computed, across, addresses in bytes, down</text>"]
    for i, (kind, colour) in enumerate(COLOURS.items()):
        at = LEFT + 90 * i
        out.append(f'<rect x="{at}" y="22" width="10" height="10" fill="{colour}" stroke="#555"/>'
                   f'<text x="{at + 14}" y="31">{kind}</text>')
    for address in range(0, size + 1, _tick(size)):
        out.append(f'<text x="{LEFT - 6}" y="{float(y(address)) + 4:.1f}" text-anchor="end">{address}</text>'
                   f'<line x1="{LEFT}" y1="{y(address)}" x2="{LEFT + WIDTH}" y2="{y(address)}" stroke="#ddd"/>')
    for box in found:
        (first, last) = box.span
        title = f"{box.label}: {box.name}: {box.kind}, {box.size} bytes at {box.start}, rows {first} to {last}"
        path = " ".join(f"M{' '.join(f'{x(t)},{y(a)}' for t, a in ring)}Z" for ring in _outlines(box))
        out.append(f'<path d="{path}" fill="{COLOURS[box.kind]}" fill-opacity="0.85" stroke="#555" stroke-width="0.6">'
                   f"<title>{escape(title)}</title></path>")
    out += [label for box in found if (label := _label(box, WIDTH / end, HEIGHT / size))]
    lines = [0.0, 0.0, 0.0]         # where the text under the boxes ends so far
    for first, last, numbers in segments(plan):
        out.append(f'<line x1="{x(last + 1)}" y1="{TOP}" x2="{x(last + 1)}" y2="{TOP + HEIGHT + 8}" stroke="#bbb"/>')
        middle, half = float(x((first + last + 1) / 2)), LETTER * (len(numbers) + 1) / 2
        free = next((i for i, end_of in enumerate(lines) if end_of <= middle - half), None)
        if free is not None:        # else there is no room: the neighbours say enough
            lines[free] = middle + half
            out.append(f'<text x="{middle:.1f}" y="{TOP + HEIGHT + 16 + 12 * free}" text-anchor="middle">{numbers}</text>')
    out.append(f'<text x="{LEFT - 6}" y="{TOP + HEIGHT + 16}" text-anchor="end">kernel</text>')
    if plan.peak is not None:
        out.append(f'<line x1="{LEFT}" y1="{y(plan.peak.bytes)}" x2="{LEFT + WIDTH}" y2="{y(plan.peak.bytes)}" '
                   'stroke="#c00" stroke-dasharray="6 4"/>'
                   f'<text x="{LEFT + WIDTH}" y="31" text-anchor="end" fill="#c00">- - lower bound {plan.peak.bytes} bytes'
                   "</text>")
    return "\n".join([*out, "</svg>"]) + "\n"


def _tick(size: int) -> int:
    """A round distance between addresses that are written down: about eight of them."""
    rough = max(size / 8, 1)
    power = int(10 ** np.floor(np.log10(rough)))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= rough)


def _outlines(box: Box) -> Iterator[list[tuple[int, int]]]:
    """(time, address) corners: bands that touch form one staircase."""
    run: list[Band] = []
    for band in box.bands:
        if run and (band.start != run[-1].end or band.first > run[-1].last + 1 or band.last + 1 < run[-1].first):
            yield _staircase(run)
            run = []
        run.append(band)
    yield _staircase(run)


def _staircase(run: list[Band]) -> list[tuple[int, int]]:
    """Down on the left, up on the right."""
    left = [corner for b in run for corner in ((b.first, b.start), (b.first, b.end))]
    right = [corner for b in reversed(run) for corner in ((b.last + 1, b.end), (b.last + 1, b.start))]
    return left + right


def _label(box: Box, across: float, down: float) -> str:
    """The buffer's name in its longest band or, of a ring, in its middle, if there is room."""
    first, last = box.span
    start, end = box.start, box.bands[-1].end
    if len(box.bands) > 1:
        widest = max(box.bands, key=lambda b: b.last - b.first)
        first, last = widest.first, widest.last
        start = end = (widest.start + widest.end) // 2
    room = int((last + 1 - first) * across / LETTER) - 1
    if room < 3 or (len(box.bands) == 1 and (end - start) * down < 11):
        return ""
    name = printable(box.label, room) if room > 6 else box.label.split()[0][:room]
    return (f'<text x="{LEFT + (first + last + 1) / 2 * across:.1f}" y="{TOP + (start + end) / 2 * down + 4:.1f}" '
            f'text-anchor="middle">{escape(name)}</text>')
