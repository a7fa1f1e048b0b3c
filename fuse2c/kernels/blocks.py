"""Kernels for weights that were pruned in blocks: for each group of outputs the units of a pixel's elements that it reads.

A unit is a few neighbouring elements, or two that lie anywhere. Where they begin is a table of bytes or halfwords, behind the
number of a group's units; only their weights are stored. Pixels are read in place. How large groups and units are is chosen
by what the layer then takes: any pattern is right, blocks of zeros are fast.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.kernels import dsp, tiling
from fuse2c.kernels.dsp import Finish, Run
from fuse2c.kernels.tiling import Block, Lane, Store, Tile

CORE = "parts/blocks.c.j2"
PIXELS = 2              # of a tile
DSP_FORMS = ((8, 4), (4, 4), (2, 4), (1, 4), (8, 1), (4, 1), (2, 1))
PLAIN_FORMS = ((8, 4), (4, 4), (2, 4), (1, 8), (1, 4), (8, 1), (4, 1), (2, 1), (1, 1))


@dataclass(frozen=True, slots=True)
class Form:
    """Groups of so many outputs; a unit's elements: neighbours, or two apart (`loose`)."""

    outputs: int
    elements: int
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Listed(Block):
    """Outputs in groups: C lines of a unit, the fewest and most units of one, words of the stream behind its products."""

    lines: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Units:
    """Where the units of each group begin, by the first output of the group; elements of a pixel."""

    form: Form
    depth: int
    starts: tuple[tuple[int, int, np.ndarray], ...]     # first output, end, [units, 1 or 2]

    @property
    def step(self) -> int:
        """What all starts are multiples of, and are stored as such."""
        found = np.concatenate([s.reshape(-1) for _, _, s in self.starts])
        return self.form.elements if not self.form.loose and not (found % self.form.elements).any() else 1

    @property
    def count(self) -> int:
        """Units of all groups."""
        return sum(len(s) for _, _, s in self.starts)

    @property
    def held(self) -> int:
        """Weights that they hold, zeros among them counted."""
        return sum((end - first) * len(s) for first, end, s in self.starts) * self.form.elements

    def table(self) -> np.ndarray:
        """For each group the number of its units and their starts, in the smallest type that holds them."""
        parts = [np.concatenate([[len(s)], s.reshape(-1) // self.step]) for _, _, s in self.starts]
        found = np.concatenate(parts)
        return found.astype(np.uint8 if found.max() <= 255 else np.uint16)

    def weights(self, w: np.ndarray, first: int, end: int, starts: np.ndarray) -> np.ndarray:
        """The weights of a group's units [outputs, units, elements]: those that two units hold are in the first only."""
        at = starts if self.form.loose else starts + np.arange(self.form.elements)
        flat = at.reshape(-1)
        again = np.ones(len(flat), bool)
        again[np.unique(flat, return_index=True)[1]] = False
        return np.where(again, 0, w[first:end][:, flat]).astype(w.dtype).reshape(end - first, *at.shape)


def units(w: np.ndarray, form: Form) -> Units:
    """The units of weights [outputs, depth] that hold all that are not zero."""
    found = []
    for b in tiling.blocks(len(w), form.outputs):
        for first in range(b.first, b.end, b.size):
            there = np.flatnonzero((w[first:first + b.size] != 0).any(axis=0))
            found.append((first, first + b.size, _starts(there, w.shape[1], form)))
    return Units(form, w.shape[1], tuple(found))


def _starts(there: np.ndarray, depth: int, form: Form) -> np.ndarray:
    """Where units begin that hold the elements `there`: in steps of their size, unless others are fewer."""
    if form.loose:
        even = np.concatenate([there, there[-1:]]) if len(there) % 2 else there
        return even.reshape(-1, 2)
    last, size = depth - form.elements, form.elements
    grid = np.unique(np.minimum(there // size * size, last))
    greedy, end = list[int](), -1
    for t in there:
        if t > end:
            greedy.append(min(int(t), last))
            end = greedy[-1] + size - 1
    return (grid if len(grid) <= len(greedy) else np.asarray(greedy, np.int64)).reshape(-1, 1)


def forms(shapes: tuple[tuple[int, int], ...], w: np.ndarray, paired: bool) -> Iterator[Form]:
    """The forms that can hold such weights; paired: units of one element are two anywhere."""
    for outputs, elements in shapes:
        if outputs <= len(w) and elements <= w.shape[1]:
            yield Form(outputs, 2, True) if paired and elements == 1 else Form(outputs, elements)


def listed(blocks: tuple[Block, ...], found: Units, lines: dict[int, tuple[str, ...]], behind: dict[int, int],
           ) -> tuple[Listed, ...]:
    """The blocks with their units' C lines and words behind them, by the outputs of a group, and their counts."""
    made = []
    for b in blocks:
        counts = [len(s) for first, _, s in found.starts if b.first <= first < b.end]
        made.append(Listed(b.first, b.end, b.size, lines[b.size], min(counts), max(counts), behind.get(b.size, 0)))
    return tuple(made)


def effort(found: Units, runs: tuple[Run, ...], rows: int, per_multiply: int) -> dict[str, int]:
    """Of an image: words or elements of weights loaded, and multiplications; groups begun; units begun."""
    tiles = rows * sum((r.end - r.first) // r.size for r in runs)
    pixels = rows * sum(r.end - r.first for r in runs)
    return {"load": tiles * found.held // per_multiply, "multiply": pixels * found.held // per_multiply,
            "tile": tiles * len(found.starts), "unpack": tiles * found.count}


# ---- Arm's DSP extension ----


def dsp_choice(w: np.ndarray, form: str) -> Units:
    """The units with the fewest instructions of a tile, by the machine code's count."""
    def instructions(found: Units) -> float:
        outputs, elements = found.form.outputs, found.form.elements
        words = -(-outputs // 2) * elements // 2 if outputs > 1 else 1
        read = 2 * PIXELS * (elements // 2) + 4 if found.form.loose else 2 + PIXELS * (1 + elements // 2)
        unit = 3 + read + 1.5 * words + words * (form == "bytes") + PIXELS * outputs * elements / 2
        return found.count * unit + 8 * len(found.starts)
    return min((units(w, f) for f in forms(DSP_FORMS, w, True)), key=instructions)


def dsp_parts(x: TensorType, w: np.ndarray, bias: np.ndarray, runs: tuple[Run, ...], rows: int, stride: int, end: Finish,
              ) -> dict[str, Any]:
    """What a spec has of this core; stride: distance of neighbouring channels of the result."""
    form = dsp.packing(x, w, bias)
    found = dsp_choice(w, form)
    block = found.form.outputs
    tiles = {r.key: _dsp_tile(r.size, x, w, found, form, stride, end) for r in runs}
    streams = []
    for first, last, starts in found.starts:
        held, own = found.weights(w, first, last, starts), form if block > 1 else "bytes"
        multipliers = None if end.multipliers is None else end.multipliers[first:last]
        if block == 1:
            words = np.ascontiguousarray(held.reshape(-1)).view(np.int32)
            parts = [bias[first:last], words, *([] if multipliers is None else [multipliers])]
            streams.append(np.concatenate([p.astype(np.int64) for p in parts]).astype(np.uint32).view(np.int32))
            continue
        if not found.form.loose:
            held = held[:, :, [0, 2, 1, 3]]
        flat = held.reshape(last - first, -1)
        streams.append(dsp.pack(flat, bias[first:last], last - first, own, multipliers))
    return {"effort": effort(found, runs, rows, 2), "finish": end.scalar, "channel": end.channel, "held": found.held,
            "tables": {"w": np.concatenate(streams), "at": found.table()},
            "flags": {"core": CORE, "tile": tiles, "runs": runs, "single": end.single}}


def _dsp_tile(pixels: int, x: TensorType, w: np.ndarray, found: Units, form: str, stride: int, end: Finish) -> Tile:
    """The sums of a tile and the lines of its units."""
    plain, sizes = tiling.blocks(len(w), found.form.outputs), dict[int, tuple[str, ...]]()
    behind, after = {}, {}
    for b in plain:
        if found.form.outputs == 1:
            sizes[1] = _single_lines(pixels, x, found)
            behind[1], after[1] = 0, int(end.multipliers is not None)
            continue
        sizes[b.size] = _unit_lines(pixels, b, x, found, form)
        behind[b.size] = b.odd if form == "apart" else 0
        after[b.size] = behind[b.size] + (b.size if end.multipliers is not None else 0)
    made = []
    for block in listed(plain, found, sizes, after):
        lanes = [_lane(p, o, form, behind[block.size], stride, end) for p in range(pixels) for o in block.outs]
        made.append((block, tuple(lanes)))
    return Tile(range(pixels), tuple(made))


def _lane(p: int, o: int, form: str, before: int, stride: int, end: Finish) -> Lane:
    """Pixel p of output o of a group, before whose multipliers there are so many other words."""
    oc, acc = f"oc + {o}" if o else "oc", f"acc{p}{o}"
    value = f"f2c_upper_sum({acc}, acc{p}{o - 1})" if form != "bytes" and o % 2 else acc
    value += f" + w[{o // 2}]" if form == "apart" and o % 2 else ""
    return Lane(acc, p, o, oc, Store(value, end.value(o, oc, before), tiling.index(f"at{p}", oc, stride)))


def _reads(pixels: int, x: TensorType, found: Units) -> list[str]:
    """C lines that bring a unit's elements of each pixel to v0, v1."""
    start = "s[0]" if found.step == 1 else f"{found.step} * s[0]"
    if found.form.loose:
        return [f"const int32_t v{p} = f2c_pair(p{p}[s[0]], p{p}[s[1]]);" for p in range(pixels)] + ["s += 2;"]
    return [f"const int32_t v{p} = f2c_load4(&p{p}[{start}]);" for p in range(pixels)] + ["++s;"]


def _single_lines(pixels: int, x: TensorType, found: Units) -> tuple[str, ...]:
    """Four elements times those of one output: a word of weights."""
    wide = dsp.widening(x)
    lines = [*_reads(pixels, x, found), "const int32_t even = f2c_sxtb16(*w), odd = f2c_sxtb16_ror8(*w);", "++w;"]
    for p in range(pixels):
        lines += [f"acc{p}0 = f2c_smlad({half}(v{p}), {w}, acc{p}0);" for half, w in ((wide, "even"), (f"{wide}_ror8", "odd"))]
    return tuple(lines)


def _unit_lines(pixels: int, b: Block, x: TensorType, found: Units, form: str) -> tuple[str, ...]:
    """Elements times those of several outputs: a word of weights is those of two outputs at two elements."""
    wide = dsp.widening(x)
    lines, upper = _reads(pixels, x, found), "f2c_sxtb16_ror8(w{})" if form == "bytes" else "w{}"
    halves = ["v{p}"] if found.form.loose else [f"{wide}(v{{p}})", f"{wide}_ror8(v{{p}})"]
    for half in halves:
        lines += ["{", f"    const int32_t {', '.join(f'a{p} = {half.format(p=p)}' for p in range(pixels))};"]
        for pair in (b.pairs[i:i + 2] for i in range(0, b.words, 2)):
            lines.append(f"    const int32_t {', '.join(f'w{i} = w[{i}]' for i in pair)};")
            outs = [o for i in pair for o in (2 * i + 1, 2 * i) if o < b.size]
            # odd ones first, so that a word's register can then hold its even half
            for o in sorted(outs, key=lambda o: 1 - o % 2):
                weight = (upper if o % 2 else "f2c_sxtb16(w{})").format(o // 2)
                lines += [f"    acc{p}{o} = f2c_smlad(a{p}, {weight}, acc{p}{o});" for p in range(pixels)]
        lines += [f"    w += {b.words};", "}"]
    return tuple(lines)


# ---- C for all cores ----


def plain_choice(w: np.ndarray, most: int) -> Units:
    """The units with the fewest loads and products of a pixel; most: outputs of a group."""
    def instructions(found: Units) -> float:
        unit = 5 + found.form.elements * (1 + 2 * found.form.outputs)
        return found.count * unit + 8 * len(found.starts)
    fit = tuple(s for s in PLAIN_FORMS if s[0] <= most)
    return min((units(w, f) for f in forms(fit, w, False)), key=instructions)


def plain_parts(w: np.ndarray, bias: np.ndarray, runs: tuple[Run, ...], rows: int, stride: int, ctype: str,
                most: int) -> dict[str, Any]:
    """What a spec has of this core; ctype: of a sum; most: outputs of a group, as there are registers for."""
    found = plain_choice(w, most)
    packed = [np.moveaxis(found.weights(w, first, end, starts), 0, -1).reshape(-1) for first, end, starts in found.starts]
    tiles = {}
    for r in runs:
        made = []
        for b, lanes in tiling.lanes(r.size, tiling.blocks(len(w), found.form.outputs), "{oc}", stride).blocks:
            (block,) = listed((b,), found, {b.size: _plain_lines(r.size, b, found, ctype)}, {})
            made.append((block, lanes))
        tiles[r.key] = Tile(range(r.size), tuple(made))
    # the load of a weight counts with its multiplication
    read = rows * sum(r.end - r.first for r in runs) * found.count * found.form.elements
    return {"effort": effort(found, runs, rows, 1) | {"load": read}, "held": found.held,
            "tables": {"w": np.concatenate(packed), "b": bias, "at": found.table()},
            "flags": {"core": CORE, "tile": tiles, "runs": runs, "single": False}}


def _plain_lines(pixels: int, b: Block, found: Units, ctype: str) -> tuple[str, ...]:
    """A unit's elements times those of a group."""
    lines = []
    for i in range(found.form.elements):
        at = "s[0]" if found.step == 1 else f"{found.step} * s[0]"
        names = ", ".join(f"a{p} = p{p}[{at}{f' + {i}' if i else ''}]" for p in range(pixels))
        lines += ["{", f"    const {ctype} {names};"]
        lines += [f"    acc{p}{o} += a{p} * w[{i * b.size + o}];" for o in b.outs for p in range(pixels)]
        lines.append("}")
    return (*lines, "++s;", f"w += {found.form.elements * b.size};")
