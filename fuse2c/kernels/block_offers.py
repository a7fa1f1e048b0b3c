"""Dense layers and convolutions whose weights were pruned: offered, not selected; passes/trade.py takes them where they pay."""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fuse2c.ir.types import COMPUTE, CTYPE, DType
from fuse2c.kernels import blocks, dsp, fields, mve, mve_blocks, reals, reals_blocks, tiling, vector, vector_blocks
from fuse2c.kernels.conv import adjacent, base_spec, is_pointwise, is_tiled, matrix, requant
from fuse2c.kernels.dense import dense, dense_when, pixels
from fuse2c.op import Call, Kernel, Spec

MOST = 0.6              # share of weights that are not zero, from which on no units are looked for
LEAST = 4               # elements of a pixel
LINE = 3                # bytes, or words of them, that can be gathered while a pixel is begun
DSP, REALS, PLAIN, SMALL = "dsp", "reals", "plain", "small"     # Arm's DSP extension, Helium's floats, C, C of few registers
MOST_OUTPUTS = {PLAIN: 8, SMALL: 4}     # of a group
# name, core, whether of integers, what it needs
CORES = (("blocks_dsp", DSP, True, dsp.NEEDS), ("blocks_fp", REALS, False, reals.NEEDS),
         ("blocks_fp", PLAIN, False, frozenset[str]()),
         *(("blocks", SMALL if "mul" in core.needs else PLAIN, True, core.needs) for core in fields.CORES))


def when(c: Call, core: str) -> str:
    """A dense layer or a convolution of one group, with constant weights of which many are zero; DSP: that fit into bytes."""
    if why := _is_one_group(c):
        return why
    if core == REALS and c.type(0).dtype != DType.F32:
        return "not float32"
    w = _weights(c)[0]
    if core == DSP and (why := dsp.why_not(w if c.quantised else None)):
        return why
    return _is_pruned(w)


def _is_one_group(c: Call) -> str:
    """Why a layer is no dense one, and no convolution of one group; empty if it is."""
    return dense_when(c) if c.node.op == "MatMul" else is_tiled(c) or ("grouped" if c.attrs.group > 1 else "")


def mve_when(c: Call) -> str:
    """A dense layer or a convolution of int8, of one group."""
    if why := _is_one_group(c):
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


def spec(c: Call, core: str) -> Spec:
    """Pixels in place, or what is under a tile's windows gathered; up to three pixels at a time."""
    w, bias = _weights(c)
    gathered = core_is_windowed(c)
    if c.node.op == "MatMul":
        count = c.type(0).count // w.shape[1]
        names, start = pixels(count, *w.shape[::-1]), Spec(by_rows=True, flags={"rowwise": True})
        r = tiling.requant(c, c.quant(1), w, c.constant(2)) if c.quantised else None
    else:
        start = base_spec(c, 0, {}, {"GROUP_OUT": w.shape[0], "DEPTH": w.shape[1]})
        names, r = dict(start.constants), requant(c, w, c.constant(2)) if c.quantised else None
    w = _spread(w, names) if gathered else w
    runs = reals.runs(names["OUT_W"]) if core == REALS else \
        dsp.runs(names["OUT_W"], blocks.PIXELS if core == DSP or not c.quantised else 1)
    rows, y = names["OUT_H"], (names["Y_SC"], names["Y_SW"])
    if core == DSP:
        assert r is not None
        parts: dict[str, Any] = blocks.dsp_parts(c.type(0), w, bias, runs, rows, y[0], dsp.finish(c, r))
    elif core == REALS:
        parts = reals_blocks.parts(w, bias, runs, rows, y)
    else:
        parts = blocks.plain_parts(w, bias, runs, rows, y[0], COMPUTE[c.y[0].dtype], MOST_OUTPUTS[core])
        parts["finish"] = None if r is None else tiling.finish(r)
    held, pitch = parts.pop("held"), names["STRIDE_W"] * names["X_SW"]
    own, more = {"HELD": held}, dict[str, Any]()
    if gathered:
        column, pitch = names["K_H"] * names["IN_C"], names["STRIDE_W"] * names["K_H"] * names["IN_C"]
        widths = {r.key: (r.size - 1) * names["STRIDE_W"] + (names["K_W"] - 1) * names["DIL_W"] + 1 for r in runs}
        # M0+ loads no word that is not aligned
        words = core != SMALL and c.type(0).dtype.bytes == 1 and names["X_SC"] == 1 and names["IN_C"] % 4 == 0
        tiles = {r.key: rows * (r.end - r.first) // r.size for r in runs}
        lines = names["K_H"] * sum(n * widths[key] for key, n in tiles.items())
        moved = lines * (LINE * (c.type(0).dtype.bytes == 1) + names["IN_C"] // (4 if words else 1))
        more = {"scratch": max(widths.values()) * column * c.type(0).dtype.bytes, "effort": {**parts["effort"], "load": moved}}
        own["FILL"] = c.quant(0).zero[0] if c.quantised else 0
        start = replace(start, flags={**start.flags, "widths": widths, "words": words})
    places = {run.key: _places(run.size, pitch, names, c, core != REALS) for run in runs}
    flags = {**start.flags, **parts.pop("flags"), "stream": core == DSP, "places": places}
    return replace(start, **parts | more, constants={**names, **own}, flags=flags, macs=held * c.y[0].count // len(w))


def core_is_windowed(c: Call) -> bool:
    """Whether what a pixel of the result reads is not one pixel with adjacent channels."""
    return c.node.op == "Conv" and bool(is_pointwise(c))


def _spread(w: np.ndarray, names: dict[str, int]) -> np.ndarray:
    """[outputs, rows * columns * channels] in the order in which windows are gathered: columns, of them rows; zeros between
    columns that are dilated."""
    taps = w.reshape(len(w), names["K_H"], names["K_W"], -1)
    found = np.zeros((len(w), (names["K_W"] - 1) * names["DIL_W"] + 1, names["K_H"], taps.shape[3]), w.dtype)
    found[:, ::names["DIL_W"]] = taps.transpose(0, 2, 1, 3)
    return found.reshape(len(w), -1)


def vector_when(c: Call) -> str:
    """A dense layer or a pointwise convolution of float32, or of integers in whole fours whose weights fit into bytes."""
    if why := dense_when(c) if c.node.op == "MatMul" else is_tiled(c) or is_pointwise(c):
        return why
    x, (w, _) = c.type(0), _weights(c)
    if not c.quantised and x.dtype != DType.F32:
        return "not float32"
    if c.quantised and (dsp.why_not(w) or w.shape[1] % vector.OF[x.dtype].unit):
        return dsp.why_not(w) or "pixels that are not in whole fours"
    return _is_pruned(w)


def vector_spec(c: Call) -> Spec:
    """Pixels in place."""
    (w, bias), depth = _weights(c), c.type(0).shape[-1]
    if c.node.op == "MatMul":
        names, finish = pixels(c.type(0).count // depth, *w.shape[::-1]), dense(c)[2]
        start = Spec(by_rows=True, finish=finish, flags={"rowwise": True})
    else:
        start = base_spec(c, 0, {}, {"GROUP_OUT": w.shape[0], "DEPTH": w.shape[1]})
        names = dict(start.constants)
    parts = vector_blocks.parts(w, bias, c.type(0).dtype, names["OUT_W"], names["OUT_H"], names["Y_SC"])
    held, own = parts.pop("held"), parts.pop("constants")
    return replace(start, **parts | {"flags": {**start.flags, **parts["flags"]}}, constants=names | own | {"HELD": held},
                   macs=held * c.y[0].count // len(w))


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


def _places(size: int, pitch: int, names: dict[str, int], c: Call, results: bool) -> tuple[str, ...]:
    """C declarations of where a tile's further pixels are, and their results."""
    found = []
    for p in range(1, size):
        found.append(f"const {CTYPE[c.type(0).dtype]} *const p{p} = &p0[{p * pitch}];")
        if results:
            found.append(f"const int32_t at{p} = at0 + {p * names['Y_SW']};")
    return tuple(found)


def kernels(strided: bool) -> tuple[Kernel, ...]:
    """The kernels of an operator; strided: its operands may be parts of larger tensors."""
    def applies(c: Call, core: str, windows: bool, integers: bool) -> str:
        if c.quantised != integers:
            return "integers" if c.quantised else "floats"
        if c.node.op == "Conv" and core_is_windowed(c) != windows:
            return "windows of several pixels" if not windows else "pixels are read in place"
        return when(c, core)
    kinds = [(f"{prefix}{name}", windows, core, integers, needs) for prefix, windows in (("", False), ("conv_", True))
             for name, core, integers, needs in CORES if strided or not windows]
    vectors = (Kernel("blocks_mve", mve_spec, when=mve_when, needs=mve.NEEDS, offer="blocks", strided=strided),
               Kernel("blocks_vec", vector_spec, when=vector_when, needs=vector.NEEDS, offer="blocks", strided=strided))
    return *vectors, *(Kernel(name, partial(spec, core=core), needs=needs, offer="blocks", strided=strided,
                             when=partial(applies, core=core, windows=windows, integers=integers))
                      for name, windows, core, integers, needs in kinds)
