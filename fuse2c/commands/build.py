"""The command `build`."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fuse2c.commands._common import compiled, compiler_options, model_options, show
from fuse2c.progress import Progress

CERTIFICATE = "certificate.json"


@click.command(name="build")
@model_options
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option("--certify", is_flag=True, help="Compile, prove the worst case, write the evidence into the folder.")
@compiler_options
def command(output: Path, certify: bool, opt: str, cc: str | None, **k: Any) -> None:
    """Write a C project: header, kernels, weights, build files, an example."""
    model, evidence, lines = compiled(k, opt=opt, cc=cc), {}, []
    if certify:
        with Progress("building and analysing"):
            model, result = model.certified(opt=opt, cc=cc)
        from fuse2c.wcet.facts import summary  # it needs the extra, which the analysis asked for
        evidence[CERTIFICATE] = json.dumps(result.json(), indent=1) + "\n"
        lines = summary(result)
    elif model.plan.slices is not None:
        with Progress("building and analysing"):
            model = model.proven(opt=opt, cc=cc)
    with Progress("writing"):
        model.emit(output, evidence)
    show(model.report(), f"  written to   : {output}", *lines)
