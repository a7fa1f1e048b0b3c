"""Implicit path enumeration: the longest path as a linear program, from the loop bounds that the engine found.

One flow through all functions: what enters a block leaves it, a function is entered as often as it is called, a loop
turns at most its bound for each entry and at most its total in the run, and a way of a branch is taken at most as often
as any run takes it. Edges that no run takes are left out. It forgets in which order things happen, so it is an upper
bound of the engine's result, found in another way.
"""
from __future__ import annotations

import math

import highspy

from fuse2c.errors import InternalError
from fuse2c.passes._exact import silent
from fuse2c.wcet.engine import Engine
from fuse2c.wcet.machine import RETURN

Node = tuple[int, int]
"""A block of a function: the function's entry and the block's start; RETURN as a block is the function's end."""


def longest(engine: Engine, entry: int) -> int:
    """The most instructions of any path from the entry to its return."""
    edges = _edges(engine, entry)
    with silent():
        model = highspy.Highs()
        model.setOptionValue("output_flag", False)
        model.setOptionValue("threads", 1)      # all of a process must agree, see passes/_exact.py
    into: dict[Node, list[int]] = {}
    out: dict[Node, list[int]] = {}
    for index, (a, b, is_call) in enumerate(edges):
        cost = _instructions(engine, b)
        model.addCol(float(cost), 0.0, 1.0 if a is None else highspy.kHighsInf, 0, [], [])
        into.setdefault(b, []).append(index)
        if a is not None and not is_call:
            out.setdefault(a, []).append(index)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    model.addRow(1.0, 1.0, 1, [0], [1.0])
    for node in into:
        if node[1] != RETURN:
            _row(model, 0.0, into[node], out.get(node, []))
    _calls(model, edges, into)
    _loops(model, engine, edges, into)
    _ways(model, engine, into)
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise InternalError(f"the path's linear program ended as {model.getModelStatus()}")
    value = model.getInfo().objective_function_value
    return math.floor(value + 1e-6 * max(1.0, value * 1e-6))


def _edges(engine: Engine, entry: int) -> list[tuple[Node | None, Node, bool]]:
    """Transfers that occur, as (from, to, whether it is a call); the first is the start."""
    edges: list[tuple[Node | None, Node, bool]] = [(None, (entry, entry), False)]
    for start, code in engine.codes.items():
        for block in code.function.blocks:
            node = (start, block)
            edges += [(node, (start, to), False) for to in sorted(engine.facts.edges.get(block, ()))
                      if to == RETURN or to in code.function.blocks]
            called = sorted(engine.facts.calls.get(block, ()))
            edges += [(node, (to, to), True) for to in called]
            if code.function.blocks[block].ends in ("tail", "indirect") and called:
                edges.append((node, (start, RETURN), False))
    return edges


def _instructions(engine: Engine, node: Node) -> int:
    entry, block = node
    return 0 if block == RETURN else len(engine.codes[entry].function.blocks[block].instructions)


def _row(model: highspy.Highs, upper: float, plus: list[int], minus: list[int]) -> None:
    """sum(plus) - sum(minus) = upper."""
    both = dict.fromkeys(plus, 1.0)
    for index in minus:
        both[index] = both.get(index, 0.0) - 1.0
    model.addRow(upper, upper, len(both), list(both), list(both.values()))


def _calls(model: highspy.Highs, edges: list[tuple[Node | None, Node, bool]], into: dict[Node, list[int]]) -> None:
    """The calls from a block happen at most as often as the block."""
    by_block: dict[Node, list[int]] = {}
    for index, (a, _, is_call) in enumerate(edges):
        if is_call and a is not None:
            by_block.setdefault(a, []).append(index)
    for node, calls in by_block.items():
        indices = [*calls, *into.get(node, [])]
        values = [1.0] * len(calls) + [-1.0] * len(into.get(node, []))
        model.addRow(-highspy.kHighsInf, 0.0, len(indices), indices, values)


def _loops(model: highspy.Highs, engine: Engine, edges: list[tuple[Node | None, Node, bool]],
           into: dict[Node, list[int]]) -> None:
    """Bounds for each entry, and totals."""
    for start, code in engine.codes.items():
        for header, body in code.function.loops.items():
            turns = into.get((start, header), [])
            if not turns:
                continue
            total = engine.facts.totals.get(header, 0)
            model.addRow(-highspy.kHighsInf, float(total), len(turns), turns, [1.0] * len(turns))
            members = {(start, b) for b in body}
            entering = [k for k, (a, b, _) in enumerate(edges) if b in members and a not in members]
            weights = dict.fromkeys(turns, 1.0)
            for k in entering:
                weights[k] = weights.get(k, 0.0) - float(engine.facts.bounds.get(header, 0))
            model.addRow(-highspy.kHighsInf, 0.0, len(weights), list(weights), list(weights.values()))


def _ways(model: highspy.Highs, engine: Engine, into: dict[Node, list[int]]) -> None:
    """How often each block runs that is one of several ways, such as those of a window over the border and within."""
    for (start, block), flows in into.items():
        if block != RETURN and engine.codes[start].step(block).chosen:
            total = float(engine.facts.totals.get(block, 0))
            model.addRow(-highspy.kHighsInf, total, len(flows), flows, [1.0] * len(flows))
