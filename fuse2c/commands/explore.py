"""The command `explore`."""
from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from fuse2c import explore, page, plots, report
from fuse2c.commands._common import as_json_option, show, table

FIGURES = ("ram_bytes", "weight_bytes", "launches", "cycles", "time_ms", "energy_uj")

SHOWN = ("ram_bytes", "launches", "cycles", "time_ms", "energy_uj")


@click.command(name="explore")
@click.argument("model", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--targets", required=True, metavar="NAME,...", help="The targets, or .toml files.")
@click.option("--options", "sweeps", multiple=True, metavar="KEY=VALUE,...",
              help="Values of an option; given several times, all combinations.")
@click.option("--results", type=click.Path(path_type=Path), metavar="FILE",
              help="Keep results here, a JSON object a line; what is there already is not computed again.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Write the Pareto plot as SVG.")
@click.option("--x", type=click.Choice(FIGURES), default="ram_bytes", show_default=True, help="The plot's first figure.")
@click.option("--y", type=click.Choice(FIGURES), default="cycles", show_default=True, help="The plot's second figure.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at a time; default: the cores of this computer.")
@click.option("--executor", type=click.Choice(["local", "dask"]), default="local", show_default=True,
              help="This computer, or a Dask cluster.")
@click.option("--scheduler", metavar="ADDRESS", help="Of the Dask cluster, such as tcp://host:8786.")
@as_json_option
def command(model: Path, targets: str, sweeps: tuple[str, ...], results: Path | None, plot: Path | None, x: str, y: str,
            jobs: int | None, executor: str, scheduler: str | None, as_json: bool) -> None:
    """Plan a model on many targets with many options, in parallel."""
    if (executor == "dask") != (scheduler is not None):
        raise click.UsageError("--executor dask goes with --scheduler ADDRESS")
    todo = explore.tasks(model, targets.split(","), map(explore.sweep, sweeps))
    execute = functools.partial(explore.local, workers=jobs) if scheduler is None else functools.partial(
        explore.dask, scheduler=scheduler)
    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task("planning", total=len(todo))
        found = explore.resumed(todo, results, execute, lambda n, of: progress.update(bar, completed=n))
    best = explore.unbeaten(found, x, y)
    if plot is not None:
        points = [(r["figures"][x], r["figures"][y], explore.label(r), r["key"] in best) for r in found
                  if r["figures"] and None not in (r["figures"][x], r["figures"][y])]
        plot.write_text(plots.standalone(plots.pareto(points, x, y)), encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"schema": "fuse2c-explore/1", "model": model.name,
                               "results": [r | {"unbeaten": r["key"] in best} for r in found]}))
        return
    rows = report.new_table(f"{model.name}: {len(found)} plans; * none has less of both {x} and {y}", "target, options:",
                            "RAM, bytes", "launches", "cycles", "ms", "uJ", ":")
    for r in (r for r in found if r["figures"]):
        rows.add_row(explore.label(r), *(page.number(r["figures"][k]) for k in SHOWN), "*" if r["key"] in best else "")
    table(rows)
    show(*(f"no plan for {explore.label(r)}: {r['error']}" for r in found if r["error"]))
