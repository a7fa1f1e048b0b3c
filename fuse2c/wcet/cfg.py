"""Control flow of one function: basic blocks, how they end, natural loops, and an order for the blocks."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import networkx as nx

from fuse2c.errors import Refused
from fuse2c.wcet.decode import COUNTED, LOST, Decoder, Instruction, jumps, target
from fuse2c.wcet.image import THUMB
from fuse2c.wcet.operands import PC, Mem

EXIT = -1
NEVER_RETURN = ("__stack_chk_fail", "abort", "exit", "_exit", "_Exit", "__assert_func", "longjmp")
TABLE_HELPERS = {"__gnu_thumb1_case_uqi": (1, False), "__gnu_thumb1_case_sqi": (1, True),
                 "__gnu_thumb1_case_uhi": (2, False), "__gnu_thumb1_case_shi": (2, True),
                 "__gnu_thumb1_case_si": (4, True)}
"""libgcc's switches for cores without TBB: width and sign of the entries behind the call."""


@dataclass
class Block:
    """Instructions that run one after the other. `ends`: how control leaves, one of

    fall, jump (to the only successor); branch (to `taken` or behind the block, by its last instruction); call (of
    `taken`, then on to the successor); invoke (a call through a register); tail (a jump to the function `taken`);
    indirect (a return, a computed jump or a tail call, by the target computed); lost (what follows cannot be analysed,
    but compilers leave such ends where they know that no run comes). `conditional`: a transfer other than a branch that
    may also not happen.
    """

    start: int
    instructions: list[Instruction]
    ends: str = "fall"
    taken: int | None = None
    conditional: bool = False
    successors: list[int] = field(default_factory=list)

    @property
    def last(self) -> Instruction:
        """The instruction that decides where control goes."""
        return self.instructions[-1]

    @property
    def end(self) -> int:
        """The address behind the block."""
        return self.last.end

    def from_table(self) -> bool:
        """Whether the address that the last instruction jumps to was just loaded by an index."""
        if self.last.name == "ldr":
            memory = self.last.ops[1]
            return isinstance(memory, Mem) and memory.index is not None
        if self.last.name != "mov":
            return False
        loads = [i for i in self.instructions[:-1] if i.ops and i.ops[0] == self.last.ops[-1]]
        if not loads or loads[-1].name != "ldr":
            return False
        memory = loads[-1].ops[1]
        return isinstance(memory, Mem) and memory.index is not None


class Function:
    """The control-flow graph from one entry.

    `loops`: the blocks of each loop (a strongly connected part) by its header; `irreducible`: the headers of loops that
    are also entered elsewhere; `nest`: the headers around each block, outermost first; `order`: a number for each block,
    such that a loop's blocks are in a row, its header first, and edges that lead to no header around them ascend;
    `ways`: the blocks that another one leads to which may also go elsewhere.
    """

    def __init__(self, decoder: Decoder, entry: int, extra: Mapping[int, Iterable[int]]) -> None:
        self.entry = entry
        self.name = decoder.image.place(entry)
        self.low, self.high = decoder.image.extent(entry)
        self._decoder, self._extra = decoder, extra
        self.blocks = self._blocks()
        self.ways = {to for b in self.blocks.values() if len(b.successors) > 1 or b.conditional for to in b.successors}
        self.loops: dict[int, set[int]] = {}
        self.irreducible: set[int] = set()
        self.nest: dict[int, list[int]] = {}
        self.order: dict[int, int] = {}
        self._loops(set(self.blocks), [])

    def place(self, address: int) -> str:
        """The name of a place in the program."""
        return self._decoder.image.place(address)

    def inside(self, address: int) -> bool:
        """Whether an address belongs to this function."""
        return self.low <= address < self.high

    def _blocks(self) -> dict[int, Block]:
        leaders, work, seen, ends = {self.entry}, [self.entry], set(), {}
        while work:
            at = work.pop()
            while at not in seen:
                seen.add(at)
                i = self._at(at)
                last = self._end(i)
                if last is not None:
                    ends[at] = last
                    leaders.update(last.successors)
                    work += last.successors
                    break
                at = i.end
        blocks = {}
        for leader in sorted(leaders & seen):
            at, instructions = leader, []
            while True:
                i = self._at(at)
                instructions.append(i)
                at = i.end
                if i.address in ends or at in leaders:
                    break
            end = ends.get(i.address) or Block(0, [], successors=[at])
            blocks[leader] = Block(leader, instructions, end.ends, end.taken, end.conditional, list(end.successors))
            if leader in self._decoder.guarded:
                why = self._lost(leader, f"a jump leads to {self.place(leader)}, inside an IT block",
                                 "no code that jumps past an IT instruction")
                blocks[leader] = Block(leader, [why], LOST, successors=list(end.successors))
        return blocks

    def _at(self, address: int) -> Instruction:
        """The instruction there, or one that says why there is none."""
        try:
            return self._decoder.at(address)
        except Refused as error:
            return self._lost(address, error.args[0], error.hint)

    @staticmethod
    def _lost(address: int, reason: str, hint: str = "") -> Instruction:
        return Instruction(address, 0, LOST, "", False, (), hint, reason)

    def _end(self, i: Instruction) -> Block | None:
        """How control leaves behind an instruction, as a Block without instructions; None if it goes on."""
        if i.name == LOST:
            return Block(0, [], LOST)
        extra = sorted(self._extra.get(i.address, ()))
        following = [i.end] if i.cond else []
        if i.name == "b":
            to = target(i)
            if not self.inside(to):
                return Block(0, [], "tail", to, bool(i.cond), following)
            return Block(0, [], "branch" if i.cond else "jump", to, False, [to, *following])
        if i.name in ("cbz", "cbnz", *COUNTED):
            return Block(0, [], "branch", target(i), False, [target(i), i.end])
        if i.name == "bl":
            to = target(i)
            if self.inside(to) and not self._decoder.image.begins(to):
                return Block(0, [], "jump", to, bool(i.cond), [to, *following])     # Armv6-M's far jump: LR was saved
            if not i.cond and self.place(to) in NEVER_RETURN:
                return Block(0, [], "call", to)         # what lies behind is another part of the function, or none
            helper = TABLE_HELPERS.get(self.place(to))
            behind = sorted({*extra, *self._helper_table(i.end, *helper)}) if helper else [i.end]
            return Block(0, [], "call", to, bool(i.cond), behind)
        if i.name == "blx":
            return Block(0, [], "invoke", None, bool(i.cond), [i.end])
        if i.name in ("tbb", "tbh"):
            extra = sorted({*extra, *self._table(i)})
        if jumps(i):
            return Block(0, [], "indirect", None, bool(i.cond), [*extra, *following])
        return None

    def _table(self, i: Instruction) -> set[int]:
        """Targets of TBB or TBH: the table ends where code begins."""
        image, width, base, found = self._decoder.image, 1 if i.name == "tbb" else 2, i.address + 4, set()
        table = i.ops[0]
        if not isinstance(table, Mem) or table.base != PC:
            return set()
        at = base
        while not (image.marks and image.is_code(at)) and at not in found:
            to = base + 2 * (image.read(at, width) or 0)
            if not self.inside(to) or to <= at:
                break
            found.add(to)
            at += width
        return found

    def helper(self, block: Block) -> tuple[int, bool] | None:
        """Width and sign of the entries behind a call of one of libgcc's switches; None for other blocks."""
        return TABLE_HELPERS.get(self.place(block.taken)) if block.ends == "call" and block.taken is not None else None

    def _helper_table(self, base: int, width: int, sign: bool) -> set[int]:
        image, found = self._decoder.image, set()
        at = base if width < 4 else base + 3 & ~3
        first = at
        while not (image.marks and image.is_code(at)):
            entry = image.read(at, width)
            if entry is None:
                break
            entry -= (entry >> (8 * width - 1) & 1) << 8 * width if sign else 0
            to = first + entry if width == 4 else base + 2 * entry
            if not self.inside(to):
                break
            if image.is_code(to & ~THUMB):          # what fills up the table is none of its entries
                found.add(to & ~THUMB)
            at += width
        return found

    def table(self, goal: int) -> set[int]:
        """A computed target, and those beside it in a table of addresses: the other cases of a switch."""
        image, found = self._decoder.image, {goal}
        for at in image.words(goal):
            for step in (-4, 4):
                near = at + step
                while (entry := image.read(near, 4)) is not None and self.inside(entry & ~1) and image.is_code(entry & ~1):
                    found.add(entry & ~1)
                    near += step
        return found

    def cases(self, base: int) -> set[int]:
        """The code addresses of this function in a table, up to the first word that is none."""
        image, found, at = self._decoder.image, set(), base
        while (entry := image.read(at, 4)) is not None and self.inside(entry & ~1) and image.is_code(entry & ~1):
            found.add(entry & ~1)
            at += 4
        return found

    def _loops(self, nodes: set[int], above: list[int]) -> None:
        """Number blocks in a weak topological order (Bourdoncle): strongly connected parts in a row, and again inside,
        without the edges to the header. `above`: the headers around `nodes`; the innermost is not one of them."""
        graph = nx.DiGraph()
        graph.add_nodes_from(sorted(nodes))
        graph.add_edges_from((b, to) for b in nodes for to in self.blocks[b].successors if to in nodes)
        parts = nx.condensation(graph)
        for at in nx.lexicographical_topological_sort(parts, key=lambda n: min(parts.nodes[n]["members"])):
            members: set[int] = parts.nodes[at]["members"]
            first = min(members)
            if len(members) == 1 and first not in self.blocks[first].successors:
                self.nest[first] = above
                self.order[first] = len(self.order)
                continue
            header = self._header(members)
            self.loops[header] = members
            self.nest[header] = [*above, header]
            self.order[header] = len(self.order)
            self._loops(members - {header}, self.nest[header])

    def _header(self, members: set[int]) -> int:
        """The block where a loop is entered; of several, one that most edges of the loop lead to."""
        sources: dict[int, set[int]] = {b: set() for b in members}
        for b in self.blocks.values():
            for to in b.successors:
                if to in members:
                    sources[to].add(b.start)
        entries = [b for b in members if b == self.entry or sources[b] - members]
        header = max(sorted(entries), key=lambda b: len(sources[b] & members))
        if len(entries) > 1:
            self.irreducible.add(header)
        return header
