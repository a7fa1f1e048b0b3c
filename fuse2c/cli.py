"""The command line: `fuse2c build|check|bench|wcet|plan|inspect|list`. Exit: 0 ok, 1 model or limits, 2 usage, 3 bug."""
from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from fuse2c import Compiled, Options, __version__, compile_model, drawing, imported, memory, report
from fuse2c import check as checking
from fuse2c import target as targets
from fuse2c.errors import Fuse2cError, InternalError, Mismatch, OutputError
from fuse2c.frontend.inputs import read_array
from fuse2c.ir.text import dump
from fuse2c.names import identifier
from fuse2c.options import CHOICES, Value
from fuse2c.pipeline import PIPELINE
from fuse2c.progress import Progress
from fuse2c.target import CORES
from fuse2c.wcet import analyse

F = TypeVar("F", bound=Callable[..., Any])
DUMPS = (*(stage.name for stage in PIPELINE), "all")
as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


def table(content: Any) -> None:
    """Print a table; names from a model are no markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(content)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def model_options(command: F, required: bool = True) -> F:
    """The model, the target, and every option of a compilation: the same for all commands that compile."""
    for decorate in reversed((
        click.argument("model", type=click.Path(path_type=Path), required=required),
        click.option("-t", "--target", default="host", show_default=True, help="A target's name, or a .toml file."),
        click.option("--dim", multiple=True, metavar="NAME=VALUE", help="A value for a symbolic dimension."),
        click.option("--bind", multiple=True, metavar="NAME=VALUE",
                     help="Make an input a constant: numbers (1,2,3), or an .npy file."),
        click.option("--stateful", multiple=True, metavar="INPUT=OUTPUT,...",
                     help="Keep outputs between runs as the inputs of the next."),
        click.option("--name", help="Prefix of all C names; default: the file's name."),
        click.option("--arena", type=click.Choice(CHOICES["arena"]), default="static", show_default=True,
                     help="Working memory: a static buffer, or one that the caller passes."),
        click.option("--io", type=click.Choice(CHOICES["io"]), default="model", show_default=True,
                     help="Types of inputs and outputs."),
        click.option("--requant", type=click.Choice(CHOICES["requant"]), default="fixed", show_default=True,
                     help="How integer layers round."),
        click.option("--optimize", type=click.Choice(CHOICES["optimize"]), default="cycles", show_default=True,
                     help="Fewest instructions, least RAM times instructions, or least RAM."),
        click.option("--place", type=click.Choice(CHOICES["place"]), default="heuristic", show_default=True,
                     help="How addresses are found."),
        click.option("--input-rows", is_flag=True, help="The input is pushed row by row and never stored as a whole."),
        click.option("--ram", type=click.IntRange(0), metavar="BYTES", help="Limit for the arena: the best plan that fits."),
        click.option("--flash", type=click.IntRange(0), metavar="BYTES", help="Limit for the weights."),
        click.option("--no-fuse", is_flag=True, help="One kernel for each node, for comparison."),
        click.option("--no-fuse-rule", multiple=True, metavar="RULE", help="Leave a rule of `list rules` out."),
        click.option("--fuse-barrier", multiple=True, metavar="NODE", help="Fuse nothing behind a node of the model."),
        click.option("--share-kernels", type=click.Choice(CHOICES["share_kernels"]), default="auto", show_default=True,
                     help="One C function for kernels that differ in their weights only."),
        click.option("--dump-after", multiple=True, type=click.Choice(DUMPS), metavar="PASS",
                     help=f"Print the plan after a pass: {', '.join(DUMPS)}."),
        click.option("--debug", is_flag=True, help="Show a traceback when something fails."),
    )):
        command = decorate(command)
    return command


def settings(k: dict[str, Any]) -> dict[str, Any]:
    """The arguments of compile_model from the options of a command; what is left in `k` is the command's own."""
    dims = {}
    for text in k.pop("dim"):
        name, _, value = text.rpartition("=")
        if not name or not value.isdecimal() or not 0 < int(value) < 2 ** 31:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE with a positive VALUE", param_hint="--dim")
        dims[name] = int(value)
    if k["name"] is not None and identifier(k["name"]) != k["name"]:
        raise click.BadParameter(f"{k['name']!r} is no lower-case C identifier; {identifier(k['name'])!r} would be",
                                 param_hint="--name")
    k.pop("debug")
    options = Options(dims=dims, bind=dict(map(_binding, k.pop("bind"))), stateful=_pairs(k.pop("stateful")),
                      fuse=not k.pop("no_fuse"), no_fuse_rules=k.pop("no_fuse_rule"), fuse_barriers=k.pop("fuse_barrier"),
                      **{key: k.pop(key) for key in ("name", "arena", "io", "requant", "optimize", "place", "input_rows",
                                                     "share_kernels", "ram", "flash")})
    return {"path": k.pop("model"), "target_name": k.pop("target"), "options": options,
            "dump_after": tuple(k.pop("dump_after"))}


def _pairs(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The pairs of `--stateful h0=hn,c0=cn`, which may be given several times."""
    pairs = []
    for text in ",".join(given).split(",") if given else ():
        name, _, output = (part.strip() for part in text.partition("="))
        if not name or not output:
            raise click.BadParameter(f"{text!r} is not INPUT=OUTPUT", param_hint="--stateful")
        pairs.append((name, output))
    return tuple(pairs)


def _binding(text: str) -> tuple[str, Value]:
    """Name and value of one `--bind`."""
    name, equals, value = text.partition("=")
    if name and value.endswith(".npy"):
        return name, read_array(Path(value))
    try:
        numbers = [_number(n) for n in value.split(",") if value]
    except ValueError:
        equals = ""
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=NUMBER,... or NAME=FILE.npy", param_hint="--bind")
    return name, numbers


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def compiled(k: dict[str, Any], as_json: bool = False) -> Compiled:
    """Compile with the options of a command; with `as_json` standard output is left to one object."""
    chosen = settings(k)
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout), Progress("compiling"):
        return compile_model(**chosen)


def show(*lines: str) -> None:
    """Text from a model or about it, with its control characters escaped."""
    for line in "\n".join(lines).split("\n"):
        click.echo("".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in line))


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
    with Progress("writing"):
        model.emit(output)
    show(model.report(), f"  written to   : {output}")


@cli.command()
@model_options
@click.option("--samples", type=click.IntRange(1), default=20, show_default=True, help="Number of random inputs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--inputs", type=click.Path(path_type=Path), help="An .npz file with inputs of your own, by name.")
@click.option("--sanitize", is_flag=True, help="Also run under AddressSanitizer and UndefinedBehaviorSanitizer.")
@click.option("--cc", help="The host compiler.")
@as_json_option
def check(samples: int, seed: int, inputs: Path | None, sanitize: bool, cc: str | None, as_json: bool, **k: Any) -> None:
    """Compare generated C with the numpy reference and onnxruntime."""
    name, target = k["model"].name, k["target"]
    model = compiled(k, as_json)
    rows = checking.random_samples(model.plan, samples, seed)
    if inputs is not None:
        rows = checking.load_samples(model.plan, inputs) + rows     # with states, yours are the first frames
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
        for row, got in zip(rows, checking.sanitized(model.plan, rows), strict=True):
            for t, want in host.run(row).items():
                allowed = 1e-5 * max(1.0, checking.largest(want)) if want.dtype.kind == "f" else 0.0
                d = checking.difference(got[t], want, allowed)
                if d.differing:
                    raise Mismatch(f"output {t} differs under sanitizers: {d.first}")


@cli.command()
@model_options
@click.option("-O2", "opt", flag_value="-O2", help="Optimise like -O2.")
@click.option("-O3", "opt", flag_value="-O3", default=True, help="Optimise like -O3 (default).")
@click.option("-Os", "opt", flag_value="-Os", help="Optimise for size.")
@click.option("--cc", help="The (cross) compiler.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random input.")
@as_json_option
def bench(opt: str, cc: str | None, seed: int, as_json: bool, **k: Any) -> None:
    """Measure instructions (in QEMU), flash and RAM."""
    model = compiled(k, as_json)
    with Progress("building and running"):
        result = model.bench(opt=opt, cc=cc, seed=seed)
    if as_json:
        click.echo(json.dumps(result.json()))
    else:
        table(report.bench_table(result))
        show(f"{result.compiler}", f"{result.flags}")
    if result.mismatches:
        raise Mismatch(f"{result.mismatches} output elements differ between {result.target} and the host")


@cli.command()
@functools.partial(model_options, required=False)
@click.option("--elf", type=click.Path(path_type=Path), help="Analyse this linked program instead of a model.")
@click.option("--entry", help="With --elf: the function to analyse.")
@click.option("--core", type=click.Choice(CORES), help="With --elf: the core; default: what the program says.")
@click.option("--multiply", type=click.Choice(["1", "32"]), default="1", show_default=True,
              help="With --elf: cycles of a multiplication on an M0+.")
@click.option("-O1", "opt", flag_value="-O1", help="Optimise like -O1.")
@click.option("-O2", "opt", flag_value="-O2", help="Optimise like -O2.")
@click.option("-O3", "opt", flag_value="-O3", default=True, help="Optimise like -O3 (default).")
@click.option("-Os", "opt", flag_value="-Os", help="Optimise for size.")
@click.option("--cc", help="The cross compiler.")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="FILE", help="Write the evidence as JSON.")
@click.option("--facts", type=click.Path(path_type=Path), metavar="FILE",
              help="Write loop bounds for aiT (.ais) or OTAWA (.ffx, .ff).")
@as_json_option
def wcet(elf: Path | None, entry: str | None, core: str | None, multiply: str, opt: str, cc: str | None,
         certificate: Path | None, facts: Path | None, as_json: bool, **k: Any) -> None:
    """Prove the worst case from the machine code: instructions, stack, loops."""
    if (elf is None) == (k["model"] is None) or (elf is None) != (entry is None):
        raise click.UsageError("give a MODEL, or --elf with --entry")
    if elf is not None and entry is not None:
        result = analyse(elf, entry, core or "", int(multiply))
    else:
        model = compiled(k, as_json)
        with Progress("building and analysing"):
            result = model.wcet(opt=opt, cc=cc)
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


@cli.command()
@model_options
@click.option("--why", is_flag=True, help="Every decision with its reason.")
@click.option("--pareto", is_flag=True, help="The schedules to choose from: RAM against estimated instructions.")
@click.option("--map", "as_map", is_flag=True, help="The memory map as text.")
@click.option("--map-svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the memory map as a picture.")
@as_json_option
def plan(why: bool, pareto: bool, as_map: bool, map_svg: Path | None, as_json: bool, **k: Any) -> None:
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


@cli.command()
@model_options
@click.option("--fused", is_flag=True, help="The kernels as a tree, with the nodes of the model in each.")
@click.option("--dot", type=click.Path(path_type=Path), metavar="FILE", help="Write the fused graph for Graphviz.")
def inspect(fused: bool, dot: Path | None, **k: Any) -> None:
    """Show the model's graph as imported, with shapes; or its kernels."""
    if not fused and dot is None:
        show(dump(imported(**settings(k))).rstrip("\n"))
        return
    found = compiled(k).plan
    if fused:
        show(*drawing.tree(found))
    if dot is not None:
        dot.write_text(drawing.dot(found), encoding="utf-8")


@cli.command(name="list")
@click.argument("what", type=click.Choice(["ops", "targets", "rules"]))
def list_(what: str) -> None:
    """List operators, targets or rules."""
    if what == "targets":
        for name in targets.known():
            t = targets.load(name)
            click.echo(f"{name:14} {t.title}\n{'':14} {t.status}: {t.source}")
    elif what == "ops":
        table(report.operators())
    else:
        for kind, name, pays in report.all_rules():
            click.echo(f"{kind:5} {name:18} {pays}")


def main() -> None:
    """Run a command; a user's error is printed without a traceback."""
    debug = "--debug" in sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")       # names that the terminal's encoding lacks
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except Exception as e:
        if debug:
            raise
        error = as_error(e)
        click.echo(str(error), err=True)
        sys.exit(error.exit_status)


def as_error(e: Exception) -> Fuse2cError:
    """What the user is told about an exception: its own text, what the system says, or that it is our bug."""
    if isinstance(e, Fuse2cError):
        return e
    if isinstance(e, OSError) and e.strerror:
        return OutputError(f"{e.strerror}: {e.filename}" if e.filename else e.strerror)
    return InternalError(f"{type(e).__name__}: {e}", hint="this is a bug in fuse2c; run again with --debug and report it")
