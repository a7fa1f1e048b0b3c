"""A board as data: processor, memories, compiler flags, emulator. Loaded from targets/*.toml, unknown keys refused."""
from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from fuse2c.errors import TargetError

FOLDER = Path(__file__).parent / "targets"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Processor:
    """What runs the kernels."""

    isa: str
    features: tuple[str, ...] = ()          # dsp, fpu-sp, fpu-dp, mve: what kernels may ask for
    cflags: tuple[str, ...] = ()            # for the cross compiler; empty on the host


@dataclass(frozen=True, slots=True)
class Memory:
    """A region and what it may hold."""

    bytes: int
    holds: tuple[str, ...]                  # "arena", "weights"


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
    status: str                             # "estimated" | "vendor" | "measured"
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
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        close = difflib.get_close_matches(name, known(), 1)
        raise TargetError(f"no target called {name!r}",
                          hint=f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known())}")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TargetError(f"{path.name} is not valid TOML: {e}") from None
    return parse(raw, path.name)


def parse(raw: dict[str, Any], where: str) -> Target:
    """A target from the content of its file."""
    row = dict(raw)
    processor = _fill(Processor, f"{where}: [processor]", row.pop("processor", {}))
    memory = {n: _fill(Memory, f"{where}: [memory.{n}]", m) for n, m in row.pop("memory", {}).items()}
    emulator = _fill(Emulator, f"{where}: [emulator]", row.pop("emulator")) if "emulator" in row else None
    target = _fill(Target, where, row | {"processor": processor, "memory": memory, "emulator": emulator})
    for what in ("arena", "weights"):
        if not any(what in m.holds for m in memory.values()):
            raise TargetError(f"{where}: no memory holds the {what}", hint=f'add holds = ["{what}"] to one [memory.*]')
    if target.status not in ("estimated", "vendor", "measured"):
        raise TargetError(f"{where}: status is {target.status!r}", hint="estimated, vendor or measured")
    return target


def _fill(cls: type[T], where: str, row: dict[str, Any]) -> T:
    names = {f.name for f in fields(cls)}                                       # type: ignore[arg-type]
    for key in row.keys() - names:
        close = difflib.get_close_matches(key, names, 1)
        raise TargetError(f"{where} has no field {key!r}", hint=f"did you mean {close[0]!r}?" if close else "")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    try:
        return cls(**values)
    except TypeError as e:
        raise TargetError(f"{where} is incomplete: {str(e).split('__init__() ')[-1]}") from None
