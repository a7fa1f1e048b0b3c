"""The commands, a module each: `command` in it is registered by being there."""
from __future__ import annotations

import importlib
import pkgutil

import click


def all_commands() -> list[click.Command]:
    """The command of every public module in this folder."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return [importlib.import_module(f"{__name__}.{name}").command for name in names]
