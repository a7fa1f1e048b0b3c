"""Dense layers for Arm's DSP extension, one pixel at a time: eight outputs share an element that is widened on the way."""
from __future__ import annotations

from typing import Any

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.kernels import tiling
from fuse2c.kernels.dsp import DENSE, Behind, Finish, Step, many, pack, packing, widening
from fuse2c.kernels.dsp_widen import Widened, arranged, pairs
from fuse2c.kernels.tiling import Store, Tile


def block(outputs: int) -> int:
    """Outputs of a block: eight; of a layer of few outputs so many that one loop computes all of them, where that is even."""
    return DENSE if many(outputs) else next((n for n in range(DENSE, 0, -2) if outputs % n == 0), DENSE)


def dense_tile(outputs: int, form: str, end: Finish) -> Tile:
    """The accumulators of one pixel, whose elements are widened on the way, in blocks of outputs side by side."""
    made = []
    for plain in tiling.blocks(outputs, block(outputs)):
        before = plain.odd if form == "apart" else 0
        b = Behind(plain.first, plain.end, plain.size, before + (plain.size if end.multipliers is not None else 0))
        row = []
        for words in (b.pairs[i:i + 2] for i in range(0, b.words, 2)):
            lines: tuple[str, ...] = (f"const int32_t {', '.join(f'w{i} = w[{i}]' for i in words)};",)
            found = [o for word in words for o in (2 * word, 2 * word + 1) if o < b.size]
            # odd ones first, so that a word's register can then hold its even half
            for o in (*(o for o in found if o % 2), *(o for o in found if o % 2 == 0)):
                row.append(_step(o, form, end, before, lines))
                lines = ()
        made.append((b, tuple(row)))
    return Tile(range(1), tuple(made))


def _step(o: int, form: str, end: Finish, behind: int, before: tuple[str, ...]) -> Step:
    """Output o of a block, behind whose words there are so many others in front of the multipliers."""
    oc, acc = f"oc + {o}" if o else "oc", f"acc{o}"
    value = f"f2c_upper_sum({acc}, acc{o - 1})" if form != "bytes" and o % 2 else acc
    value += f" + w[{o // 2}]" if form == "apart" and o % 2 else ""
    upper = "f2c_sxtb16_ror8(w{})" if form == "bytes" else "w{}"
    return Step(acc, 0, o, oc, Store(value, end.value(o, oc, behind), tiling.index("at", oc, 1)),
                weight=(upper if o % 2 else "f2c_sxtb16(w{})").format(o // 2), before=before)


def dense_flags(x: TensorType, w: np.ndarray, bias: np.ndarray, end: Finish,
                ) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """The same as `flags`, for one pixel at a time, its elements widened where they are multiplied: no scratch."""
    form, quads, outputs = packing(x, w, bias), w.shape[1] // 4, w.shape[0]
    steps = next(n for n in (4, 5, 3, 2, 1) if quads % n == 0) if many(w.shape[0]) else 1
    stream = arranged(w, Widened(w.shape[1]), pairs(w.shape[1]))
    rest = [f"f2c_pair(x_row[{a}], x_row[{b if b >= 0 else a}])" for a, b in pairs(w.shape[1])[2 * quads:]]
    return {"w": pack(stream, bias, block(outputs), form, end.multipliers)}, 0, {
        "tile": {"of_1": dense_tile(outputs, form, end)}, "form": form,
        "sides": (f"{widening(x)}(v)", f"{widening(x)}_ror8(v)"),
        "single": end.single, "trips": quads // steps, "steps": steps, "rest": rest, "own": {}}
