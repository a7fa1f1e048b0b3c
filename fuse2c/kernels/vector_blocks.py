"""A host's vectors for weights that were pruned in blocks: for 16 outputs the units of a pixel's elements that they read.

A unit is what one lane multiplies in a step (vector.py): an element of float32, four of integers. The weights of a group are
[units][16 lanes]; where its weights and its units begin is a table.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.ir.types import DType
from fuse2c.kernels import dsp, vector
from fuse2c.kernels.tiling import Store, index

LANES = vector.LANES


def parts(w: np.ndarray, bias: np.ndarray, dtype: DType, width: int, rows: int, channel: int) -> dict[str, Any]:
    """What a spec has of this core; w: [outputs, depth], depth in whole units; width, rows: of the result.

    channel: distance of neighbouring outputs of y, in elements.
    """
    elements = replace(vector.OF[dtype], blocks=(LANES,))
    unit = elements.unit
    words = w.reshape(len(w), -1, unit)
    found = vector.blocks(len(w), words.shape[1], elements)
    streams, lists, begin = list[np.ndarray](), list[np.ndarray](), list[tuple[int, int]]()
    for group in vector.spread(words, found):
        there = np.flatnonzero((group != 0).any(axis=(0, 2)))
        begin.append((sum(map(len, streams)), sum(map(len, lists))))
        streams.append(group[:, there].transpose(1, 0, 2).reshape(-1))
        lists.append(np.concatenate([[len(there)], there * unit]))
    starts = np.concatenate(lists)
    lifted = vector.lifted(bias, w) if dtype == DType.I8 else bias
    tables = {"w": np.concatenate(streams), "b": np.concatenate(vector.spread(lifted, found)),
              "at": starts.astype(np.uint16 if starts.max() < 2 ** 16 else np.int32),
              "begin": np.asarray(begin, np.int32).reshape(-1)}
    store = Store("sums[o]", "first + o", index("at", "first + o", channel))
    tiles = tuple(vector.Tile(run, b) for b in found for run in dsp.runs(width, vector.PIXELS))
    # of one pixel alone sums wait for each other; integers are finished slowly
    held, outputs = tables["w"].size, rows * width * len(w)
    effort = {"load": rows * held if width == 1 else 0, "multiply": rows * width * held if width > 1 else 0,
              "tile": 0 if dtype == DType.F32 else outputs, "unpack": outputs}
    return {"tables": tables, "held": held, "effort": effort, "constants": {"UNIT": unit, "GROUP": LANES},
            "flags": {"tiles_by_blocks": tiles, "store": store}}
