"""The command `target`: write, check and calibrate target files."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from fuse2c import calibrate, target
from fuse2c.commands._common import show
from fuse2c.errors import OutputError


@click.group(name="target")
def command() -> None:
    """Write, check and calibrate target files."""


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise OutputError(f"{path} exists", hint="choose another name, or remove it")
    path.write_text(text, encoding="utf-8")
    show(f"written to {path}")


@command.command()
@click.argument("name")
@click.option("--like", default="cortex-m4", show_default=True, help="The target with the same core.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file; default: NAME.toml.")
def new(name: str, like: str, output: Path | None) -> None:
    """Write a target file to fill in."""
    _write(output or Path(f"{name}.toml"), calibrate.new_target(name, like))


@command.command()
@click.argument("name")
def check(name: str) -> None:
    """Load a target and say where its figures come from and what is missing."""
    found = target.load(name)
    show(f"{found.name}: {found.title}")
    width = max(len(path) for path, _ in found.figures())
    for path, value in found.figures():
        if not path.startswith("price."):
            show(f"  {path:{width}}  {value:>12,}  {found.origin(path)}")
    kinds = Counter(found.origin(path).partition(":")[0] for path, _ in found.figures())
    show(f"  {', '.join(f'{n} {kind}' for kind, n in kinds.items())}; prices of {len(found.price)} kernels")
    show(*(f"  missing: {text}" for text in calibrate.gaps(found)))


@command.command(name="calibrate")
@click.argument("csv", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-t", "--target", "name", required=True, help="The target that was measured.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .toml file to write.")
def calibrate_command(csv: Path, name: str, output: Path) -> None:
    """Turn what the firmware of `bench --firmware` measured into prices."""
    prices = calibrate.calibrated(target.load(name), csv.read_text(encoding="utf-8", errors="replace"), csv.name)
    text = target.path_of(name).read_text(encoding="utf-8")
    _write(output, calibrate.with_prices(text, prices, f"measured: {csv.name}, cycles on the board"))
