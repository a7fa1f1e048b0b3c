"""Dense and pointwise layers whose weights were pruned: offered, not selected; passes/blocks.py takes them where they pay."""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fuse2c.ir.types import COMPUTE, CTYPE
from fuse2c.kernels import blocks, dsp, mve, mve_blocks, tiling
from fuse2c.kernels.conv import adjacent, base_spec, is_pointwise, is_tiled, matrix, requant
from fuse2c.kernels.dense import dense, dense_when, pixels
from fuse2c.op import Call, Kernel, Spec

MOST = 0.6              # share of weights that are not zero, from which on no units are looked for
NONE = frozenset[str]()
LEAST = 4               # elements of a pixel


def when(c: Call, simd: bool) -> str:
    """A dense or a pointwise layer with constant weights of which many are zero; simd: integers that fit into bytes."""
    if why := dense_when(c) if c.node.op == "MatMul" else is_tiled(c) or is_pointwise(c):
        return why
    w = _weights(c)[0]
    if simd and (why := dsp.why_not(w if c.quantised else None)):
        return why
    return _is_pruned(w)


def mve_when(c: Call) -> str:
    """A dense layer or a convolution of int8, of one group."""
    if why := dense_when(c) if c.node.op == "MatMul" else is_tiled(c) or ("grouped" if c.attrs.group > 1 else ""):
        return why
    w = _weights(c)[0]
    if why := mve.why_not(c.type(0), w if c.quantised else None):
        return why
    return _is_pruned(w) if w.shape[1] <= mve_blocks.DEEPEST else f"windows of more than {mve_blocks.DEEPEST} elements"


def _is_pruned(w: np.ndarray) -> str:
    """Why weights [outputs, depth] are not looked at; empty if they are."""
    if w.shape[1] < LEAST:
        return f"pixels of fewer than {LEAST} elements"
    share = np.count_nonzero(w) / w.size
    return "" if share <= MOST else f"{share:.0%} of the weights are not zero"


def _weights(c: Call) -> tuple[np.ndarray, np.ndarray]:
    """(weights [outputs, depth], bias with the zero point in it)."""
    return dense(c)[:2] if c.node.op == "MatMul" else matrix(c)


def spec(c: Call, simd: bool) -> Spec:
    """Pixels in place, two at a time where sums have room for it."""
    w, bias = _weights(c)
    if c.node.op == "MatMul":
        count = c.type(0).count // w.shape[1]
        names, start = pixels(count, *w.shape[::-1]), Spec(by_rows=True, flags={"rowwise": True})
        r = tiling.requant(c, c.quant(1), w, c.constant(2)) if c.quantised else None
    else:
        start = base_spec(c, 0, {}, {"GROUP_OUT": w.shape[0], "DEPTH": w.shape[1]})
        names, r = dict(start.constants), requant(c, w, c.constant(2)) if c.quantised else None
    two = simd or not c.quantised
    runs = dsp.runs(names["OUT_W"], blocks.PIXELS if two else 1)
    stride = names["Y_SC"]
    if simd:
        assert r is not None
        parts: dict[str, Any] = blocks.dsp_parts(c.type(0), w, bias, runs, names["OUT_H"], stride, dsp.finish(c, r))
    else:
        parts = blocks.plain_parts(w, bias, runs, names["OUT_H"], stride, COMPUTE[c.y[0].dtype])
        parts["finish"] = None if r is None else tiling.finish(r)
    flags = {**start.flags, **parts.pop("flags"), "stream": simd, "places": {r.key: _places(r.size, names, c) for r in runs}}
    held = parts.pop("held")
    return replace(start, **parts, constants={**names, "HELD": held}, flags=flags, macs=held * c.y[0].count // w.shape[0])


def mve_spec(c: Call) -> Spec:
    """What is under a window is gathered, of a dense layer its row."""
    w, bias = _weights(c)
    depth = w.shape[1]
    if c.node.op == "MatMul":
        rows = c.type(0).count // depth
        names = pixels(rows, *w.shape[::-1]) | {"K_H": 1, "K_W": 1, "DIL_H": 1, "DIL_W": 1, "PAD_TOP": 0, "PAD_LEFT": 0,
                                                "IN_H": 1, "IN_W": rows, "IN_C": depth, "X_SC": 1, "SPAN": depth}
        start, along = Spec(by_rows=True, finish=dense(c)[2], flags={"rowwise": True}), True
    else:
        start = base_spec(c, 0, {}, {})
        names = {**start.constants, "SPAN": depth // start.constants["K_H"]}
        along = adjacent(c, names)
    parts = mve_blocks.parts(w, bias, names["OUT_W"], names["OUT_H"], names["K_H"], (names["Y_SC"], names["Y_SW"]))
    held, own = parts.pop("held"), {"FILL": c.quant(0).zero[0]} | parts.pop("constants")
    return replace(start, **parts | {"flags": {**start.flags, **parts["flags"], "adjacent": along}},
                   constants=names | own | {"HELD": held}, macs=held * c.y[0].count // w.shape[0])


def _places(size: int, names: dict[str, int], c: Call) -> tuple[str, ...]:
    """C declarations of where a tile's further pixels are, and their results."""
    found = []
    for p in range(1, size):
        found += [f"const {CTYPE[c.type(0).dtype]} *const p{p} = &p0[{p * names['STRIDE_W'] * names['X_SW']}];",
                  f"const int32_t at{p} = at0 + {p * names['Y_SW']};"]
    return tuple(found)


def kernels(strided: bool) -> tuple[Kernel, ...]:
    """The kernels of an operator; strided: its operands may be parts of larger tensors."""
    def is_float(c: Call) -> str:
        return when(c, False) if not c.quantised else "integers"

    def is_integer(c: Call) -> str:
        return when(c, False) if c.quantised else "floats"
    kinds = (("blocks_dsp", partial(when, simd=True), True, dsp.NEEDS), ("blocks_fp", is_float, False, NONE),
             ("blocks", is_integer, False, NONE))
    vectors = Kernel("blocks_mve", mve_spec, when=mve_when, needs=mve.NEEDS, offer="blocks", strided=strided)
    return vectors, *(Kernel(name, partial(spec, simd=simd), when=applies, needs=needs, offer="blocks", strided=strided)
                      for name, applies, simd, needs in kinds)
