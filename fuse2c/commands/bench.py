"""The command `bench`."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fuse2c import firmware as project
from fuse2c import report
from fuse2c.commands._common import as_json_option, compiled, compiler_options, model_options, show, table
from fuse2c.errors import Mismatch
from fuse2c.progress import Progress


@click.command(name="bench")
@model_options
@compiler_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random input.")
@click.option("--firmware", type=click.Path(path_type=Path), metavar="DIR",
              help="Write a project for the board that times each kernel, and measure nothing here.")
@as_json_option
def command(opt: str, cc: str | None, seed: int, firmware: Path | None, as_json: bool, **k: Any) -> None:
    """Measure instructions (in QEMU), flash and RAM."""
    model = compiled(k, as_json, opt=opt, cc=cc)
    if firmware is not None:
        show(f"written to {project.write(model.plan, firmware, seed)}; its Makefile says how to go on")
        return
    with Progress("building and running"):
        result = model.proven(opt=opt, cc=cc).bench(opt=opt, cc=cc, seed=seed)
    if as_json:
        click.echo(json.dumps(result.json()))
    else:
        table(report.bench_table(result))
        show(f"{result.compiler}", f"{result.flags}")
    if result.mismatches:
        raise Mismatch(f"{result.mismatches} output elements differ between {result.target} and the host")
