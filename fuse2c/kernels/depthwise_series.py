"""Depthwise layers along a series: what a tile of its elements reads is a row of all channels, in place or gathered."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.kernels import dsp, dsp_depthwise, dsp_series, dsp_widen, tiling, windowing
from fuse2c.kernels.conv import base_spec, is_depthwise, is_tiled, matrix, requant
from fuse2c.kernels.conv_int import WORD, copied, fills
from fuse2c.op import EFFORT, Call, Spec

MOST = 64               # taps: what a tile reads is in scratch


def why_not(c: Call) -> str:
    """Why a layer is not computed so; empty if it is."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    names = windowing.constants(c, c.attrs.window)
    if not dsp_series.is_series(names) or names["X_SC"] != 1:
        return "no series of elements whose channels are adjacent in memory"
    weights = c.constant(1)
    return "very many taps" if names["K_H"] > MOST else \
        dsp.why_not(tiling.centred(weights, c.quant(1), 0) if c.quantised and weights is not None else None)


def spec(pixels: int) -> dsp_series.Maker:
    """The spec of a kernel with tiles of at most `pixels` elements."""
    def made(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, end = c.type(0), dsp.finish(c, requant(c, flat, c.constant(2)))
        names = dsp_series.turned(windowing.constants(c, c.attrs.window))
        runs, reach, channels = dsp_series.runs(names["OUT_W"], pixels), dsp_series.reach(names, pixels), x.shape[1]
        rows = dsp_depthwise.Rows(names["K_W"], names["STRIDE_W"], False, dsp.widening(x), False, reach or names["DIL_W"])
        whole = dsp_depthwise.Form("row", several=flat.shape[0] > channels)
        forms, tiles, strips, effort = list[dsp_depthwise.Form](), dict[str, tiling.Tile](), {}, dict.fromkeys(EFFORT, 0)
        for r in runs:
            width = rows.columns(r.size)
            strips[r.key] = dsp_widen.Strip(names["K_W"] if reach else 1, reach or width, (), 0, (), 0)
            row = {**names, "OUT_W": r.size, "IN_W": width, "PAD_LEFT": 0}
            found, own = dsp_depthwise.spans(row, rows, 0, end.channel, (r.size,))
            forms.append(replace(whole, name=f"row{r.size}", spans=found))
            tiles |= own
            count = (r.end - r.first) // r.size
            for key, n in dsp_depthwise.effort(found, len(rows.pairs), 1, 1).items():
                effort[key] += count * n * names["OUT_C"]
            effort["load"] += count * width * -(-channels // WORD)
        line = strips[runs[0].key].groups * strips[runs[0].key].width
        adjacent = not reach and names["X_SW"] in (0, channels)
        constants = names | fills(x, c.quant(0).zero[0]) | {
            "PAD_LEFT": 0, "BEFORE": names["PAD_LEFT"], "X_SW": channels, "ADJACENT": int(adjacent), "IN_C": channels,
            "GROUP_C": channels, "WHOLE": channels // WORD * WORD, "GROUP_STEP": names["DIL_W"], "COLUMN_STEP": 1,
            "BLOCK": 1 + rows.words + (end.multipliers is not None), "MULT": flat.shape[0] // channels}
        tables = {"w": dsp_depthwise.pack(flat.reshape(-1, 1, names["K_W"]), rows, bias, end.multipliers)}
        flags = {"forms": tuple(forms), "tile": tiles, "strips": strips, "runs": runs, "single": end.single,
                 "streamed": end.multipliers is not None, "body": BODY, "cores": CORES}
        found_spec = base_spec(c, line * channels, tables, constants, **flags, **copied(x, channels))
        return dsp_series.by_tiles(replace(found_spec, finish=end.scalar, channel=end.channel, effort=effort), runs)
    return made


BODY, CORES = "parts/depthwise_series.c.j2", "parts/dsp_depthwise.c.j2"
