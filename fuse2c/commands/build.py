"""The command `build`."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuse2c.commands._common import compiled, model_options, show
from fuse2c.progress import Progress


@click.command(name="build")
@model_options
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write.")
def command(output: Path, **k: Any) -> None:
    """Write a C project: header, kernels, weights, build files, an example."""
    model = compiled(k)
    with Progress("writing"):
        model.emit(output)
    show(model.report(), f"  written to   : {output}")
