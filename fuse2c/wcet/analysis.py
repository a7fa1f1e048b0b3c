"""One analysis: the engine's result, the integer program's, and what they rest on."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fuse2c.errors import Refused, did_you_mean
from fuse2c.target import CORES, load
from fuse2c.wcet import image as images
from fuse2c.wcet.arithmetic import ASSUMED
from fuse2c.wcet.cycles import REFILL, Costs
from fuse2c.wcet.engine import Engine
from fuse2c.wcet.given import read
from fuse2c.wcet.ipet import longest
from fuse2c.wcet.placed import worst
from fuse2c.wcet.values import ARENA_START, Value, pointer

TOOLS = ("capstone", "pyelftools", "networkx", "highspy")
ASSUMPTIONS = (
    "the program in the processor's memory is this ELF file, and runs without interrupts, exceptions and debuggers",
    "code is memory-safe: no store reaches a saved register, a return address or another object than the source says",
    "arguments are numbers or pointers to objects outside the analysed frames; unsigned arithmetic on them does not wrap",
    "the stack is 8-byte aligned at the entry, as the procedure call standard demands",
)
OBJECTS = "the arguments point to objects: none is 0"
ALIGNED = "the arena that the caller passes is 8-byte aligned, and no other object lies in it"
NAMED = "the core is a {}: the program itself names only its architecture"
TIMING = (
    "memory answers without wait states",
    f"a taken branch refills the pipeline in at most {REFILL} cycles",
    "no other bus master takes part; loads and stores through other registers than the stack pointer count as unaligned",
)


@dataclass(frozen=True)
class Cost:
    """A function that was reached: the largest costs of one call. `cycles` is None where there is no table."""

    name: str
    instructions: int
    cycles: int | None


@dataclass(frozen=True)
class Slice:
    """The worst case of one call of a function that does a part of the work each time."""

    instructions: int
    cycles: int | None
    stack: int
    single_path: bool


@dataclass(frozen=True)
class Interface:
    """What is known of a generated model's functions. `pointers`: all arguments point to objects; `arena`: the argument that
    points to aligned memory, if any; `step`: a function whose argument points to the number of the call, 0 .. `count` - 1,
    and the entry's arguments."""

    pointers: bool = False
    arguments: int = 0
    arena: int | None = None
    step: str = ""
    count: int = 0

    def given(self, number: int) -> list[Value]:
        """The words that the step's argument points to."""
        return [number, *(ARENA_START if k == self.arena else pointer(k + 1) for k in range(self.arguments))]


@dataclass(frozen=True)
class Loop:
    """A loop that runs: the function and offset of its header, the most iterations of one entry and of the whole run."""

    function: str
    offset: int
    address: int
    maximum: int
    total: int


@dataclass(frozen=True)
class Result:
    """The worst case of one entry.

    `instructions`: the bound; `ipet`: that of the integer program, never below it. `cycles`: None without a public
    timing table, with the reason in `cycles_status`; `cycles_model`: then `instructions` times what one takes typically
    on such a core, by its target file: a model and no bound. `stack`: bytes below the caller's frame. `single_path`: no branch
    depends on data, so that the bound is the exact count of every run. `branches`, `variable`: branches that data
    decides, and executed instructions whose time depends on their operands, as places in the program.
    """

    elf: str
    sha256: str
    entry: str
    core: str
    instructions: int
    ipet: int
    cycles: int | None
    cycles_status: str
    cycles_model: int | None
    stack: int
    single_path: bool
    branches: tuple[str, ...]
    variable: tuple[str, ...]
    kernels: tuple[Cost, ...]
    loops: tuple[Loop, ...]
    assumptions: tuple[str, ...]
    tools: dict[str, str]
    steps: tuple[Slice, ...] = ()

    def json(self) -> dict[str, Any]:
        """The documented keys of `wcet --json`, which are also the certificate."""
        return asdict(self)


def analyse(path: Path, entry: str, core: str, multiply: int, interface: Interface, said: tuple[Sequence[str], Sequence[str]]
            ) -> Result:
    """See `fuse2c.wcet.analyse`; `said`: its `bounds` and `calls`."""
    image = images.load(path)
    guessed = not core and not image.named
    core = core or image.core
    if core not in CORES:
        raise Refused(f"cores of this kind are not known: {core!r}" if core else "the program does not say for which core",
                      hint=did_you_mean(core, CORES))
    costs = Costs(core, multiply)
    engine = Engine(image, costs, interface.pointers)
    steps = _steps(engine, interface) if interface.step else ()
    engine = Engine(image, costs, interface.pointers, read(image, *said))
    start = image.entry(entry)
    state = worst(engine, start, interface.arena)
    _met(engine)
    facts = engine.facts
    single = not facts.forks
    kernels = tuple(Cost(image.place(a), n, c if costs.known else None)
                    for a, (n, c) in facts.functions.items() if a != start)
    return Result(
        elf=path.name, sha256=image.sha256, entry=entry, core=core, instructions=state.instructions,
        ipet=longest(engine, start), cycles=state.cycles if costs.known else None, cycles_status=_status(costs, single),
        cycles_model=None if costs.known else round(state.instructions * load(core).processor.cpi),
        stack=engine.stack_bytes, single_path=single, branches=tuple(image.place(a) for a in sorted(facts.forks)),
        variable=_variable(engine), kernels=kernels, loops=_loops(engine),
        assumptions=ASSUMPTIONS + ((OBJECTS,) if interface.pointers else ())
        + ((ALIGNED,) if interface.arena is not None else ())
        + ((NAMED.format(core),) if guessed else ())
        + engine.given.texts
        + ((ASSUMED + ", ".join(sorted(facts.trusted)),) if facts.trusted else ()) + (TIMING if costs.known else ()),
        tools={name: version(name) for name in TOOLS}, steps=steps)


def _met(engine: Engine) -> None:
    """Refused if something was said of a place that is no loop, no block, or no call, of what is reached."""
    functions = {code.function for code in engine.codes.values()}
    loops = {header for f in functions for header in f.loops}
    calls = {b.last.address for f in functions for b in f.blocks.values() if b.ends in ("invoke", "indirect")}
    never = {at for at, most in engine.given.loops.items() if most == 0 and any(at in f.blocks for f in functions)}
    for at, known, what in ((set(engine.given.loops) - never, loops, "first instruction of a loop"),
                            (set(engine.given.calls), calls, "call through a pointer")):
        if wrong := sorted(at - known):
            raise Refused(f"{engine.image.place(wrong[0])} is no {what} that is reached",
                          hint="there are: " + ", ".join(map(engine.image.place, sorted(known))) if known else "there is none")


def _steps(engine: Engine, interface: Interface) -> tuple[Slice, ...]:
    entry, found = engine.image.entry(interface.step), []
    for k in range(interface.count):
        state = worst(engine, entry, given=interface.given(k))
        found.append(Slice(state.instructions, state.cycles if engine.costs.known else None, engine.stack_bytes,
                           not engine.facts.forks))
    return tuple(found)


def _status(costs: Costs, single: bool) -> str:
    """What the cycles are worth, in a word and a reason."""
    if costs.known:
        return "estimate: Arm's public table, some hazards are not in it"
    if single:
        return "measure: no public timing; one path, so one measurement on the board covers all inputs"
    return "none: no public timing, and data decides branches"


def _variable(engine: Engine) -> tuple[str, ...]:
    """Reached instructions whose time depends on operands."""
    return tuple(f"{i.text.split()[0]} at {engine.image.place(i.address)}" for i in engine.reached()
                 if engine.costs.variable(i))


def _loops(engine: Engine) -> tuple[Loop, ...]:
    facts, out = engine.facts, []
    for header in sorted(facts.bounds):
        low, _ = engine.image.extent(header)
        out.append(Loop(engine.image.place(low), header - low, header, facts.bounds[header], facts.totals[header]))
    return tuple(out)
