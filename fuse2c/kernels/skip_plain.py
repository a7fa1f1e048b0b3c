"""The core that passes over zeros, in C for all cores: one pixel at a time, a few outputs.

A pixel's elements that are not the zero point are listed, and their depths behind them. Weights of a block's outputs at one
depth are neighbours. See skip.py for cores with Arm's DSP extension.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from fuse2c.kernels import skip, tiling

TRIP = 4        # listed elements of one trip of the inner loop: zeros behind the last one fill it


def parts(w: np.ndarray, bias: np.ndarray, zero: int | None, size: int, pixels: int, stride: int) -> dict[str, Any]:
    """What a spec has of this core; w: [outputs, depth], bias with the zero point in it; None: floats.

    size: outputs of a block; pixels: of an image; stride: distance of neighbouring channels of the result.
    """
    outputs, depth = w.shape
    blocks, room = tiling.blocks(outputs, size), depth + TRIP - 1
    own = bias if zero is None else skip.own_bias(w, bias, zero).astype(np.int32)
    begun = pixels * sum((b.end - b.first) // b.size for b in blocks)
    most = {"load": (skip.LOOK + skip.LIST) * pixels * depth, "tile": begun, "multiply": begun * (depth + -depth % TRIP),
            "unpack": 0}
    return {
        "effort": most, "most": most, "tables": {"w": tiling.pack(w, size), "b": own}, "scratch": 8 * room,
        "flags": {"core": "parts/skip.c.j2", "tile": {"of_1": tiling.lanes(1, blocks, "{oc}", stride)}, "depth": depth,
                  "centre": f" - ({zero})" if zero else "", "none": "0.0f" if zero is None else "0",
                  "room": room, "trip": TRIP, "most": -(-depth // TRIP), "padding": range(TRIP - 1),
                  "scratch_ctype": "float" if zero is None else "int32_t"}}
