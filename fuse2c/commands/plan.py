"""The command `plan`."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fuse2c import memory, report
from fuse2c.commands._common import as_json_option, compiled, model_options, show, table
from fuse2c.progress import Progress


@click.command(name="plan")
@model_options
@click.option("--why", is_flag=True, help="Every decision with its reason.")
@click.option("--pareto", is_flag=True, help="The schedules to choose from: RAM against estimated instructions.")
@click.option("--map", "as_map", is_flag=True, help="The memory map as text.")
@click.option("--map-svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the memory map as a picture.")
@as_json_option
def command(why: bool, pareto: bool, as_map: bool, map_svg: Path | None, as_json: bool, **k: Any) -> None:
    """Show kernels, memory and decisions without writing any C."""
    name = k["model"].name
    model = compiled(k, as_json)
    if map_svg is not None:
        map_svg.write_text(memory.svg(model.plan), encoding="utf-8")
    if as_json:
        with Progress("compiling without fusion"):
            unfused = model.unfused().plan
        click.echo(json.dumps(report.plan_json(model.plan, unfused, name, why, pareto)))
        return
    table(report.steps(model.plan))
    show(model.report())
    if pareto:
        table(report.front(model.plan))
    if as_map:
        show(memory.text(model.plan))
    if why:
        show(*report.decisions(model.plan))
