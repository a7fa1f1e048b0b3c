"""<name>_step: which part of which kernel each call of it runs."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fuse2c.codegen.schedule import Kernel, lines
from fuse2c.passes._units import units
from fuse2c.plan import Plan

NAMES = ("context", "end", "first", "next", "piece", "pieces", "starts", "step")
"""What the functions of the steps name beside the model's inputs and outputs."""

ESTIMATED = "figures estimated from rough prices: nothing is proven"


@dataclass(frozen=True, slots=True)
class Steps:
    """What the templates of <name>_step print: tables as lines of text.

    `pieces`: {kernel, first, end}, units of one kernel, at most `most_pieces` a step; `starts`: the first piece of each step,
    and the end.
    """

    count: int
    largest: int
    unit: str
    proof: str
    pieces: tuple[str, ...]
    piece_count: int
    most_pieces: int
    starts: tuple[str, ...]
    start_count: int
    bounds: tuple[str, ...]


def steps(plan: Plan, kernels: Sequence[Kernel]) -> Steps | None:
    """The steps of a plan that was cut into slices."""
    if plan.slices is None:
        return None
    first = plan.slices.first
    every = units(plan)
    begins = {k: next((i for i, u in enumerate(every) if u.launch == k), 0) for k in range(len(kernels))}
    pieces: list[tuple[int, int, int]] = []
    starts = [0]
    for a, b in pairwise((*first, len(every))):
        for k in dict.fromkeys(u.launch for u in every[a:b]):
            inside = [i - begins[k] for i in range(a, b) if every[i].launch == k]
            pieces.append((k, inside[0], inside[-1] + 1))
        starts.append(len(pieces))
    return Steps(count=len(first), largest=max(plan.slices.bounds), unit=plan.slices.unit,
                 proof=plan.slices.proof or ESTIMATED, pieces=lines([f"{{{k}, {a}, {b}}}" for k, a, b in pieces], 8),
                 piece_count=len(pieces), most_pieces=max(b - a for a, b in pairwise(starts)),
                 starts=lines(list(map(str, starts))), start_count=len(starts),
                 bounds=lines(list(map(str, plan.slices.bounds)), 12))
