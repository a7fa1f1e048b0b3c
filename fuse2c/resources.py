"""Where templates/ and runtime_c/ are: beside the package in a checkout, inside it once installed."""
from __future__ import annotations

from pathlib import Path


def folder(name: str) -> Path:
    """The folder `name` ("templates" or "runtime_c") of this installation."""
    installed = Path(__file__).parent / f"_{name}"
    return installed if installed.is_dir() else Path(__file__).parents[1] / name
