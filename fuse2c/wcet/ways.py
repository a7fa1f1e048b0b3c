"""Control that goes on at one of several places, data decides at which: forks, switches, calls through pointers."""
from __future__ import annotations

from fuse2c.errors import Refused
from fuse2c.wcet.cfg import TABLE_HELPERS
from fuse2c.wcet.compiled import Step
from fuse2c.wcet.endless import LONGEST_LOOSE, no_bound
from fuse2c.wcet.machine import LOOSE, Again, Machine
from fuse2c.wcet.state import State
from fuse2c.wcet.switches import goals


class Ways(Machine):
    """A machine that takes several ways."""

    def _fork(self, state: State, step: Step) -> State:
        self.facts.forks[step.block.last.address] += 1
        self._alone = False
        for header in step.leaves:
            n = state.loose.get(header, 0)
            state.loose[header] = n + 1
            if n > (LONGEST_LOOSE if header in self._counted else LOOSE) and header not in self.given.loops:
                raise no_bound(self.image.place(header))
        return state.copy()

    def _given_calls(self, state: State, step: Step) -> list[State]:
        """A call or jump through a pointer that is not known, to each function that the user says."""
        i, out = step.block.last, []
        if i.address not in self.given.calls:
            say = f"--calls {self.image.place(i.address)}=FUNCTION,FUNCTION"
            if step.block.ends == "invoke":
                raise Refused(f"{i} in {self._name(state)} calls through a pointer that is not known",
                              hint=f"no function pointers, or say what it calls: {say}")
            raise Refused(f"{i} in {self._name(state)} jumps to an address that is not known",
                          hint=f"no function pointers, or say what it jumps to: {say}; is the return address overwritten?")
        for entry in self.given.calls[i.address]:
            other = self._fork(state, step)
            (self._call if step.block.ends == "invoke" else self._tail)(other, step, entry)
            out.append(other)
        return out

    def _all_ways(self, state: State, step: Step) -> list[State]:
        """A switch on data; anything else through an unknown address is refused."""
        i, ways = step.block.last, step.block.successors
        code = state.frames[-1].code
        if code.function.name in TABLE_HELPERS:
            return self._helped(state, step)
        found = goals(code.function, step.block, self._before, self.image)
        if found is not None:
            self._know(i.address, found, ways)
            return self._each(state, step, sorted(found))
        listed = step.block.from_table()
        if listed:
            function = state.frames[-1].code.function
            cases = set().union(*(function.cases(base) for base in state.memory.indexed if base is not None))
            self._know(i.address, cases, ways)
            ways = sorted(cases)
        return self._each(state, step, ways) if listed and ways else self._given_calls(state, step)

    def _know(self, address: int, goals: set[int], known: list[int]) -> None:
        """Start anew if the graph lacks one of the ways of a transfer."""
        if not goals <= set(known):
            self._extra.setdefault(address, set()).update(goals)
            raise Again

    def _helped(self, state: State, step: Step) -> list[State]:
        """One of libgcc's switches returns by a number that is not known: to all cases of its caller's."""
        ways = self._switched.get(state.frames[-1].call)
        if ways is None:
            raise Refused(f"the switch by {self._name(state)} in {state.frames[-2].code.function.name} has cases that are "
                          "not found")
        out = []
        for to in sorted(ways):
            other = self._fork(state, step)
            self._return(other, step, to)
            out.append(other)
        return out

    def _each(self, state: State, step: Step, ways: list[int]) -> list[State]:
        out = []
        for to in ways:
            other = self._fork(state, step)
            self._go(other, step, to)
            out.append(other)
        return out
