"""Basic blocks as compiled Python functions on abstract states."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from fuse2c.wcet import values
from fuse2c.wcet.cfg import Block, Function
from fuse2c.wcet.cycles import Costs
from fuse2c.wcet.decode import Instruction
from fuse2c.wcet.memory import Memory
from fuse2c.wcet.parts import FLAGS, Part
from fuse2c.wcet.regions import joins
from fuse2c.wcet.slicing import parts_of

Run = Callable[[list, Any, Memory], Any]
"""Registers and memory are changed in place; the flags are passed and returned."""


class Edge(NamedTuple):
    """A transfer into a loop, or to its header: the headers of the loops `entered`, and whether it is a header's `turn`.
    `aside`: a loop is entered beside its header."""

    entered: tuple[int, ...]
    turn: bool
    aside: bool


@dataclass(slots=True)
class Step:
    """A basic block ready to run. `run`: all but a conditional transfer's own effect, which is `transfer`.
    `edges`: of the successors, those that turn or enter a loop. `leaves`: headers of loops that one of the successors is
    outside of. `chosen`: whether it is one of several ways to go on, and no loop's header, whose turns count."""

    block: Block
    run: Run
    transfer: Run | None
    instructions: int
    cycles: int
    taken_cycles: int
    edges: dict[int, Edge]
    leaves: tuple[int, ...]
    chosen: bool
    kept: list[tuple[Instruction, Part]]
    unknown: frozenset[int]
    summary: Any = False


class Code:
    """One function: its graph and its compiled blocks. `compiled`: what other codes have compiled, by source;
    `arguments`: the registers that may come with pointers into the stack; `live`: what matters before each block."""

    def __init__(self, function: Function, demanded: Collection[int], arguments: frozenset[int], root: bool, costs: Costs,
                 deepest: Callable[[int], None], compiled: dict[str, Run]) -> None:
        self.function, self.arguments = function, arguments
        self._compiled = compiled
        parts, stay, self.live = parts_of(function, demanded, arguments, root)
        self._names = {name: getattr(values, name) for name in (
            "M", "signed", "extend", "half", "shift", "shifted_out", "divide", "divide_signed", "reverse_bits", "saturate",
            "nzcv", "holds", "add_carry", "logged")} | {"deepest": deepest}
        self._parts, self._stay, self._costs = parts, stay, costs
        self._steps: dict[int, Step] = {}
        self._joins: dict[int, int] | None = None

    def step(self, start: int) -> Step:
        """The block that starts at an address, compiled when it is first run."""
        if start not in self._steps:
            self._steps[start] = self._step(self.function.blocks[start])
        return self._steps[start]

    def reached(self) -> list[Block]:
        """The blocks that were run."""
        return [step.block for step in self._steps.values()]

    def join(self, start: int) -> int | None:
        """Where the ways of a branch meet again, if they are short."""
        if self._joins is None:
            self._joins = joins(self.function)
        return self._joins.get(start)

    def _step(self, block: Block) -> Step:
        function, parts, stay, costs = self.function, self._parts, self._stay, self._costs
        split = block.conditional
        body = block.instructions[:-1] if split else block.instructions
        marked = [(i, p, (i.address, k) in stay) for i in body for k, p in enumerate(parts[i.address])]
        lines = _source(marked)
        kept = [(i, p) for i, p, stays in marked if stays]
        transfer = _lines(parts[block.last.address]) if split else None
        edges = {to: edge for to in block.successors if (edge := edge_of(function, block.start, to))}
        leaves = tuple(h for h in function.nest[block.start]
                       if block.conditional or any(to not in function.loops[h] for to in block.successors))
        cycles, taken = costs.of(block.instructions)
        chosen = block.start in function.ways and block.start not in function.loops
        return Step(block, self._compile(lines), None if transfer is None else self._compile(transfer),
                    len(block.instructions), cycles, taken, edges, leaves, chosen, kept,
                    frozenset(r for _, p, stays in marked if not stays for r in p.writes))

    def _compile(self, lines: list[str]) -> Run:
        if not lines:
            return _nothing
        source = "def run(R, F, m):\n" + "".join(f" {line}\n" for line in lines) + " return F\n"
        if source not in self._compiled:
            space: dict[str, Any] = dict(self._names)
            exec(compile(source, "<block>", "exec"), space)     # source from `parts`, no text of the program in it
            self._compiled[source] = space["run"]
        return self._compiled[source]


def edge_of(function: Function, start: int | None, to: int) -> Edge | None:
    """The edge from a block, or from outside the function (None), to another; None if no loop is concerned."""
    entered = tuple(h for h in function.nest[to] if start not in function.loops[h])
    turn = to in function.loops
    aside = any(h != to for h in entered if h in function.irreducible)
    return Edge(entered, turn, aside) if entered or turn else None


def _nothing(registers: list, flags: Any, memory: Memory) -> Any:
    return flags


def _lines(parts: list[Part]) -> list[str]:
    return [line for p in parts for line in p.lines]


def _source(marked: list[tuple[Instruction, Part, bool]]) -> list[str]:
    """The lines of a block from its parts, each with whether it stays; what the others write becomes unknown."""
    out: list[str] = []
    unknown: set[int] = set()
    for i, group in itertools.groupby(marked, key=lambda item: item[0]):
        listed = [(p, stays) for _, p, stays in group]
        parts = [p for p, stays in listed if stays]
        reads, writes = {r for p in parts for r in p.reads}, {r for p in parts for r in p.writes}
        out += _forget(unknown & reads)
        if parts:
            out += _guarded(i.cond, parts) if i.cond else _lines(parts)
        unknown -= reads | (set() if i.cond else writes)
        unknown |= {r for p, stays in listed if not stays for r in p.writes - writes}
    return out + _forget(unknown)


def _forget(registers: set[int]) -> list[str]:
    return ["F = None" if r == FLAGS else f"R[{r}] = None" for r in sorted(registers)]


def _guarded(condition: str, parts: list[Part]) -> list[str]:
    """Parts of an instruction that runs under a condition: both outcomes are joined where it is not known."""
    lines = [f" {line}" for line in _lines(parts)]
    writes = sorted({r for p in parts for r in p.writes} - {FLAGS})
    before = "".join(f"R[{r}], " for r in writes)
    joined = [f" R[{r}] = m.either(R[{r}], O[{k}])" for k, r in enumerate(writes)]
    return [f"C = holds({condition!r}, F)", "if C is None:", f" O, P, m.weak = ({before}), F, True", *lines,
            " m.weak = False", *joined, " F = F if F == P else None", "elif C:", *lines]
