"""Worst-case execution time from machine code: `analyse` a linked Thumb program, see docs/WCET.md.

Needs the extra `wcet`: pyelftools, capstone, networkx, highspy.
"""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuse2c.errors import ToolMissing

if TYPE_CHECKING:
    from fuse2c.wcet.analysis import Result


def analyse(path: Path, entry: str, core: str = "", multiply: int = 1, bounds: Sequence[str] = (),
            calls: Sequence[str] = (), **interface: Any) -> Result:
    """The worst case of the function `entry` of a linked program, on `core` (default: what the program says it is for).

    `multiply`: cycles of a multiplication on an M0+, 1 or 32. `bounds`, `calls`: what is known of loops and of calls through
    pointers, as "f+0x12=40" and "f+0x20=g,h", see `given.read`. `interface`: what is known of a generated model's
    functions, see analysis.Interface. Raises Refused where there is no bound, or none that is found; ToolMissing without the
    extra.
    """
    try:
        from fuse2c.wcet import analysis
    except ImportError as error:
        raise ToolMissing(f"worst-case analysis needs {error.name}", hint="pip install 'fuse2c[wcet]'") from None
    return analysis.analyse(path, entry, core, multiply, analysis.Interface(**interface), (bounds, calls))
