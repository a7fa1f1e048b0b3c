"""What the commands share: options of a compilation, and how text is printed."""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from fuse2c import Compiled, Options, compile_model
from fuse2c.check import zeros
from fuse2c.errors import Fuse2cError
from fuse2c.frontend.inputs import read_array
from fuse2c.names import identifier
from fuse2c.options import CHOICES, Value
from fuse2c.pipeline import PIPELINE
from fuse2c.progress import Progress

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


class Objective(click.ParamType):
    """One of the objectives, or the weights of a sum."""

    name = "objective"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself, if it is one."""
        try:
            return Options(optimize=value).optimize
        except Fuse2cError as error:
            self.fail(f"{error.args[0]}: {error.hint}", param, ctx)


def model_options(command: F, required: bool = True, several: bool = False) -> F:
    """The model, the target (or several), and every option of a compilation: the same for all commands that compile."""
    for decorate in reversed((
        click.argument("model", type=click.Path(path_type=Path), required=required),
        click.option("-t", "--target", default=("host",) if several else "host", multiple=several, show_default=True,
                     help="A target's name, or a .toml file."),
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
        click.option("--optimize", type=Objective(), default="cycles", show_default=True, metavar="OBJECTIVE",
                     help="cycles, balanced (RAM times cycles), ram, energy, or weights: cycles=1,ram=0.5."),
        click.option("--place", type=click.Choice(CHOICES["place"]), default="heuristic", show_default=True,
                     help="How addresses are found."),
        click.option("--input-rows", is_flag=True, help="The input is pushed row by row and never stored as a whole."),
        click.option("--ram", type=click.IntRange(0), metavar="BYTES", help="Limit for the arena: the best plan that fits."),
        click.option("--flash", type=click.IntRange(0), metavar="BYTES", help="Limit for weights and code, as linked."),
        click.option("--winograd", type=click.Choice(CHOICES["winograd"]), default="flash", show_default=True,
                     help="3x3 convolutions in fewer instructions for more flash: within --flash, without it too, or never."),
        click.option("--calib", type=click.Path(path_type=Path), metavar="FILE",
                     help="An .npz file with typical inputs: kernels pass over zeros where those make enough of them."),
        click.option("--sparsity", type=click.Path(path_type=Path), metavar="FILE",
                     help="The same from what `check --profile-sparsity` has measured."),
        click.option("--step-budget", type=click.IntRange(1), metavar="INSTRUCTIONS",
                     help="Also generate NAME_step, whose calls take at most so many."),
        click.option("--max-slice-us", type=click.FloatRange(0, min_open=True), metavar="MICROSECONDS",
                     help="The same as a time at the target's clock."),
        click.option("--deadline-ms", type=click.FloatRange(0, min_open=True), metavar="MILLISECONDS",
                     help="What an inference may take at the target's clock."),
        click.option("--energy-uj", type=click.FloatRange(0, min_open=True), metavar="UJ", help="Limit for an inference."),
        click.option("--power-mw", type=click.FloatRange(0, min_open=True), metavar="MW",
                     help="Limit on average, at --rate-hz inferences a second."),
        click.option("--rate-hz", type=click.FloatRange(0, min_open=True), metavar="HZ",
                     help="Inferences a second: the clock that takes least is chosen."),
        click.option("--cores", type=click.IntRange(1), default=1, show_default=True, metavar="N",
                     help="Also generate NAME_run_on, by which so many of the target's cores share an inference."),
        click.option("--place-node", multiple=True, metavar="NODE=PROCESSOR", help="The processor that computes a node."),
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


def compiler_options(command: F) -> F:
    """The cross compiler and how it optimises."""
    for decorate in reversed((
        click.option("-O1", "opt", flag_value="-O1", help="Optimise like -O1."),
        click.option("-O2", "opt", flag_value="-O2", help="Optimise like -O2."),
        click.option("-O3", "opt", flag_value="-O3", default=True, help="Optimise like -O3 (default)."),
        click.option("-Os", "opt", flag_value="-Os", help="Optimise for size."),
        click.option("--cc", help="The (cross) compiler."),
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
    if k["calib"] is not None and k["sparsity"] is not None:
        raise click.BadParameter("--calib measures what --sparsity gives: one of them", param_hint="--sparsity")
    sparsity = k.pop("sparsity")
    options = Options(dims=dims, zeros={} if sparsity is None else zeros.read(sparsity),
                      bind=dict(map(_binding, k.pop("bind"))), stateful=_pairs(k.pop("stateful")),
                      place_node=tuple(map(_placed, k.pop("place_node"))),
                      fuse=not k.pop("no_fuse"), no_fuse_rules=k.pop("no_fuse_rule"), fuse_barriers=k.pop("fuse_barrier"),
                      **{key: k.pop(key) for key in ("name", "arena", "io", "requant", "optimize", "place", "input_rows",
                                                     "share_kernels", "ram", "flash", "winograd", "calib", "step_budget",
                                                     "max_slice_us", "deadline_ms", "energy_uj", "power_mw", "rate_hz",
                                                     "cores")})
    return {"path": k.pop("model"), "target_name": k.pop("target"), "options": options,
            "dump_after": tuple(k.pop("dump_after"))}


def _placed(text: str) -> tuple[str, str]:
    """Node and processor of one `--place-node`; a node's name may have a = in it."""
    node, _, processor = text.rpartition("=")
    if not node or not processor:
        raise click.BadParameter(f"{text!r} is not NODE=PROCESSOR", param_hint="--place-node")
    return node, processor


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


def compiled(k: dict[str, Any], as_json: bool = False, **build: Any) -> Compiled:
    """Compile with the options of a command; with `as_json` standard output is left to one object. `build`: opt and cc."""
    chosen = settings(k)
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout), Progress("compiling"):
        return compile_model(**chosen, **build)


def show(*lines: str) -> None:
    """Text from a model or about it, with its control characters escaped."""
    for line in "\n".join(lines).split("\n"):
        click.echo("".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in line))
