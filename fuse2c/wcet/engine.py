"""Abstract execution of a function and all it calls: the largest number of instructions of any run.

A state is run block by block. A branch that the state decides is followed; one that it does not decide forks the
state. States are taken in the order of their positions in the program, so that the ways of a fork meet again behind
it, and become one state with the larger cost. Without any fork the count is that of every run.
"""
from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

from fuse2c.errors import Refused
from fuse2c.wcet.cfg import Function
from fuse2c.wcet.closed import closed_form
from fuse2c.wcet.compiled import Code, Edge, Run, Step, edge_of
from fuse2c.wcet.cycles import Costs
from fuse2c.wcet.decode import Decoder
from fuse2c.wcet.image import Image
from fuse2c.wcet.operands import LR, SP
from fuse2c.wcet.state import Frame, State
from fuse2c.wcet.values import FIRST, MIDDLE, TOP, WINDOW, Memory, holds, inside, window

RETURN = 0xFFFFFFFE             # where the analysed function returns to
REGISTER_ARGUMENTS, STACK_ARGUMENTS = 4, 11
LONGEST_LOOSE = 1 << 18         # iterations of a loop that only data ends
MOST_BLOCKS = 200_000_000
HEAP = ("malloc", "calloc", "realloc", "free", "_malloc_r", "_sbrk_r", "sbrk")


COMPILER_RUNTIME = ("__aeabi_", "__divsi3", "__udivsi3")      # their unrolled divisions are entered in the middle


class Again(Exception):
    """The analysis has learnt something that it has to start anew with."""


@dataclass
class Facts:
    """What a run of the engine found, by address.

    `bounds`: the most iterations of a loop in one entry; `totals`: in the whole run; `forks`: branches that data
    decides; `edges`: transfers between blocks that occur; `calls`: functions called from a block; `functions`: the
    largest costs of one call, as (instructions, cycles), and the number of calls on the longest way.
    """

    bounds: dict[int, int] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    forks: Counter[int] = field(default_factory=Counter)
    edges: dict[int, set[int]] = field(default_factory=dict)
    calls: dict[int, set[int]] = field(default_factory=dict)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)
    blocks: int = 0


class Engine:
    """Analyses one entry of a program. `codes` holds the functions that were reached."""

    def __init__(self, image: Image, costs: Costs) -> None:
        self.image, self.costs = image, costs
        self.decoder = Decoder(image)
        self.codes: dict[int, Code] = {}
        self.facts = Facts()
        self.stack_low = TOP
        self._root = 0
        self._compiled: dict[str, Run] = {}
        self._demanded: set[int] = set()
        self._extra: dict[int, set[int]] = {}
        self._heap: list[tuple[int, ...]] = []
        self._waiting: dict[tuple[int, ...], State] = {}

    @property
    def stack_bytes(self) -> int:
        """The deepest stack of any run, below the caller's frame."""
        return TOP - self.stack_low

    def analyse(self, entry: int) -> State:
        """The state at the return, with the largest costs. Refused where there is no bound, or none is found."""
        self._root = entry
        while True:
            self.facts, self.stack_low = Facts(), TOP
            self._heap, self._waiting, self.codes = [], {}, {}
            try:
                return self._explore(self._initial(entry))
            except Again:
                continue

    def _initial(self, entry: int) -> State:
        memory = Memory(self.image)
        memory.unfollowed = self._follow
        registers: list[int | None] = [None] * 16
        registers[SP], registers[LR] = TOP, RETURN | 1
        for k in range(REGISTER_ARGUMENTS + STACK_ARGUMENTS):
            base = ((FIRST + k) << WINDOW) + MIDDLE
            if k < REGISTER_ARGUMENTS:
                registers[k] = base
            else:
                memory.words[TOP + 4 * (k - REGISTER_ARGUMENTS)] = base
        state = State(registers, None, memory, [], entry, {}, {}, {})
        self._enter(state, entry, RETURN, 0, ())
        return state

    def _follow(self, site: int) -> None:
        self._demanded.add(site)
        raise Again

    def _deepest(self, sp: int | None) -> None:
        if sp is None:
            raise Refused("the stack pointer is set to a value that is not known", hint="no arrays of variable length")
        if sp < self.stack_low:
            if not inside(sp):
                raise Refused("the stack pointer is set to a value that is no stack")
            self.stack_low = sp

    def _code(self, entry: int) -> Code:
        if entry not in self.codes:
            function = Function(self.decoder, entry, self._extra)
            self.codes[entry] = Code(function, self._demanded, entry == self._root, self.costs, self._deepest, self._compiled)
        return self.codes[entry]

    # Exploring: one state at a time runs on until it forks; then the one that is furthest behind.

    def _explore(self, state: State | None) -> State:
        done: State | None = None
        while state is not None:
            for one in self._run(state):
                if not one.frames:
                    if done is None:
                        done = one
                    else:
                        done.merge(one)
                    continue
                key = self._key(one)
                waiting = self._waiting.get(key)
                if waiting is not None:
                    waiting.merge(one)
                else:
                    self._waiting[key] = one
                    heapq.heappush(self._heap, key)
            state = self._waiting.pop(heapq.heappop(self._heap)) if self._heap else None
        if done is None:
            raise Refused(f"{self.image.place(self._root)} never returns")
        self.facts.totals = done.totals
        return done

    def _key(self, state: State) -> tuple[int, ...]:
        frame = state.frames[-1]
        return frame.prefix + self._position(frame.code.function, state.pc, state)

    @staticmethod
    def _position(function: Function, at: int, state: State) -> tuple[int, ...]:
        """Order of the loops around a block with their iterations, and of the block."""
        key: tuple[int, ...] = ()
        for header in function.nest[at]:
            key += (function.order[header], state.turns[header])
        return (*key, function.order[at])

    def _run(self, state: State) -> list[State]:
        """Run a state on, alone until it forks, among others for one block."""
        alone = not self._heap
        while True:
            step = state.frames[-1].code.step(state.pc)
            if state.pc in step.edges:
                self._skip(state, step)
            self._execute(state, step)
            after = self._leave(state, step)
            if not alone or len(after) != 1 or not after[0].frames:
                return after

    def _execute(self, state: State, step: Step) -> None:
        """A block up to its transfer of control."""
        self.facts.blocks += 1
        if self.facts.blocks > MOST_BLOCKS:
            raise Refused(f"no end after {MOST_BLOCKS} basic blocks, at {self.image.place(state.pc)}")
        try:
            state.flags = step.run(state.registers, state.flags, state.memory)
        except Refused as error:
            raise Refused(f"{error.args[0]}, in {self._name(state)}", hint=error.hint) from None
        state.instructions += step.instructions
        state.cycles += step.cycles

    def _skip(self, state: State, step: Step) -> None:
        """All but the last iterations of a loop of one block at once, where they are known."""
        n = closed_form(step, state)
        if n > 0:
            state.instructions += n * step.instructions
            state.cycles += n * (step.cycles + step.taken_cycles)
            self._turn(state, state.pc, n)
            self._note(state.pc, state.pc)

    # How control leaves a block.

    def _leave(self, state: State, step: Step) -> list[State]:
        block = step.block
        how = block.ends
        if block.conditional:
            return self._conditional(state, step)
        if how == "branch":
            return self._branch(state, step)
        if how in ("fall", "jump"):
            state.cycles += step.taken_cycles if how == "jump" else 0
            self._go(state, step, block.successors[0])
            return [state]
        state.cycles += step.taken_cycles
        return self._transfer(state, step)

    def _branch(self, state: State, step: Step) -> list[State]:
        block = step.block
        taken = self._decide(state, step)
        if taken is None:
            join = state.frames[-1].code.join(block.start)
            if join is not None:
                self._go(state, self._both(state, step, join), join)
                return [state]
            other = self._fork(state, step)
            other.cycles += step.taken_cycles
            self._go(other, step, block.successors[0])
            self._go(state, step, block.successors[1])
            return [state, other]
        state.cycles += step.taken_cycles if taken else 0
        self._go(state, step, block.successors[0 if taken else 1])
        return [state]

    def _decide(self, state: State, step: Step) -> bool | None:
        """Whether a branch is taken; None if the state does not tell."""
        i, registers = step.block.last, state.registers
        if i.name == "b":
            return holds(i.cond, state.flags)
        if i.name == "le":
            count = registers[LR]
            if count is None:
                raise Refused(f"the loop of {i} in {self._name(state)} has a count that is not known")
            registers[LR] = max(count - 1, 1)
            return count > 1
        value = registers[LR if i.name == "wls" else i.ops[0].n]            # type: ignore[union-attr]
        if value is None or window(value):
            return None if value is None or not inside(value) else i.name == "cbnz"
        return (value == 0) == (i.name != "cbnz")

    def _both(self, state: State, step: Step, join: int) -> Step:
        """Take both ways of a branch to the block where they meet, see `regions`; returns a block that leads there."""
        code, block = state.frames[-1].code, step.block
        self.facts.forks[block.last.address] += 1
        other = state.twin()
        other.cycles += step.taken_cycles
        last = step
        for one, to in ((other, block.successors[0]), (state, block.successors[1])):
            self._note(block.start, to)
            one.pc = to
            while one.pc != join:
                last = code.step(one.pc)
                self._execute(one, last)
                self._plain(one, last)
        state.merge(other)
        return last

    def _plain(self, state: State, step: Step) -> None:
        """Leave a block on a short way, up to the next, or over all ways of a branch within."""
        block = step.block
        taken: bool | None = block.ends == "jump"
        if block.ends == "branch":
            taken = self._decide(state, step)
        if taken is None:
            self._both(state, step, state.frames[-1].code.join(block.start) or 0)
            return
        state.cycles += step.taken_cycles if taken else 0
        state.pc = block.successors[0 if taken or len(block.successors) == 1 else 1]
        self._note(block.start, state.pc)

    def _note(self, start: int, to: int) -> None:
        self.facts.edges.setdefault(start, set()).add(to)

    def _fork(self, state: State, step: Step) -> State:
        self.facts.forks[step.block.last.address] += 1
        for header in step.leaves:
            n, _ = state.loose.get(header, (0, ()))
            state.loose[header] = (n + 1, ())
            if n > LONGEST_LOOSE:
                raise Refused(f"no bound for the loop at {self.image.place(header)}: no number that is known ends it",
                              hint="end the loop by a counter with a constant limit too")
        return state.copy()

    def _conditional(self, state: State, step: Step) -> list[State]:
        """A return or tail call under a condition."""
        block = step.block
        taken = holds(block.last.cond, state.flags)
        out = []
        if taken is not False:
            other = self._fork(state, step) if taken is None else state
            if step.transfer is not None:
                other.flags = step.transfer(other.registers, other.flags, other.memory)
            other.cycles += step.taken_cycles
            out += self._transfer(other, step)
        if not taken:
            self._go(state, step, block.last.end)
            out.append(state)
        return out

    def _transfer(self, state: State, step: Step) -> list[State]:
        """A call, a return, a jump to another function, or one through a register or table."""
        block = step.block
        if block.ends == "tail":
            self._tail(state, step, block.taken or 0)
            return [state]
        if block.ends == "call":
            self._call(state, step, block.taken or 0)
            return [state]
        goal = state.registers[15]
        if block.ends == "invoke":
            if goal is None:
                raise Refused(f"{block.last} in {self._name(state)} calls through a pointer that is not known",
                              hint="no function pointers")
            self._call(state, step, goal & ~1)
            return [state]
        if goal is None:
            return self._all_ways(state, step)
        goal &= ~1
        if goal == state.frames[-1].back:
            self._return(state, step)
        elif goal in block.successors:
            self._go(state, step, goal)
        elif state.frames[-1].code.function.inside(goal):
            self._extra.setdefault(block.last.address, set()).add(goal)
            raise Again
        else:
            self._tail(state, step, goal)
        return [state]

    def _all_ways(self, state: State, step: Step) -> list[State]:
        """A switch on data; anything else through an unknown address is refused."""
        i = step.block.last
        if i.name not in ("tbb", "tbh") or not step.block.successors:
            raise Refused(f"{i} in {self._name(state)} jumps to an address that is not known",
                          hint="no function pointers; is the return address overwritten?")
        out = []
        for to in step.block.successors:
            other = self._fork(state, step)
            self._go(other, step, to)
            out.append(other)
        return out

    def _go(self, state: State, step: Step, to: int) -> None:
        """To a block of the same function."""
        self._note(step.block.start, to)
        edge = step.edges.get(to)
        if edge is not None:
            self._cross(state, edge, to)
        state.pc = to

    def _cross(self, state: State, edge: Edge, to: int) -> None:
        """Enter loops, and count a turn of one."""
        if edge.aside and self._heap and not self._name(state).startswith(COMPILER_RUNTIME):
            raise Refused(f"the loop at {self.image.place(to)} is entered at several places (it is irreducible), and data "
                          "decides where", hint="no goto into a loop")
        for header in edge.entered:
            state.turns[header] = 0
            state.loose.pop(header, None)
        if edge.turn:
            if to in state.loose:
                self._progress(state, to)
            self._turn(state, to, 1)

    def _turn(self, state: State, header: int, n: int) -> None:
        turns = state.turns[header] + n
        state.turns[header] = turns
        state.totals[header] = state.totals.get(header, 0) + n
        if turns > self.facts.bounds.get(header, 0):
            self.facts.bounds[header] = turns

    def _progress(self, state: State, header: int) -> None:
        """Refuse a loop that data ends and in which nothing that is known changes."""
        n, before = state.loose[header]
        now = (*state.registers[:15], state.flags)
        if before == now:
            raise Refused(f"no bound for the loop at {self.image.place(header)}: no number that is known ends it",
                          hint="end the loop by a counter with a constant limit too")
        state.loose[header] = (n, now)

    # Calls and returns.

    def _enter(self, state: State, entry: int, back: int, call: int, prefix: tuple[int, ...],
               owners: tuple[tuple[int, int, int], ...] = ()) -> None:
        code = self._code(entry)
        sp = state.registers[SP]
        if sp is None:
            raise Refused(f"the stack pointer is not known at the call of {self.image.place(entry)}")
        state.frames.append(Frame(back, call, code, sp, prefix, (*owners, (entry, state.instructions, state.cycles))))
        state.pc = entry
        edge = edge_of(code.function, None, entry)
        if edge is not None:
            self._cross(state, edge, entry)

    def _call(self, state: State, step: Step, entry: int) -> None:
        name = self.image.place(entry)
        if any(frame.code.function.entry == entry for frame in state.frames):
            raise Refused(f"{name} is recursive: it is called again in {self._name(state)}")
        if name in HEAP:
            raise Refused(f"{self._name(state)} calls {name}: allocation has no bound", hint="no heap")
        frame = state.frames[-1]
        self.facts.calls.setdefault(step.block.start, set()).add(entry)
        prefix = frame.prefix + self._position(frame.code.function, step.block.start, state)
        self._enter(state, entry, step.block.last.end, step.block.start, prefix)

    def _tail(self, state: State, step: Step, entry: int) -> None:
        frame = state.frames[-1]
        if any(f.code.function.entry == entry for f in state.frames):
            raise Refused(f"{self.image.place(entry)} is recursive: {self._name(state)} jumps to it")
        self.facts.calls.setdefault(step.block.start, set()).add(entry)
        prefix = frame.prefix + self._position(frame.code.function, step.block.start, state)
        state.frames.pop()
        self._enter(state, entry, frame.back, frame.call, prefix, frame.owners)

    def _record(self, state: State, frame: Frame) -> None:
        for entry, instructions, cycles in frame.owners:
            a, b = self.facts.functions.get(entry, (0, 0))
            self.facts.functions[entry] = (max(a, state.instructions - instructions), max(b, state.cycles - cycles))

    def _return(self, state: State, step: Step) -> None:
        frame = state.frames.pop()
        if state.registers[SP] != frame.sp:
            raise Refused(f"{frame.code.function.name} returns with another stack pointer than it was called with")
        self._note(step.block.start, RETURN)
        self._record(state, frame)
        state.memory.release(frame.sp)
        state.pc = frame.back
        if state.frames:
            self._arrive(state, frame)

    def _arrive(self, state: State, frame: Frame) -> None:
        """Behind a call, which ends a block; the next one may be in another loop."""
        caller = state.frames[-1].code
        if frame.back not in caller.function.blocks:
            raise Refused(f"{frame.code.function.name} returns to {self.image.place(frame.back)}, where no call leads")
        self._go(state, caller.step(frame.call), frame.back)

    def _name(self, state: State) -> str:
        return state.frames[-1].code.function.name if state.frames else self.image.place(self._root)
