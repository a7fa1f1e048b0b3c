"""What calls, returns and loops do to an abstract state, and what is noted of them."""
from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

from fuse2c.errors import Refused
from fuse2c.wcet import arithmetic
from fuse2c.wcet.cfg import Function
from fuse2c.wcet.compiled import Code, Edge, Run, Step, edge_of
from fuse2c.wcet.cycles import Costs
from fuse2c.wcet.decode import Decoder
from fuse2c.wcet.endless import Watch
from fuse2c.wcet.given import NOTHING, Given
from fuse2c.wcet.image import Image
from fuse2c.wcet.operands import SP
from fuse2c.wcet.state import Frame, State, Summary
from fuse2c.wcet.values import TOP, Value, inside

RETURN = 0xFFFFFFFE             # where the analysed function returns to
LOOSE = 1 << 10                 # turns of a loop that data may end, where nothing else does
MOST_BLOCKS = 100_000_000
HEAP = ("malloc", "calloc", "realloc", "free", "_malloc_r", "_sbrk_r", "sbrk")


UNKNOWN_STACK = "the stack pointer is set to a value that is not known"
COMPILER_RUNTIME = ("__aeabi_", "__divsi3", "__udivsi3")      # their unrolled divisions are entered in the middle


class Again(Exception):
    """The analysis has learnt something that it has to start anew with."""


@dataclass
class Facts:
    """What a run of the engine found, by address.

    `bounds`: the most iterations of a loop in one entry; `totals`: in the whole run, and the most runs of each
    block that is one of several ways; `forks`: branches that data
    decides; `edges`: transfers between blocks that occur; `calls`: functions called from a block; `functions`: the
    largest costs of one call, as (instructions, cycles); `trusted`: functions with a loop whose bound their name tells.
    """

    bounds: dict[int, int] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    forks: Counter[int] = field(default_factory=Counter)
    edges: dict[int, set[int]] = field(default_factory=dict)
    calls: dict[int, set[int]] = field(default_factory=dict)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)
    trusted: set[str] = field(default_factory=set)
    blocks: int = 0


class Machine:
    """The functions of a program as they are reached, and the facts found so far. `pointers`: the entry's arguments point
    to objects; otherwise they may also be numbers. `given`: what the user says of loops and calls."""

    def __init__(self, image: Image, costs: Costs, pointers: bool = False, given: Given = NOTHING) -> None:
        self.image, self.costs, self.pointers, self.given = image, costs, pointers, given
        self.decoder = Decoder(image, costs.core)
        self.codes: dict[int, Code] = {}
        self.facts = Facts()
        self.top = self.stack_low = TOP         # the stack pointer at the entry
        self.placed = False             # the lowest four bits of stack pointers are those of their numbers
        self._root = 0
        self._pointing: dict[int, set[int]] = {}
        self._alone = True              # no other state waits
        self._watch = Watch()
        self._compiled: dict[str, Run] = {}
        self._demanded: set[int] = set()
        self._extra: dict[int, set[int]] = {}
        self._heap: list[tuple[int, ...]] = []
        self._waiting: dict[tuple[int, ...], list[State]] = {}
        self._apart = 1                 # so many states are kept apart at a place before they become one
        self._summaries: dict[int, Summary] = {}
        self._before: list[Value] = []          # registers before the block that runs
        self._switched: dict[int, set[int]] = {}        # blocks that call one of libgcc's switches: where it may return to
        self._limits: dict[int, int | None] = {}        # of loops, by header: the most turns by the function's name
        self._counted: set[int] = set()         # headers of loops with an end that a state decided

    def _follow(self, site: int) -> None:
        self._demanded.add(site)
        raise Again

    def _deepest(self, sp: int | None) -> None:
        if sp is None:
            raise Refused(UNKNOWN_STACK, hint="no arrays of variable length, no frame that is aligned to more than 16 bytes")
        if sp < self.stack_low:
            if not inside(sp):
                raise Refused("the stack pointer is set to a value that is no stack")
            self.stack_low = sp

    def _code(self, entry: int, registers: list) -> Code:
        pointing = self._pointing.setdefault(entry, set())
        new = {r for r in range(15) if r != SP and registers[r] is not None and inside(registers[r])} - pointing
        pointing |= new
        if new or entry not in self.codes:
            function = Function(self.decoder, entry, self._extra)
            self.codes[entry] = Code(function, self._demanded, frozenset(pointing), entry == self._root, self.costs,
                                     self._deepest, self._compiled)
        return self.codes[entry]

    def _name(self, state: State) -> str:
        return state.frames[-1].code.function.name if state.frames else self.image.place(self._root)

    @staticmethod
    def _position(function: Function, at: int, state: State) -> tuple[int, ...]:
        """Order of the loops around a block with their iterations, and of the block."""
        key: tuple[int, ...] = ()
        for header in function.nest[at]:
            key += (function.order[header], state.turns[header])
        return (*key, function.order[at])

    def _wait(self, state: State) -> None:
        """A state waits for its turn; it becomes one with another that is at the same place, of several the nearest."""
        frame = state.frames[-1]
        key = frame.prefix + self._position(frame.code.function, state.pc, state)
        if self._apart > 1:
            state.forget(frame.code.live[state.pc])
        waiting = self._waiting.setdefault(key, [])
        if not waiting:
            heapq.heappush(self._heap, key)
        other = waiting[0] if waiting else None
        if other is not None and self._apart > 1:
            far, other = min(((one.distance(state), one) for one in waiting), key=lambda found: found[0])
            other = other if far == 0 or len(waiting) == self._apart else None
        if other is None:
            waiting.append(state)
        else:
            other.merge(state)

    def _next(self) -> State | None:
        """The state that is furthest behind."""
        if not self._heap:
            return None
        waiting = self._waiting[self._heap[0]]
        state = waiting.pop()
        if not waiting:
            del self._waiting[heapq.heappop(self._heap)]
        return state

    def _note(self, start: int, to: int) -> None:
        self.facts.edges.setdefault(start, set()).add(to)

    def _go(self, state: State, step: Step, to: int) -> None:
        """To a block of the same function."""
        self._note(step.block.start, to)
        edge = step.edges.get(to)
        if edge is not None:
            self._cross(state, edge, to)
        state.pc = to

    def _cross(self, state: State, edge: Edge, to: int) -> None:
        """Enter loops, and count a turn of one."""
        if edge.aside and not self._alone and not self._name(state).startswith(COMPILER_RUNTIME):
            raise Refused(f"the loop at {self.image.place(to)} is entered at several places (it is irreducible), and data "
                          "decides where", hint="no goto into a loop")
        function = state.frames[-1].code.function
        for header in edge.entered:
            state.turns[header] = 0
            state.loose.pop(header, None)
            if header not in self.given.loops:
                self._watch.enter(function, header)
        if edge.turn:
            self._turn(state, to, 1)
            if self._apart == 1 and self._limit(to) is None:        # else states of several ways take turns
                self._watch.turn(function, to, state.turns[to], state)

    def _turn(self, state: State, header: int, n: int) -> None:
        turns = state.turns[header] + n
        state.turns[header] = turns
        state.totals[header] = state.totals.get(header, 0) + n
        if turns > self.facts.bounds.get(header, 0) and not self._over(state, header):
            self.facts.bounds[header] = turns

    def _over(self, state: State, header: int) -> bool:
        """Whether a loop has turned more often than the user says, or than its function's name promises and data ended it."""
        limit = self._limit(header)
        return (limit is not None and state.turns.get(header, 0) > limit
                and (header in self.given.loops or header in state.loose))

    def _limit(self, header: int) -> int | None:
        """The most turns of a loop that data ends, where the user or the function's name tells it."""
        if header in self.given.loops:
            return self.given.loops[header]
        if header not in self._limits:
            function = next(c.function for c in self.codes.values() if header in c.function.loops)
            name = self.image.place(self.image.extent(header)[0])
            loop = [i for b in sorted(function.loops[header]) for i in function.blocks[b].instructions]
            self._limits[header] = arithmetic.turns(name, loop)
        return self._limits[header]

    def _enter(self, state: State, entry: int, back: int, call: int, prefix: tuple[int, ...],
               owners: tuple[tuple[int, int, int], ...] = (), called_with: int | None = None) -> None:
        code = self._code(entry, state.registers)
        sp = state.registers[SP] if called_with is None else called_with
        if sp is None:
            raise Refused(f"the stack pointer is not known at the call of {self.image.place(entry)}")
        state.frames.append(Frame(back, call, code, sp, prefix, (*owners, (entry, state.instructions, state.cycles))))
        state.pc = entry
        edge = edge_of(code.function, None, entry)
        if edge is not None:
            self._cross(state, edge, entry)

    def _call(self, state: State, step: Step, entry: int) -> None:
        self._callable(state, entry, "it is called again in {}")
        frame = state.frames[-1]
        self.facts.calls.setdefault(step.block.start, set()).add(entry)
        prefix = (*frame.prefix, *self._position(frame.code.function, step.block.start, state), entry)
        self._enter(state, entry, step.block.last.end, step.block.start, prefix)

    def _callable(self, state: State, entry: int, again: str) -> None:
        name, caller = self.image.place(entry), self._name(state)
        if any(frame.code.function.entry == entry for frame in state.frames):
            raise Refused(f"{name} is recursive: {again.format(caller)}", hint="a loop with a constant number of turns")
        if name in HEAP:
            raise Refused(f"{caller} calls {name}: allocation has no bound", hint="no heap")

    def _tail(self, state: State, step: Step, entry: int) -> None:
        self._callable(state, entry, "{} jumps to it")
        frame = state.frames[-1]
        self.facts.calls.setdefault(step.block.start, set()).add(entry)
        prefix = (*frame.prefix, *self._position(frame.code.function, step.block.start, state), entry)
        state.frames.pop()
        self._enter(state, entry, frame.back, frame.call, prefix, frame.owners, frame.sp)

    def _record(self, state: State, frame: Frame) -> None:
        for entry, instructions, cycles in frame.owners:
            a, b = self.facts.functions.get(entry, (0, 0))
            self.facts.functions[entry] = (max(a, state.instructions - instructions), max(b, state.cycles - cycles))

    def _return(self, state: State, step: Step, to: int) -> None:
        frame = state.frames.pop()
        if state.registers[SP] != frame.sp:
            raise Refused(f"{frame.code.function.name} returns with another stack pointer than it was called with")
        self._note(step.block.start, RETURN)
        self._record(state, frame)
        state.memory.release(frame.sp)
        state.pc = to
        if state.frames:
            self._arrive(state, frame, to)

    def _arrive(self, state: State, frame: Frame, to: int) -> None:
        """Behind a call, which ends a block; the next one may be in another loop."""
        caller = state.frames[-1].code
        if to not in caller.function.blocks:
            raise Refused(f"{frame.code.function.name} returns to {self.image.place(to)}, where no call leads")
        self._go(state, caller.step(frame.call), to)
