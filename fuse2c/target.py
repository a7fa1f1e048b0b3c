"""A board as data: processor, clocks, memories, power, prices. Loaded from targets/*.toml, unknown keys refused."""
from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from fuse2c.errors import TargetError, did_you_mean

FOLDER = Path(__file__).parent / "targets"
# What kernels may ask for. mla, mul: words are multiplied, and in one instruction added, and there is nothing better.
FEATURES = ("dsp", "fpu-sp", "fpu-dp", "mve", "mla", "mul", "vectors")
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
HELD = ("arena", "weights")                         # what a memory may hold
STATUS = ("estimated", "vendor", "measured")        # of a target's figures
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Processor:
    """What runs the kernels. Prices that [price] gives for a kernel come before the rough ones here."""

    isa: str
    name: str = "cpu"
    features: tuple[str, ...] = ()          # of FEATURES
    cflags: tuple[str, ...] = ()            # for the cross compiler; empty on the host
    # Rough instructions, to weigh schedules against each other:
    mac: int = 3                            # of a multiply-accumulate, with its share of loads and loops
    alu: int = 2                            # of another arithmetic operation
    launch: int = 50                        # of a call of a kernel: arguments, prologue, epilogue
    code: int = 500                         # bytes of a kernel's function, where its price does not say
    turn: int = 20                          # of a row inside a kernel: whose turn it is, where the row lies
    spill: float = 0.0                      # of a value that a loop has no register for, an element; 0: unknown
    function: float = 1.0                   # of a function of the runtime, for each that it takes on a core with an FPU
    clock_hz: int = 0                       # the usual clock; 0: unknown, and no time can be given
    registers: int = 13                     # r0 to r12, what a kernel may keep live
    cpi: float = 1.0                        # cycles an instruction takes, typically, code and data without wait states
    cpi_worst: float = 2.0                  # and at worst
    macs_per_cycle: float = 1.0             # 8-bit multiply-accumulates that the arithmetic alone could do: the flat roof
    flops_per_cycle: float = 0.1            # float32 multiply-accumulates, likewise


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that the processor can run at, and what it takes there."""

    hz: int
    active_uw: float = 0.0                  # power while it computes, code from the memory that holds the weights
    wait_states: int = 0                    # of that memory


@dataclass(frozen=True, slots=True)
class Power:
    """What the target takes when it does nothing."""

    sleep_uw: float = 0.0                   # power between inferences, RAM kept
    wake_us: float = 0.0                    # from there to the first instruction, at active power


@dataclass(frozen=True, slots=True)
class Memory:
    """A region and what it may hold."""

    bytes: int
    holds: tuple[str, ...]                  # of HELD; () for a region that fuse2c puts nothing into
    origin: str = ""                        # its address, such as "0x20000000"
    wait_states: int = 0                    # cycles that a load of data waits, at the usual clock
    gb_per_s: float = 0.0                   # at the usual clock; 0: unknown
    pj_per_byte: float = 0.0                # of data, on top of the processor's active power; 0: in there


@dataclass(frozen=True, slots=True)
class Npu:
    """An accelerator beside the processor. No pass places anything on it yet."""

    title: str
    macs_per_cycle: float
    clock_hz: int
    launch: int                             # instructions of the driver for a segment


@dataclass(frozen=True, slots=True)
class Link:
    """What the way to a further processor costs, in cycles of the first."""

    on: str = ""                            # the processor whose core it is: another way to use that; "": a core of its own
    handover: int = 0                       # until it has begun, or until both have met again
    line_bytes: int = 0                     # of the data caches; 0: what one core writes, the others see
    line_cycles: float = 0.0                # to clean or invalidate one
    bytes_per_cycle: float = 0.0            # of what is copied to its memory and back; 0: it computes where the first one does
    program: str = ""                       # "own": built apart, for its flags and addresses; "": the cores run one program


@dataclass(frozen=True, slots=True)
class Core:
    """One of a target's processors: what it is, what kernels cost there, and the way to it from the first."""

    processor: Processor
    price: dict[str, Price]                 # by kernel
    link: Link = Link()


@dataclass(frozen=True, slots=True)
class Price:
    """What a kernel costs: instructions for each of what price.py counts of it, and cycles an instruction."""

    mac: float = 0.0                        # a multiply-accumulate
    alu: float = 0.0                        # another arithmetic operation
    output: float = 0.0                     # an element written
    operand: float = 0.0                    # an element of a further operand, such as a residual
    pixel: float = 0.0                      # a position of the output, all its channels
    window: float = 0.0                     # an element under the window of a pixel: gathered or widened once
    stream: float = 0.0                     # a weight that passes by for a tile of pixels
    block: float = 0.0                      # an output of a tile, whatever its pixels
    row: float = 0.0                        # an output row
    call: float = 0.0                       # one call
    load: float = 0.0                       # what the kernel says of itself: Spec.effort
    multiply: float = 0.0
    tile: float = 0.0
    unpack: float = 0.0
    line: float = 0.0
    tile_of: int = 1                        # pixels of a tile
    code: float = 0.0                       # bytes of its function in flash; 0: the processor's
    cpi: float = 0.0                        # 0: the processor's
    cpi_worst: float = 0.0


@dataclass(frozen=True, slots=True)
class Emulator:
    """The QEMU board that `bench` runs on."""

    machine: str


@dataclass(frozen=True, slots=True)
class Target:
    """A board or a generic core."""

    name: str
    title: str
    source: str                             # where the numbers come from
    status: str                             # of STATUS
    processor: Processor
    memory: dict[str, Memory] = field(default_factory=dict)
    clock: tuple[Clock, ...] = ()           # the slowest first
    power: Power = Power()
    npu: Npu | None = None
    core: dict[str, Core] = field(default_factory=dict)         # further processors, by name
    price: dict[str, Price] = field(default_factory=dict)       # by kernel
    emulator: Emulator | None = None
    sources: dict[str, str] = field(default_factory=dict)       # of single figures: "memory.sram" -> "vendor: data sheet ..."
    # The target whose processor, prices and (without compiler flags of its own) emulator this one has, but for its own:
    like: str = ""

    @property
    def processors(self) -> dict[str, Core]:
        """All processors, by name, the first one first."""
        return {self.processor.name: Core(self.processor, self.price)} | self.core

    @property
    def cores(self) -> list[str]:
        """The processors that can compute at the same time: one of each core."""
        return [name for name, p in self.processors.items() if not p.link.on]

    @property
    def is_host(self) -> bool:
        """Whether the host's own compiler builds for it."""
        return not self.processor.cflags

    def holding(self, what: str) -> tuple[str, Memory]:
        """Name and memory of the region for "arena" or "weights"."""
        return next((n, m) for n, m in self.memory.items() if what in m.holds)

    def limited(self, ram: int | None, flash: int | None) -> Target:
        """The same target with other sizes for the memories that hold arena and weights."""
        memory = dict(self.memory)
        for what, size in (("arena", ram), ("weights", flash)):
            if size is not None:
                name, region = self.holding(what)
                memory[name] = replace(region, bytes=size)
        return replace(self, memory=memory)

    def clocked(self, hz: int) -> Target:
        """The same target at another of its clocks."""
        return replace(self, processor=replace(self.processor, clock_hz=hz))

    def figures(self) -> Iterator[tuple[str, float]]:
        """(path, value) of every number: ("memory.sram.bytes", 131072)."""
        tables: list[tuple[str, Any]] = [("processor", self.processor), ("power", self.power)]
        tables += [(f"memory.{n}", m) for n, m in self.memory.items()] + [(f"clock.{c.hz}", c) for c in self.clock]
        tables += [("npu", self.npu)] * (self.npu is not None) + [(f"price.{n}", p) for n, p in self.price.items()]
        tables += [(f"core.{n}", c.link) for n, c in self.core.items()]
        for path, table in tables:
            for f in fields(table):
                value = getattr(table, f.name)
                if isinstance(value, int | float) and value != 0:
                    yield f"{path}.{f.name}", value
        for name, core in self.core.items():        # what it has in common with the first is said there
            for f in fields(core.processor):
                value = getattr(core.processor, f.name)
                if isinstance(value, int | float) and value != getattr(self.processor, f.name):
                    yield f"core.{name}.{f.name}", value

    def origin(self, path: str) -> str:
        """Where a figure comes from, "status: source": what `sources` says of it or of the longest path above it."""
        above = path
        while above and above not in self.sources:
            above = above.rpartition(".")[0]
        return self.sources.get(above, f"{self.status}: {self.source}")


def known() -> list[str]:
    """Names of all targets that come with fuse2c."""
    return sorted(p.stem for p in FOLDER.glob("*.toml"))


def path_of(name: str) -> Path:
    """The file of a target: of one that comes with fuse2c by its name, else a .toml file. Raises TargetError."""
    if name.endswith(".toml"):
        return Path(name)
    if name not in known():
        raise TargetError(f"no target called {name!r}", hint=did_you_mean(name, known()))
    return FOLDER / f"{name}.toml"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise TargetError(f"cannot read {path}: {e.strerror}", hint="is the path right?") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TargetError(f"{path.name} is not valid TOML: {e}") from None


def load(name: str) -> Target:
    """A target by name, or from the path of a .toml file. Raises TargetError."""
    path = path_of(name)
    return parse(_read(path), path.name)


def parse(raw: dict[str, Any], where: str) -> Target:
    """A target from the content of its file. Raises TargetError for anything that is not as this module says."""
    row = _with_base(dict(raw), where)
    cores = _table(row.pop("core", {}), f"{where}: [core]")
    first, listed = row.get("processor", {}), row.get("price", {})
    tables: dict[str, Any] = {"processor": _fill(Processor, f"{where}: [processor]", row.pop("processor", {}))}
    tables["core"] = {n: _core(n, f"{where}: [core.{n}]", _table(c, f"{where}: [core.{n}]"), first, listed)
                      for n, c in cores.items()}
    for key, cls in (("memory", Memory), ("price", Price)):
        found = _table(row.pop(key, {}), f"{where}: [{key}]")
        tables[key] = {n: _fill(cls, f"{where}: [{key}.{n}]", m) for n, m in found.items()}
    for key, one in (("emulator", Emulator), ("power", Power), ("npu", Npu)):
        if key in row:
            tables[key] = _fill(one, f"{where}: [{key}]", row.pop(key))
    clocks = row.pop("clock", [])
    if not isinstance(clocks, list):
        raise TargetError(f"{where}: clock is {clocks!r}", hint="a list of tables: [[clock]]")
    tables["clock"] = tuple(_fill(Clock, f"{where}: [[clock]]", c) for c in clocks)
    tables["sources"] = _table(row.pop("sources", {}), f"{where}: [sources]")
    target = _fill(Target, where, row | tables)
    _consistent(target, where)
    return target


def _core(name: str, where: str, row: dict[str, Any], first: dict[str, Any], prices: dict[str, Any]) -> Core:
    """A further processor: the first one, or that of the target which it is `like`, but for its own keys."""
    link, like = {f.name: row[f.name] for f in fields(Link) if f.name in row}, row.get("like", "")
    if like:
        base = _with_base(_read(path_of(like)), like)
        first, prices = base["processor"], base.get("price", {})
    own = {key: value for key, value in row.items() if key not in link and key != "like"}
    if "name" in own:
        raise TargetError(f"{where} has a name already: {name}", hint="leave the key `name` out")
    return Core(_fill(Processor, where, first | own | {"name": name}),
                {n: _fill(Price, f"{where}: [price.{n}]", p) for n, p in prices.items()}, _fill(Link, where, link))


def _with_base(row: dict[str, Any], where: str) -> dict[str, Any]:
    """The row with what it takes from the target it is `like`: all of [processor] that it does not give itself, ..."""
    name = row.get("like")
    if not isinstance(name, str) or not name:
        return row
    base = _with_base(_read(path_of(name)), name)
    same = "cflags" not in _table(row.get("processor", {}), f"{where}: [processor]")
    for key in ("emulator", "price"):
        if key in base and key not in row and (same or key == "price"):
            row[key] = base[key]
    if base.get("core") or "core" in row:
        row["core"] = _table(base.get("core", {}), name) | _table(row.get("core", {}), f"{where}: [core]")
    own = {f"processor.{key}" for key in _table(row.get("processor", {}), where)}
    shared = {k: v for k, v in base.get("sources", {}).items() if k.split(".")[0] in ("processor", "price") and k not in own}
    row["processor"] = _table(base.get("processor", {}), name) | _table(row.get("processor", {}), f"{where}: [processor]")
    row["sources"] = shared | _table(row.get("sources", {}), f"{where}: [sources]")
    return row


def _consistent(target: Target, where: str) -> None:
    """What the types of the fields do not say."""
    for region, m in target.memory.items():
        _one_of(f"{where}: [memory.{region}]", "holds", m.holds, HELD)
    for what in HELD:
        if not any(what in m.holds for m in target.memory.values()):
            raise TargetError(f"{where}: no memory holds the {what}", hint=f'add holds = ["{what}"] to one [memory.*]')
    _one_of(where, "status", (target.status,), STATUS)
    _one_of(where, "features", target.processor.features, FEATURES)
    for name, core in target.core.items():
        at, own = f"{where}: [core.{name}]", [n for n, c in target.core.items() if not c.link.on and n != name]
        _one_of(at, "features", core.processor.features, FEATURES)
        _one_of(at, "program", (core.link.program,), ("", "own"))
        _one_of(at, "on", (core.link.on,), ("", target.processor.name, *own))
        if name == target.processor.name:
            raise TargetError(f"{at}: the first processor has that name", hint="another name, here or in [processor]")
        if core.link.on and (core.link.handover or core.link.program):
            raise TargetError(f"{at} is on the core of {core.link.on}: there is nobody to hand over to",
                              hint="leave handover and program out, or `on`")
    rates = [c.hz for c in target.clock]
    if rates != sorted(set(rates)):
        raise TargetError(f"{where}: the clocks are not in order", hint="one [[clock]] for each rate, the slowest first")
    if rates and target.processor.clock_hz not in rates:
        raise TargetError(f"{where}: clock_hz is {target.processor.clock_hz}, which no [[clock]] has",
                          hint=f"one of {', '.join(map(str, rates))}")
    paths = {path for path, _ in target.figures()}
    for path, text in target.sources.items():
        if not any(p == path or p.startswith(f"{path}.") for p in paths):
            raise TargetError(f"{where}: [sources] names {path!r}, which is no figure of this target",
                              hint=did_you_mean(path, sorted(p for p in paths if not p.startswith("price."))))
        if not isinstance(text, str) or text.partition(": ")[0] not in STATUS or not text.partition(": ")[2]:
            raise TargetError(f"{where}: the source of {path} is {text!r}",
                              hint=f"how it is known ({', '.join(STATUS)}), and from where: \"vendor: data sheet ...\"")


def _one_of(where: str, key: str, found: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for word in found:
        if word not in allowed:
            raise TargetError(f"{where}: {key} has {word!r}", hint=did_you_mean(word, allowed))


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TargetError(f"{where} is {value!r}, not a table")
    return value


def _fill(cls: type[T], where: str, row: Any) -> T:
    """An instance of a dataclass from a TOML table: known fields, all that have no default, of the right types."""
    hints = get_type_hints(cls)
    defaults = {f.name: f.default for f in fields(cast(Any, cls))}
    values = {}
    for key, value in _table(row, where).items():
        if key not in hints:
            raise TargetError(f"{where} has no field {key!r}", hint=did_you_mean(key, hints))
        values[key] = tuple(value) if isinstance(value, list) else value
        if not _fits(values[key], hints[key], optional=defaults.get(key) == 0):
            raise TargetError(f"{where}: {key} is {value!r}", hint=EXPECTED.get(hints[key], ""))
    missing = [f.name for f in fields(cast(Any, cls)) if f.name not in values and f.default is f.default_factory]
    if missing:
        raise TargetError(f"{where} is incomplete: it lacks {', '.join(missing)}")
    return cls(**values)


EXPECTED = {int: "a whole number, above 0", float: "a number, above 0", str: "a text in quotes",
            tuple[str, ...]: 'a list of texts: ["a", "b"]'}


def _fits(value: Any, kind: Any, optional: bool) -> bool:
    """Whether a value is of a field's type; a number may be 0 only where that is the default."""
    if kind in (int, float):
        number = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
        return number and (value > 0 or (optional and value == 0))
    if kind == tuple[str, ...]:
        return isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    return kind is not str or isinstance(value, str)
