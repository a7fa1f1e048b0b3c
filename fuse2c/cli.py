"""The command line: `fuse2c build|check|bench|plan|inspect|list`. Exit: 0 ok, 1 model or limits, 2 usage, 3 bug."""
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from fuse2c import Compiled, Options, __version__, compile_model, report
from fuse2c import check as checking
from fuse2c import target as targets
from fuse2c.errors import Fuse2cError, InternalError, Mismatch
from fuse2c.ir.text import dump
from fuse2c.options import CHOICES

F = TypeVar("F", bound=Callable[..., Any])
out, err = Console(), Console(stderr=True)


def model_options(command: F) -> F:
    """The model, the target, and every option of a compilation: the same for all commands that compile."""
    for decorate in reversed((
        click.argument("model", type=click.Path(path_type=Path)),
        click.option("-t", "--target", default="host", show_default=True, help="A target's name, or a .toml file."),
        click.option("--dim", multiple=True, metavar="NAME=VALUE", help="A value for a symbolic dimension."),
        click.option("--name", help="Prefix of all C names; default: the file's name."),
        click.option("--arena", type=click.Choice(CHOICES["arena"]), default="static", show_default=True,
                     help="Working memory: a static buffer, or one that the caller passes."),
        click.option("--io", type=click.Choice(CHOICES["io"]), default="model", show_default=True,
                     help="Types of inputs and outputs."),
        click.option("--requant", type=click.Choice(CHOICES["requant"]), default="fixed", show_default=True,
                     help="How integer layers round."),
        click.option("--optimize", type=click.Choice(CHOICES["optimize"]), default="cycles", show_default=True,
                     help="Fewest cycles, or least RAM by streaming rows."),
        click.option("--ram", type=click.IntRange(0), metavar="BYTES", help="Limit for the arena."),
        click.option("--flash", type=click.IntRange(0), metavar="BYTES", help="Limit for the weights."),
        click.option("--no-fuse", is_flag=True, help="One kernel for each node, for comparison."),
        click.option("--dump-after", multiple=True, metavar="PASS", help="Print the plan after a pass, or after 'all'."),
        click.option("--debug", is_flag=True, help="Show a traceback when something fails."),
    )):
        command = decorate(command)
    return command


def compiled(k: dict[str, Any]) -> Compiled:
    """Compile with the options of a command; what is left in `k` is the command's own."""
    dims = {}
    for text in k.pop("dim"):
        name, _, value = text.rpartition("=")
        if not name or not value.isdigit() or int(value) < 1:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE with a positive VALUE", param_hint="--dim")
        dims[name] = int(value)
    options = Options(dims=dims, fuse=not k.pop("no_fuse"),
                      **{key: k.pop(key) for key in ("name", "arena", "io", "requant", "optimize", "ram", "flash")})
    k.pop("debug")
    return compile_model(k.pop("model"), k.pop("target"), options, tuple(k.pop("dump_after")))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fuse2c")
def cli() -> None:
    """Compile an ONNX neural network into fused, static, analysable C."""


@cli.command()
@model_options
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write.")
def build(output: Path, **k: Any) -> None:
    """Write a C project: header, kernels, weights, build files, an example."""
    model = compiled(k)
    folder = model.emit(output)
    out.print(model.report(), highlight=False)
    out.print(f"  written to   : {folder}", highlight=False)


@cli.command()
@model_options
@click.option("--samples", type=click.IntRange(1), default=20, show_default=True, help="Number of random inputs.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--inputs", type=click.Path(path_type=Path), help="An .npz file with inputs of your own, by name.")
@click.option("--sanitize", is_flag=True, help="Also run under AddressSanitizer and UndefinedBehaviorSanitizer.")
@click.option("--cc", help="The host compiler.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def check(samples: int, seed: int, inputs: Path | None, sanitize: bool, cc: str | None, as_json: bool, **k: Any) -> None:
    """Compare generated C with the numpy reference and onnxruntime."""
    name, target = k["model"].name, k["target"]
    model = compiled(k)
    rows = checking.random_samples(model.plan, samples, seed)
    if inputs is not None:
        rows += checking.load_samples(model.plan, inputs)
    with err.status("checking") as status:
        result = model.check(rows, cc=cc, progress=status.update)
        if sanitize:
            status.update("running under sanitizers")
            _sanitize(model, rows[:3])
    if as_json:
        click.echo(json.dumps(report.check_json(result, name, target)))
    else:
        out.print(report.check_table(result, model.plan))
        if result.ort_note:
            out.print(f"note: {result.ort_note}", highlight=False)
        if sanitize:
            out.print("sanitizers: clean", highlight=False)
    bad = next((f"{f}: {d.first}" for f, d in result.steps.items() if d.differing), result.outputs.first)
    if result.reference.differing:
        raise Mismatch(f"{result.reference.differing} elements differ from the reference; first {bad}")


def _sanitize(model: Compiled, rows: list[dict[str, Any]]) -> None:
    """A faultless run under sanitizers that also gives the same outputs."""
    with checking.HostModel(model.plan) as host:
        for row, got in zip(rows, checking.sanitized(model.plan, rows), strict=True):
            for t, want in host.run(row).items():
                d = checking.difference(got[t], want, 1e-5 * max(1.0, float(abs(want).max())) if want.dtype.kind == "f" else 0)
                if d.differing:
                    raise Mismatch(f"output {t} differs under sanitizers: {d.first}")


@cli.command()
@model_options
@click.option("-O2", "opt", flag_value="-O2", help="Optimise like -O2.")
@click.option("-O3", "opt", flag_value="-O3", default=True, help="Optimise like -O3 (default).")
@click.option("-Os", "opt", flag_value="-Os", help="Optimise for size.")
@click.option("--cc", help="The (cross) compiler.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random input.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def bench(opt: str, cc: str | None, seed: int, as_json: bool, **k: Any) -> None:
    """Measure instructions (in QEMU), flash and RAM."""
    with err.status("building and running"):
        result = compiled(k).bench(opt=opt, cc=cc, seed=seed)
    if as_json:
        click.echo(json.dumps(result.json()))
    else:
        out.print(report.bench_table(result))
    if result.mismatches:
        raise Mismatch(f"{result.mismatches} output elements differ between {result.target} and the host")


@cli.command()
@model_options
@click.option("--why", is_flag=True, help="Every decision with its reason.")
def plan(why: bool, **k: Any) -> None:
    """Show kernels, memory and decisions without writing anything."""
    model = compiled(k)
    out.print(report.steps(model.plan))
    out.print(model.report(), highlight=False)
    if why:
        for line in report.decisions(model.plan):
            out.print(line, highlight=False, markup=False, soft_wrap=True)


@cli.command()
@model_options
def inspect(**k: Any) -> None:
    """Show the model's graph as imported, with shapes."""
    model = compiled(k)
    assert model.plan.source is not None
    click.echo(dump(model.plan.source), nl=False)


@cli.command(name="list")
@click.argument("what", type=click.Choice(["ops", "targets", "rules"]))
def list_(what: str) -> None:
    """List operators, targets or rules."""
    if what == "targets":
        for name in targets.known():
            t = targets.load(name)
            click.echo(f"{name:16} {t.title}; {t.status}; {t.source}")
    elif what == "ops":
        for name, kinds, remark in report.operators():
            click.echo(f"{name:20} {kinds:22} {remark}".rstrip())
    else:
        for kind, name, pays in report.all_rules():
            click.echo(f"{kind:5} {name:18} {pays}")


def main() -> None:
    """Run a command; a user's error is printed without a traceback."""
    debug = "--debug" in sys.argv[1:]
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except Fuse2cError as e:
        if debug:
            raise
        click.echo(str(e), err=True)
        sys.exit(e.exit_status)
    except Exception as e:
        if debug:
            raise
        click.echo(str(InternalError(f"{type(e).__name__}: {e}",
                                     hint="this is a bug in fuse2c; run again with --debug and report it")), err=True)
        sys.exit(InternalError.exit_status)
