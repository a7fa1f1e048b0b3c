"""Abstract execution of a function and all it calls: the largest number of instructions of any run.

A state is run block by block. A branch that the state decides is followed; one that it does not decide forks the
state. States are taken in the order of their positions in the program, so that the ways of a fork meet again behind
it, and become one state with the larger cost. Without any fork the count is that of every run.
"""
from __future__ import annotations

from collections.abc import Sequence

from fuse2c.errors import Refused
from fuse2c.wcet.cfg import TABLE_HELPERS
from fuse2c.wcet.closed import closed_form
from fuse2c.wcet.compiled import Step, edge_of
from fuse2c.wcet.decode import LOST, Instruction
from fuse2c.wcet.endless import HINT, Watch, compared
from fuse2c.wcet.machine import MOST_BLOCKS, RETURN, Again, Facts
from fuse2c.wcet.memory import Memory
from fuse2c.wcet.operands import LR, SP
from fuse2c.wcet.parts import LENGTH
from fuse2c.wcet.slicing import computes
from fuse2c.wcet.state import State, Summary
from fuse2c.wcet.switches import goals
from fuse2c.wcet.values import ARENA_START, FIRST, STACK, TOP, Value, holds, pointer, window
from fuse2c.wcet.ways import Ways

APART, MOST_APART = 32, 20_000
"""Where merging loses what a bound needs: how many states are kept apart at a place, and the most basic blocks then."""
LOST_BY_MERGING = ("no bound for the loop", "count that is not known", "address that is not known", "pointer that is not known")
REGISTER_ARGUMENTS, STACK_ARGUMENTS = 4, 16


class Engine(Ways):
    """Analyses one entry of a program. `codes` holds the functions that were reached."""

    @property
    def stack_bytes(self) -> int:
        """The deepest stack of any run, below the caller's frame."""
        return self.top - self.stack_low

    def reached(self) -> list[Instruction]:
        """The instructions of all blocks that some run executes, by address."""
        blocks = {b.start: b for code in self.codes.values() for b in code.reached()}
        return [i for start in sorted(blocks) for i in blocks[start].instructions]

    def forget(self) -> None:
        """Start as if nothing had been analysed."""
        self.codes, self._apart, self._pointing, self._demanded, self._extra = {}, 1, {}, set(), {}

    def analyse(self, entry: int, arena: int | None = None, given: Sequence[Value] = ()) -> State:
        """The state at the return, with the largest costs. Refused where there is no bound, or none is found.

        `arena`: the argument that points to 8-byte aligned memory; `given`: words of the object that the first one points to.
        """
        self._root = entry
        refused: Refused | None = None
        while True:
            self.facts, self.stack_low = Facts(), self.top
            self._heap, self._waiting, self._watch, self._summaries = [], {}, Watch(), {}
            try:
                return self._explore(self._initial(entry, arena, given))
            except Again:
                self.codes = {}
            except Refused as error:
                if refused is not None or not any(reason in error.args[0] for reason in LOST_BY_MERGING):
                    raise refused or error from None
                refused, self._apart, self.codes = error, APART, {}

    def _initial(self, entry: int, arena: int | None, given: Sequence[Value]) -> State:
        memory = Memory(self.image, FIRST if self.pointers else STACK)
        memory.unfollowed, memory.placed = self._follow, self.placed
        registers: list[int | None] = [None] * 18
        registers[SP], registers[LR] = self.top, RETURN | 1
        for k in range(REGISTER_ARGUMENTS + STACK_ARGUMENTS):
            base = ARENA_START if k == arena else pointer(k)
            if k < REGISTER_ARGUMENTS:
                registers[k] = base
            elif base is not None:
                memory.words[self.top + 4 * (k - REGISTER_ARGUMENTS)] = base
        memory.given = {(pointer(0) or 0) + 4 * k: value for k, value in enumerate(given) if value is not None}
        state = State(registers, None, memory, [], entry, {}, {}, {})
        self._enter(state, entry, RETURN, 0, ())
        return state

    # Exploring: one state at a time runs on until it forks; then the one that is furthest behind.

    def _explore(self, state: State | None) -> State:
        done: State | None = None
        while state is not None:
            for one in self._run(state):
                if one.frames:
                    if self._possible(one):
                        self._wait(one)
                elif done is None:
                    done = one
                else:
                    done.merge(one)
            state = self._next()
        if done is None:
            raise Refused(f"{self.image.place(self._root)} never returns",
                          hint="as is said of its loops" if self.given.loops else "")
        self.facts.totals = done.totals
        return done

    def _run(self, state: State) -> list[State]:
        """Run a state on, alone until it forks, among others for one block."""
        alone = self._alone = not self._heap
        while True:
            step = state.frames[-1].code.step(state.pc)
            if state.pc in step.edges:
                self._skip(state, step)
            self._execute(state, step)
            after = self._leave(state, step)
            if not alone or len(after) != 1 or not after[0].frames or self._limits.get(after[0].pc) is not None \
                    or after[0].pc in self.given.loops:
                return after
            state = after[0]

    def _execute(self, state: State, step: Step) -> None:
        """A block up to its transfer of control."""
        self._before = state.registers[:]
        self.facts.blocks += 1
        most = MOST_BLOCKS if self._apart == 1 else MOST_APART
        if self.facts.blocks > most:
            raise Refused(f"no end after {most} basic blocks, at {self.image.place(state.pc)}")
        if step.block.ends == LOST:
            place = self.image.place(step.block.start)
            raise Refused(step.block.last.text, hint=step.block.last.kind or f"if no run gets there, say so: --bound {place}=0")
        try:
            state.flags = step.run(state.registers, state.flags, state.memory)
        except Refused as error:
            raise Refused(f"{error.args[0]}, in {self._name(state)}", hint=error.hint) from None
        state.instructions += step.instructions
        state.cycles += step.cycles
        if step.chosen:
            state.totals[step.block.start] = state.totals.get(step.block.start, 0) + 1

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
            if join is not None and self._apart == 1 and not self.given.loops:
                self._both(state, step, join)
                edge = edge_of(state.frames[-1].code.function, block.start, join)
                if edge is not None:
                    self._cross(state, edge, join)
                return [state]
            other = self._fork(state, step)
            other.cycles += step.taken_cycles
            self._go(other, step, block.successors[0])
            self._go(state, step, block.successors[1])
            return [state, other]
        if step.leaves:
            self._counted.update(step.leaves)
            self._watch.last[block.start] = compared(block.last, state.registers, state.flags)
        state.cycles += step.taken_cycles if taken else 0
        self._go(state, step, block.successors[0 if taken else 1])
        return [state]

    def _possible(self, state: State) -> bool:
        """Whether a block may be reached, and a loop has not turned more often, than the user says or its function's name
        promises."""
        given = state.pc in self.given.loops
        if state.pc not in state.frames[-1].code.function.loops:
            return not given or self.given.loops[state.pc] > 0
        if not self._over(state, state.pc):
            return True
        if not given:
            self.facts.trusted.add(self._name(state))
        return False

    def _decide(self, state: State, step: Step) -> bool | None:
        """Whether a branch is taken; None if the state does not tell."""
        block, i, registers = step.block, step.block.last, state.registers
        if i.name == "b":
            return holds(i.cond, state.flags)
        if i.name in ("le", "letp"):
            count, step_by = registers[LR], 1 if i.name == "le" else registers[LENGTH]
            if count is None or step_by is None:
                if state.frames[-1].code.function.nest[block.start][-1] in self.given.loops:
                    return None
                raise Refused(f"the loop of {i} in {self._name(state)} has a count that is not known",
                              hint=HINT.format(self.image.place(block.taken or 0)))
            registers[LR] = count - step_by if count > step_by else None
            return count > step_by
        value = registers[LR if i.name in ("wls", "wlstp") else i.ops[0].n]            # type: ignore[union-attr]
        if value is None or window(value):
            return None if value is None or window(value) < state.memory.objects else i.name == "cbnz"
        return (value == 0) == (i.name != "cbnz")

    def _both(self, state: State, step: Step, join: int) -> None:
        """Take both ways of a branch to the block where they meet, see `regions`; all of them are in the same loops."""
        code, block = state.frames[-1].code, step.block
        self.facts.forks[block.last.address] += 1
        other = state.twin()
        other.cycles += step.taken_cycles
        for one, to in ((other, block.successors[0]), (state, block.successors[1])):
            self._note(block.start, to)
            one.pc = to
            while one.pc != join:
                on = code.step(one.pc)
                self._execute(one, on)
                self._plain(one, on)
        state.merge(other)

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

    def _conditional(self, state: State, step: Step) -> list[State]:
        """A return or tail call under a condition."""
        block = step.block
        taken = holds(block.last.cond, state.flags)
        out = []
        if taken is not None:
            self._counted.update(step.leaves)
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

    # The compiler's arithmetic forks all the time, and nothing is known of its operands: one call stands for all.

    def _call(self, state: State, step: Step, entry: int) -> None:
        if not computes(self.image.place(entry)):
            super()._call(state, step, entry)
            return
        self.facts.calls.setdefault(step.block.start, set()).add(entry)
        sp = state.registers[SP]
        if entry not in self._summaries:
            self._summaries[entry] = self._summary(entry)
        s = self._summaries[entry]
        self._deepest(None if sp is None else sp - s.stack)
        state.instructions += s.instructions
        state.cycles += s.cycles
        for header, n in s.totals.items():
            state.totals[header] = state.totals.get(header, 0) + n
        for r in (0, 1, 2, 3, 12, LR):
            state.registers[r] = None
        state.flags = None
        self._go(state, step, step.block.last.end)

    def _summary(self, entry: int) -> Summary:
        """The worst case of a function on its own, of unknown operands. Refused if it does not keep what it should."""
        outside = self._heap, self._waiting, self._watch, self._alone, self.stack_low
        self._heap, self._waiting, self._watch, self.stack_low = [], {}, Watch(), TOP
        kept = [pointer(r) for r in range(4, 12)]
        memory = Memory(self.image)
        memory.unfollowed = self._follow
        state = State([None] * 4 + kept + [None, TOP, RETURN | 1, None, None, None], None, memory, [], entry, {}, {}, {})
        self._enter(state, entry, RETURN, 0, ())
        done = self._explore(state)
        if done.registers[4:12] != kept:
            raise Refused(f"{self.image.place(entry)} changes registers that belong to its caller")
        found = Summary(done.instructions, done.cycles, TOP - self.stack_low, done.totals)
        self._heap, self._waiting, self._watch, self._alone, self.stack_low = outside
        return found

    def _transfer(self, state: State, step: Step) -> list[State]:
        """A call, a return, a jump to another function, or one through a register or table."""
        block = step.block
        if block.ends == "tail":
            self._tail(state, step, block.taken or 0)
            return [state]
        if block.ends == "jump":
            self._go(state, step, block.successors[0])
            return [state]
        if block.ends == "call":
            helper = state.frames[-1].code.function.helper(block)
            found = goals(state.frames[-1].code.function, block, self._before, self.image) if helper else None
            if found is not None:
                self._know(block.last.address, found, block.successors)
                self._switched.setdefault(block.start, set()).update(found)
            self._call(state, step, block.taken or 0)
            return [state]
        goal = state.registers[15]
        if block.ends == "invoke":
            if goal is None:
                return self._given_calls(state, step)
            self._call(state, step, goal & ~1)
            return [state]
        if goal is None:
            return self._all_ways(state, step)
        goal &= ~1
        if goal == state.frames[-1].back or state.frames[-1].code.function.name in TABLE_HELPERS:
            self._return(state, step, goal)
        elif goal in block.successors:
            self._go(state, step, goal)
        elif state.frames[-1].code.function.inside(goal):
            self._extra.setdefault(block.last.address, set()).update(state.frames[-1].code.function.table(goal))
            raise Again
        else:
            self._tail(state, step, goal)
        return [state]
