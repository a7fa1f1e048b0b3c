"""The command `compare`."""
from __future__ import annotations

import contextlib
import functools
import json
import sys
from typing import Any

import click

from fuse2c import compile_model, page, report, study
from fuse2c.commands._common import as_json_option, model_options, settings, table
from fuse2c.progress import Progress


@click.command(name="compare")
@functools.partial(model_options, several=True)
@as_json_option
def command(as_json: bool, **k: Any) -> None:
    """Show the figures of a model on several targets side by side."""
    name, chosen = k["model"].name, settings(k)
    found: dict[str, dict[str, Any]] = {}
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout), Progress("compiling") as progress:
        for target in dict.fromkeys(chosen.pop("target_name")):
            progress.update(f"compiling for {target}")
            found[target] = study.figures(compile_model(target_name=target, **chosen).plan)
    if as_json:
        click.echo(json.dumps({"schema": "fuse2c-compare/1", "model": name, "targets": found}))
        return
    rows = report.new_table(name, ":", *found)
    for key, value in next(iter(found.values())).items():
        if not isinstance(value, dict):
            rows.add_row(key.replace("_", " "), *(page.number(f[key]) for f in found.values()))
    table(rows)
