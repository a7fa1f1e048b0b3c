"""The operators: every public module of this folder defines `OP`, `OPS` or, where it only expands, `IMPORTS`."""
from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from types import ModuleType

from fuse2c.op import Op, Source


@cache
def _modules() -> tuple[ModuleType, ...]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names)


@cache
def all_ops() -> dict[str, Op]:
    """Name -> operator. Adding a file to this folder is the whole registration."""
    ops = [op for m in _modules() for op in (getattr(m, "OPS", None) or filter(None, [getattr(m, "OP", None)]))]
    return {op.name: op for op in ops}


@cache
def onnx_importers() -> dict[str, Callable[[Source], None]]:
    """ONNX operator name -> the function that adds its IR nodes."""
    found = {name: load for op in all_ops().values() for name, load in op.onnx.items()}
    for module in _modules():
        found |= getattr(module, "IMPORTS", {})
    return found
