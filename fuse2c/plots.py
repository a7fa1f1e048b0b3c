"""Pictures for reports, by matplotlib, as SVG text that takes its colours from the page. The only file that imports it."""
from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fuse2c.errors import ToolMissing

INK, FAINT = "#010203", "#040506"       # become the page's text colour, and a faint one
# By role: fused, unfused, and kinds of buffers; readable on white and on black.
COLOURS = {"fused": "#2f81f7", "unfused": "#d29922", "tensor": "#4c8dd6", "ring": "#3fa66a", "scratch": "#d18c3c",
           "state": "#9a7fd1", "chosen": "#e5534b"}
LAYER = 0.46        # inches, of a graph
WIDTH = 5.2         # inches: on a phone the text keeps its size


def _missing(error: ImportError) -> ToolMissing:
    return ToolMissing(f"reports with pictures need {error.name}", hint="pip install 'fuse2c[report]', or use --json")


def _figure(height: float) -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise _missing(error) from None
    # Text stays text, and the same plan gives the same bytes.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fuse2c", "font.size": 9, "axes.edgecolor": INK,
                                "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                                "legend.frameon": False, "font.family": "sans-serif"})
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_facecolor("none")
    figure.patch.set_alpha(0)
    return figure, axes


def _svg(figure: Any, label: str) -> str:
    """The picture's text, without a head that dates it; it grows and shrinks with the page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{label}">', text, count=1,
                  flags=re.S)
    text = text.replace(' target="_blank"', "")     # links lead to places on the page
    return text.replace(INK, "currentColor").replace(FAINT, "var(--faint)")


def roofline(roof: Mapping[str, Any], points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """One memory: its sloping roof, the flat ones, and (operations a byte, operations a second) by role."""
    figure, axes = _figure(3.4)
    every = [p for found in points.values() for p in found]
    low, high = min((x for x, _ in every), default=0.1) / 2, max((x for x, _ in every), default=100.0) * 2
    bandwidth, flat = roof["bytes_per_s"], roof["int8"]
    low, high = min(low, flat / bandwidth / 4), max(high, flat / bandwidth * 4)
    for key, style in (("int8", "-"), ("float32", "--")):
        ridge = min(max(roof[key] / bandwidth, low), high)
        axes.plot([low, ridge, high], [low * bandwidth, roof[key], roof[key]], style, color=INK, linewidth=1.2)
        axes.annotate(f"{key}: {roof[key] / 1e9:.3g} G/s", (high, roof[key]), ha="right", va="bottom", fontsize=8)
    for role, marker, colour, size in (("unfused", "x", "unfused", 5), ("a step", ".", "fused", 4), ("fused", "o", "fused", 7)):
        found = points.get(role, ())
        if found:
            axes.plot([x for x, _ in found], [y for _, y in found], marker, color=COLOURS[colour], label=role, markersize=size,
                      alpha=0.8, fillstyle="none" if marker == "o" else "full")
    axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel=f"operations a byte of {roof['memory']}",
             ylabel="operations a second", title=f"{roof['memory']}: {bandwidth / 1e9:.3g} GB/s")
    axes.grid(True, which="major", color=FAINT, linewidth=0.5)
    if every:
        axes.legend(loc="lower right")
    return _svg(figure, f"roofline of {roof['memory']}")


def memory_map(memory: Mapping[str, Any]) -> str:
    """Time across, addresses up, a box for each buffer from its first to its last use."""
    figure, axes = _figure(3.6)
    end = max((b["last"] for b in memory["boxes"]), default=0) + 1
    shown: set[str] = set()
    written: set[tuple[int, int]] = set()
    for b in memory["boxes"]:
        label = b["kind"] if b["kind"] not in shown else None
        shown.add(b["kind"])
        axes.broken_barh([(b["first"], b["last"] + 1 - b["first"])], (b["offset"], b["bytes"]), facecolor=COLOURS[b["kind"]],
                         edgecolor=INK, linewidth=0.5, alpha=0.75, label=label)
        wide, high = 0.02 * len(b["label"]) * end, 0.04 * max(memory["bytes"], 1)
        # Buffers of steps that take turns share addresses: of labels in one place only the first.
        place = (round((b["first"] + b["last"] + 1) / 2 / max(wide, 1)), round((b["offset"] + b["bytes"] / 2) / high))
        if b["last"] + 1 - b["first"] > wide and b["bytes"] > high and place not in written:
            written.add(place)
            axes.text((b["first"] + b["last"] + 1) / 2, b["offset"] + b["bytes"] / 2, b["label"], ha="center", va="center",
                      fontsize=7, parse_math=False)
    axes.set(xlim=(0, end), ylim=(0, max(memory["bytes"], 1) * 1.02), xlabel="time, in rows computed", ylabel="address, bytes")
    if memory["bound"]:
        axes.axhline(memory["bound"], color=COLOURS["chosen"], linewidth=1, linestyle=":", label="lower bound")
    if memory["boxes"]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
    return _svg(figure, "memory map")


@dataclass(frozen=True, slots=True)
class Box:
    """A node of a graph: its text in two lines, its share of the whole, the place on the page that it leads to."""

    title: str
    note: str = ""
    share: float = 0.0
    link: str = ""
    end: bool = False       # an input or output of the model


def graph(boxes: Mapping[str, Box], edges: Sequence[tuple[str, str]], label: str) -> str:
    """Boxes from above to below, each behind all that it needs; arrows that pass a box by go around it."""
    try:
        import networkx
    except ImportError as error:
        raise _missing(error) from None
    g = networkx.DiGraph()
    g.add_nodes_from(boxes)
    g.add_edges_from(edges)
    layers = list(networkx.topological_generations(g))
    for depth, layer in enumerate(layers):
        for name in layer:
            g.nodes[name]["depth"] = depth
    at = networkx.multipartite_layout(g, subset_key="depth", align="horizontal")
    widest = max(map(len, layers), default=1)
    figure, axes = _figure(LAYER * max(len(layers), 2))
    axes.set_axis_off()
    axes.set(xlim=(-0.5, widest - 0.5), ylim=(len(layers) - 0.5, -0.5))
    place = {n: ((widest - 1) / 2 + (sorted(layer, key=lambda m: at[m][0]).index(n) - (len(layer) - 1) / 2), depth)
             for depth, layer in enumerate(layers) for n in layer}
    for i, (a, b) in enumerate(edges):
        far = g.nodes[b]["depth"] - g.nodes[a]["depth"] > 1
        around = (0.35 if i % 2 else -0.35) if far and place[a][0] == place[b][0] else 0
        axes.annotate("", place[b], place[a], arrowprops={
            "arrowstyle": "-|>", "color": INK, "linewidth": 0.7, "alpha": 0.7, "shrinkA": 13, "shrinkB": 13,
            "connectionstyle": f"arc3,rad={around}"})
    size = 7.5 if widest < 3 else 6.5 if widest < 5 else 5
    for name, box in boxes.items():
        style = {"boxstyle": "round,pad=0.35,rounding_size=0.8" if box.end else "round,pad=0.35", "edgecolor": INK,
                 "linewidth": 0.6, "facecolor": "none" if box.end else (*_rgb(COLOURS["fused"]), 0.12 + 0.6 * box.share)}
        text = axes.text(*place[name], box.title + (f"\n{box.note}" if box.note else ""), ha="center", va="center",
                         fontsize=size, bbox=style, parse_math=False)
        for part in (text, text.get_bbox_patch()):
            part.set_url(box.link or None)
    return _svg(figure, label)


def _rgb(colour: str) -> tuple[float, float, float]:
    """Of "#rrggbb", each from 0 to 1."""
    red, green, blue = (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def pareto(points: Sequence[tuple[float, float, str, bool]], across: str, up: str) -> str:
    """(x, y, name, chosen) of alternatives; what is better lies towards the lower left corner."""
    figure, axes = _figure(3.2)
    axes.plot([x for x, *_ in points], [y for _, y, *_ in points], "o" if len({n for *_, n, _ in points} - {""}) else "o-",
              color=COLOURS["fused"], markersize=5, linewidth=1)
    for x, y, name, chosen in points:
        if chosen:
            axes.plot([x], [y], "o", color=COLOURS["chosen"], markersize=9, fillstyle="none", markeredgewidth=2)
        if name:
            axes.annotate(name, (x, y), fontsize=7, xytext=(4, 4), textcoords="offset points", parse_math=False)
    axes.set(xlabel=across, ylabel=up)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(True, color=FAINT, linewidth=0.5)
    return _svg(figure, f"{up} against {across}")


def standalone(svg: str) -> str:
    """A picture as a file of its own: black on white where there is no page to take colours from."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
                       'style="background: white; color: black; --faint: #d8dee4" ', 1)
