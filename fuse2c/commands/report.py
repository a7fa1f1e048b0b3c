"""The command `report`."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fuse2c import Compiled, page, study
from fuse2c.commands._common import as_json_option, compiled, model_options, show
from fuse2c.errors import Fuse2cError
from fuse2c.progress import Progress


@click.command(name="report")
@model_options
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as one HTML file.")
@click.option("--measure", is_flag=True, help="Also count instructions in QEMU, before and after fusion.")
@click.option("--no-wcet", is_flag=True, help="Leave the worst case out, which takes seconds.")
@as_json_option
def command(output: Path | None, measure: bool, no_wcet: bool, as_json: bool, **k: Any) -> None:
    """Show everything about a plan: figures before and after fusion, graph, memory, roofline, decisions."""
    if output is None and not as_json:
        raise click.UsageError("give a FILE with -o, or --json")
    name, model = k["model"].name, compiled(k, as_json)
    with Progress("compiling without fusion") as progress:
        unfused = model.unfused()
        found = study.of(model.plan, unfused.plan, name)
        if measure:
            progress.update("building and running")
            before, after = unfused.bench(), model.bench()
            found["measured"] = {"unfused": before.instructions, "fused": after.instructions,
                                 "spills": after.json()["spills"], "spills_unfused": before.json()["spills"]}
        if not no_wcet:
            progress.update("building and analysing")
            found |= _worst(model)
        if output is not None:
            progress.update("drawing")
            output.write_text(page.html(found), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(found))
    else:
        show(model.report(), f"  written to   : {output}")


def _worst(model: Compiled) -> dict[str, Any]:
    """The keys about the worst case; a reason where there is none."""
    try:
        return {"wcet": model.wcet().json(), "wcet_note": ""}
    except Fuse2cError as error:
        return {"wcet_note": f"No worst case: {error.args[0]}" + (f" ({error.hint})" if error.hint else "")}
