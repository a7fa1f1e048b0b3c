"""A board as data: processor, memories, compiler flags, emulator. Loaded from targets/*.toml, unknown keys refused."""
from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from fuse2c.errors import TargetError, did_you_mean

FOLDER = Path(__file__).parent / "targets"
FEATURES = ("dsp", "fpu-sp", "fpu-dp", "mve")       # what kernels may ask for
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
HELD = ("arena", "weights")                         # what a memory may hold
STATUS = ("estimated", "vendor", "measured")        # of a target's figures
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Processor:
    """What runs the kernels."""

    isa: str
    features: tuple[str, ...] = ()          # of FEATURES
    cflags: tuple[str, ...] = ()            # for the cross compiler; empty on the host
    # Rough instructions, to weigh schedules against each other:
    mac: int = 3                            # of a multiply-accumulate, with its share of loads and loops
    alu: int = 2                            # of another arithmetic operation
    launch: int = 50                        # of a call of a kernel: arguments, prologue, epilogue
    turn: int = 20                          # of a row inside a kernel: whose turn it is, where the row lies
    clock_hz: int = 0                       # the usual clock; 0: unknown, and no time can be given


@dataclass(frozen=True, slots=True)
class Memory:
    """A region and what it may hold."""

    bytes: int
    holds: tuple[str, ...]                  # of HELD


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
    emulator: Emulator | None = None

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


def known() -> list[str]:
    """Names of all targets that come with fuse2c."""
    return sorted(p.stem for p in FOLDER.glob("*.toml"))


def load(name: str) -> Target:
    """A target by name, or from the path of a .toml file. Raises TargetError."""
    own = not name.endswith(".toml")
    path = FOLDER / f"{name}.toml" if own else Path(name)
    if own and name not in known():
        raise TargetError(f"no target called {name!r}", hint=did_you_mean(name, known()))
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise TargetError(f"cannot read {path}: {e.strerror}", hint="is the path right?") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TargetError(f"{path.name} is not valid TOML: {e}") from None
    return parse(raw, path.name)


def parse(raw: dict[str, Any], where: str) -> Target:
    """A target from the content of its file. Raises TargetError for anything that is not as this module says."""
    row = dict(raw)
    processor = _fill(Processor, f"{where}: [processor]", row.pop("processor", {}))
    memories = _table(row.pop("memory", {}), f"{where}: [memory]")
    memory = {n: _fill(Memory, f"{where}: [memory.{n}]", m) for n, m in memories.items()}
    emulator = _fill(Emulator, f"{where}: [emulator]", row.pop("emulator")) if "emulator" in row else None
    target = _fill(Target, where, row | {"processor": processor, "memory": memory, "emulator": emulator})
    for region, m in memory.items():
        _one_of(f"{where}: [memory.{region}]", "holds", m.holds, HELD)
    for what in HELD:
        if not any(what in m.holds for m in memory.values()):
            raise TargetError(f"{where}: no memory holds the {what}", hint=f'add holds = ["{what}"] to one [memory.*]')
    _one_of(where, "status", (target.status,), STATUS)
    _one_of(where, "features", processor.features, FEATURES)
    return target


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
    values = {}
    for key, value in _table(row, where).items():
        if key not in hints:
            raise TargetError(f"{where} has no field {key!r}", hint=did_you_mean(key, hints))
        values[key] = tuple(value) if isinstance(value, list) else value
        if not _fits(values[key], hints[key]):
            raise TargetError(f"{where}: {key} is {value!r}", hint=EXPECTED.get(hints[key], ""))
    missing = [f.name for f in fields(cast(Any, cls)) if f.name not in values and f.default is f.default_factory]
    if missing:
        raise TargetError(f"{where} is incomplete: it lacks {', '.join(missing)}")
    return cls(**values)


EXPECTED = {int: "a number, above 0", str: "a text in quotes", tuple[str, ...]: 'a list of texts: ["a", "b"]'}


def _fits(value: Any, kind: Any) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    if kind == tuple[str, ...]:
        return isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    return kind is not str or isinstance(value, str)
