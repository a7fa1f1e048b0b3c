"""The command `check`."""
from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import click

from fuse2c import Compiled, report
from fuse2c import check as checking
from fuse2c.check import zeros
from fuse2c.commands._common import as_json_option, compiled, model_options, show, table
from fuse2c.errors import Mismatch
from fuse2c.progress import Progress


@click.command(name="check")
@model_options
@click.option("--samples", type=click.IntRange(1), default=20, show_default=True, help="Number of random inputs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--inputs", type=click.Path(path_type=Path), help="An .npz file with inputs of your own, by name.")
@click.option("--profile-sparsity", type=click.Path(path_type=Path), metavar="FILE",
              help="Write which share of each layer's operand is zero (of --inputs, if there are any), for --sparsity.")
@click.option("--sanitize", is_flag=True,
              help="Also run under AddressSanitizer and UndefinedBehaviorSanitizer; with several cores ThreadSanitizer, too.")
@click.option("--cc", help="The host compiler.")
@as_json_option
def command(samples: int, seed: int, inputs: Path | None, profile_sparsity: Path | None, sanitize: bool, cc: str | None,
            as_json: bool, **k: Any) -> None:
    """Compare generated C with the numpy reference and onnxruntime."""
    name, target = k["model"].name, k["target"]
    model = compiled(k, as_json)
    own = [] if inputs is None else checking.load_samples(model.plan, inputs)
    rows = own + checking.random_samples(model.plan, samples, seed)     # with states, yours are the first frames
    if profile_sparsity is not None:
        zeros.write(profile_sparsity, zeros.measured(model.plan, own or rows), len(own or rows))
    with Progress("checking") as progress:
        result = model.check(rows, cc=cc, progress=progress.update)
        if sanitize:
            progress.update("running under sanitizers")
            _sanitize(model, rows[:3])
    if as_json:
        click.echo(json.dumps(report.check_json(result, name, target)))
    else:
        table(report.check_table(result, model.plan))
        if result.ort_note:
            show(f"note: {result.ort_note}")
        if sanitize:
            show("sanitizers: clean")
    bad = next((f"{f}: {d.first}" for f, d in result.steps.items() if d.differing), result.outputs.first)
    if result.reference.differing:
        raise Mismatch(f"{result.reference.differing} elements differ from the reference; first {bad}")


def _sanitize(model: Compiled, rows: list[dict[str, Any]]) -> None:
    """A faultless run under sanitizers that also gives the same outputs."""
    with checking.HostModel(model.plan) as host:
        runs = [checking.sanitized(model.plan, rows, flags) for flags in checking.SANITIZERS[:1 + bool(model.plan.phases)]]
        for row, got in zip(rows * len(runs), chain(*runs), strict=True):
            for t, want in host.run(row).items():
                allowed = 1e-5 * max(1.0, checking.largest(want)) if want.dtype.kind == "f" else 0.0
                d = checking.difference(got[t], want, allowed)
                if d.differing:
                    raise Mismatch(f"output {t} differs under sanitizers: {d.first}")
