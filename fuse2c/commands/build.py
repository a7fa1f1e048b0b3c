"""The command `build`."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuse2c.commands._common import compiled, compiler_options, model_options, show
from fuse2c.progress import Progress


@click.command(name="build")
@model_options
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@compiler_options
def command(output: Path, opt: str, cc: str | None, **k: Any) -> None:
    """Write a C project: header, kernels, weights, build files, an example."""
    model = compiled(k)
    if model.plan.slices is not None:
        with Progress("building and analysing"):
            model = model.proven(opt=opt, cc=cc)
    with Progress("writing"):
        model.emit(output)
    show(model.report(), f"  written to   : {output}")
