"""The command `inspect`."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuse2c import drawing, imported
from fuse2c.commands._common import compiled, model_options, settings, show
from fuse2c.ir.text import dump


@click.command(name="inspect")
@model_options
@click.option("--fused", is_flag=True, help="The kernels as a tree, with the nodes of the model in each.")
@click.option("--dot", type=click.Path(path_type=Path), metavar="FILE", help="Write the fused graph for Graphviz.")
def command(fused: bool, dot: Path | None, **k: Any) -> None:
    """Show the model's graph as imported, with shapes; or its kernels."""
    if not fused and dot is None:
        show(dump(imported(**settings(k))).rstrip("\n"))
        return
    found = compiled(k).plan
    if fused:
        show(*drawing.tree(found))
    if dot is not None:
        dot.write_text(drawing.dot(found), encoding="utf-8")
