"""The command `wcet`."""
from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import click

from fuse2c.commands._common import as_json_option, compiled, compiler_options, model_options, show
from fuse2c.progress import Progress
from fuse2c.target import CORES
from fuse2c.wcet import analyse


@click.command(name="wcet")
@functools.partial(model_options, required=False)
@click.option("--elf", type=click.Path(path_type=Path), help="Analyse this linked program instead of a model.")
@click.option("--entry", help="With --elf: the function to analyse.")
@click.option("--core", type=click.Choice(CORES), help="With --elf: the core; default: what the program says.")
@click.option("--multiply", type=click.Choice(["1", "32"]), default="1", show_default=True,
              help="With --elf: cycles of a multiplication on an M0+.")
@click.option("--bound", "bounds", multiple=True, metavar="PLACE=TURNS",
              help="With --elf: a loop turns at most so often each time; may be repeated.")
@click.option("--calls", multiple=True, metavar="PLACE=FUNCTION,..",
              help="With --elf: what a call through a pointer calls; may be repeated.")
@click.option("--annotations", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="With --elf: a file of loop bounds (.ff).")
@compiler_options
@click.option("--certificate", type=click.Path(path_type=Path), metavar="FILE", help="Write the evidence as JSON.")
@click.option("--facts", type=click.Path(path_type=Path), metavar="FILE",
              help="Write loop bounds for aiT (.ais) or OTAWA (.ffx, .ff).")
@as_json_option
def command(elf: Path | None, entry: str | None, core: str | None, multiply: str, opt: str, cc: str | None,
         bounds: tuple[str, ...], calls: tuple[str, ...], annotations: Path | None, certificate: Path | None,
         facts: Path | None, as_json: bool, **k: Any) -> None:
    """Prove the worst case from the machine code: instructions, stack, loops."""
    if (elf is None) == (k["model"] is None) or (elf is None) != (entry is None):
        raise click.UsageError("give a MODEL, or --elf with --entry")
    if elf is None and (bounds or calls or annotations):
        raise click.UsageError("--bound, --calls and --annotations are of --elf: a model needs none")
    if elf is not None and entry is not None:
        if annotations is not None:
            from fuse2c.wcet.given import facts as loop_bounds
            bounds = (*loop_bounds(annotations.read_text(encoding="utf-8")), *bounds)
        result = analyse(elf, entry, core or "", int(multiply), bounds, calls)
    else:
        model = compiled(k, as_json, opt=opt, cc=cc)
        with Progress("building and analysing"):
            result = model.proven(opt=opt, cc=cc).wcet(opt=opt, cc=cc)
    from fuse2c.wcet.facts import FORMATS, summary  # it needs the extra, which `analyse` asked for
    if facts is not None:
        if facts.suffix not in FORMATS:
            raise click.BadParameter(f"{facts.name} ends in none of {', '.join(FORMATS)}", param_hint="--facts")
        facts.write_text(FORMATS[facts.suffix](result), encoding="utf-8")
    if certificate is not None:
        certificate.write_text(json.dumps(result.json(), indent=1) + "\n", encoding="utf-8")
    if as_json:
        click.echo(json.dumps(result.json()))
    else:
        show(*summary(result))
