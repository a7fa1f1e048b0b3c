"""What an analysis found, as text for people and as flow facts for other analysers."""
from __future__ import annotations

from collections.abc import Callable

from fuse2c.wcet.analysis import Result

SHOWN = 8       # places of each kind in the summary


def summary(result: Result) -> list[str]:
    """Lines for the terminal."""
    cycles = "-" if result.cycles is None else f"{result.cycles:,}"
    lines = [f"{result.entry} in {result.elf}, {result.core}",
             f"  instructions : at most {result.instructions:,}" + (", exactly that" if result.single_path else ""),
             f"  as a program : {result.ipet:,} (integer program, {result.ipet / result.instructions - 1:+.2%})",
             f"  cycles       : {cycles}  {result.cycles_status}",
             *([] if result.cycles_model is None else [f"  model        : about {result.cycles_model:,} cycles, by what an "
                                                       f"instruction takes typically on a {result.core}: no bound"]),
             f"  stack        : {result.stack:,} bytes",
             f"  single path  : {'yes' if result.single_path else 'no'}"]
    for title, places in (("decided by data", result.branches), ("variable time", result.variable)):
        lines += [f"  {title:13}: {place}" for place in places[:SHOWN]]
        lines += [f"  {'':13}  and {len(places) - SHOWN} more, see --json"] if len(places) > SHOWN else []
    width = max((len(k.name) for k in result.kernels), default=0)
    lines += ["  of one call  :"] if result.kernels else []
    lines += [f"    {k.name:{width}} {k.instructions:>14,}" + ("" if k.cycles is None else f" {k.cycles:>14,} cycles")
              for k in result.kernels]
    if result.steps:
        costs = [s.instructions for s in result.steps]
        lines += [f"  steps        : {len(costs)}, at most {max(costs):,} instructions",
                  f"  together     : {sum(costs):,} ({sum(costs) / result.instructions - 1:+.3%} over {result.entry})"]
    return [*lines, "  assumed      :", *(f"    - {text}" for text in result.assumptions)]


def ais(result: Result) -> str:
    """Loop bounds as aiT's annotations (AIS2)."""
    lines = [f'loop "{x.function}" + {x.offset:#x} bytes {{ bound: 0..{x.maximum}; }} # at {x.address:#x}'
             for x in result.loops]
    return "\n".join([f"# {result.elf}, sha256 {result.sha256}, from {result.entry}", *lines, ""])


def ffx(result: Result) -> str:
    """Loop bounds as OTAWA's XML."""
    lines = [f'  <loop label="{x.function}" offset="{x.offset:#x}" maxcount="{x.maximum}" totalcount="{x.total}"/>'
             for x in result.loops]
    return "\n".join([f"<!-- {result.elf}, sha256 {result.sha256}, from {result.entry} -->", "<flowfacts>", *lines,
                      "</flowfacts>", ""])


def f4(result: Result) -> str:
    """Loop bounds as OTAWA's text."""
    lines = [f'loop "{x.function}" + {x.offset:#x} max {x.maximum} total {x.total}; // {x.address:#x}'
             for x in result.loops]
    return "\n".join([f"// {result.elf}, sha256 {result.sha256}, from {result.entry}", *lines, ""])


FORMATS: dict[str, Callable[[Result], str]] = {".ais": ais, ".ffx": ffx, ".ff": f4}
"""Writers of flow facts, by the suffix of the file."""

