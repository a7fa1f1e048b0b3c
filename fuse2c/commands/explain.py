"""The command `explain`."""
from __future__ import annotations

from typing import Any

import click

from fuse2c import explain
from fuse2c.commands._common import compiled, model_options, show


@click.command(name="explain")
@model_options
@click.argument("node")
def command(node: str, **k: Any) -> None:
    """Say why a node was or was not fused, placed, streamed, and what would change it."""
    show(*explain.node(compiled(k).plan, node))
