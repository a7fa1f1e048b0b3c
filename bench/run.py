"""`make bench`: every model on every core, beside what is recorded of other compilers, and on this computer.

    python bench/run.py [--models FOLDER] [--model NAME]... [-t CORE]... [--no-host] [--jobs N] [--json FILE]

Instructions are counted in QEMU, cycles are the worst case by Arm's tables (`fuse2c wcet`), the rest is read from the program.
"""
from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import figures
from fuse2c import report, toolchain
from fuse2c.measure import qemu

ROOT = Path(__file__).resolve().parents[1]
CORES = ("cortex-m4", "cortex-m7", "cortex-m55", "cortex-m3", "cortex-m0plus")
TOOLS = (toolchain.ARM_GCC, qemu.QEMU)
DIGITS = ROOT / "examples" / "digits"
Row = Mapping[str, Any]

WIDTH = 132         # columns of text that the tables take at least, be the terminal narrower or none at all

console = Console(highlight=False, markup=False, width=max(WIDTH, shutil.get_terminal_size().columns))


@click.command()
@click.option("--models", "folder", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "models",
              help="A folder of .onnx files; default: ../shared/models, or without it the digits of examples/.")
@click.option("--model", "names", multiple=True, metavar="NAME", help="These only, without .onnx.")
@click.option("-t", "--target", "targets", multiple=True, default=CORES, show_default=True, help="These cores only.")
@click.option("--host/--no-host", default=True, help="Also time this computer against onnxruntime.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at a time; default: the cores of this computer.")
@click.option("--json", "output", type=click.Path(path_type=Path, dir_okay=False), help="Also write the results there.")
def main(folder: Path, names: Sequence[str], targets: Sequence[str], host: bool, jobs: int | None, output: Path | None) -> None:
    """Print instructions, cycles, flash, RAM and time of models, kernel by kernel, beside the figures of others."""
    missing = [f"{name} is not installed: nothing is measured on cores" for name in TOOLS if shutil.which(name) is None]
    models, absent = found(folder, names)
    todo = [] if missing else [(m, t) for m in models for t in targets]
    rows = sorted(measured(todo, jobs), key=lambda r: (r["model"], targets.index(r["target"])))
    timed = [figures.on_host(m) for m in models] if host else []
    skipped = [*missing, *absent, *(f"{r['model']} on {r['target']}: {text}" for r in (*rows, *timed) for text in r["skipped"])]
    show(rows, timed, skipped)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"schema": figures.SCHEMA, "results": rows, "host": timed, "skipped": skipped}, indent=1)
        output.write_text(text + "\n", encoding="utf-8")
    if any(row.get("mismatches") for row in rows):
        raise SystemExit("outputs on a core differ from the host's")


def found(folder: Path, names: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The models of a folder, and what is not there; without the folder the project's own."""
    absent = [] if folder.is_dir() else [f"no folder {folder.name}: the project's own models are measured"]
    models = sorted((folder if folder.is_dir() else DIGITS).glob("*.onnx"))
    absent += [f"no model {n}" for n in names if n not in {m.stem for m in models}]
    return [m for m in models if not names or m.stem in names], absent


def measured(todo: Sequence[tuple[Path, str]], jobs: int | None) -> Iterator[Row]:
    """The figures as they come, from several processes."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, ProcessPoolExecutor(jobs) as pool:
        bar = progress.add_task("models on cores", total=len(todo))
        for future in as_completed([pool.submit(figures.on_core, *pair) for pair in todo]):
            yield future.result()
            progress.advance(bar)


def show(rows: Sequence[Row], timed: Sequence[Row], skipped: Sequence[str]) -> None:
    """The tables, and what is missing from them and why."""
    table = report.new_table("one inference", "model:", "core:", "instructions", "cycles, at most", "flash: code", "tables",
                             "parameters", "RAM", "instr/MAC")
    for r in (r for r in rows if "instructions" in r):
        ours = r["instructions"]
        flash = [r["flash_bytes"][key] for key in ("code", "tables", "parameters")]
        table.add_row(r["model"], r["target"], *map(number, (ours, r["cycles"], *flash, r["ram_bytes"]["total"])),
                      f"{ours / r['macs']:.3f}" if r["macs"] else "-")
        for p in (p for p in r["peers"] if "instructions" in p):
            table.add_row("", f"  {p['peer']}", f"{p['instructions']:,} = {p['instructions'] / ours:.2f} x", "-",
                          number(p.get("code")), "-", "-", number(p.get("arena")), "-")
    console.print(table)
    for r in (r for r in rows if r.get("kernels")):
        console.print(kernels(r))
    if timed:
        table = report.new_table("this computer, one thread", "model:", ":", "us", "onnxruntime, us", "ratio")
        for r in (r for r in timed if "ratio" in r):
            times = [f"{1e6 * r[key]:.1f}" for key in ("seconds", "onnxruntime_seconds")]
            table.add_row(r["model"], "", *times, f"{r['ratio']:.2f}")
            for p in r["peers"]:
                table.add_row("", p["peer"], "", "", f"{p['ratio']:.2f}")
        console.print(table)
    sources = dict.fromkeys(p["source"] for r in (*rows, *timed) for p in r["peers"])
    console.print(*(f"others: {s}" for s in sources), *(f"skipped: {s}" for s in skipped), sep="\n", style="dim")


def kernels(r: Row) -> Table:
    """What each layer takes."""
    table = report.new_table(f"{r['model']} on {r['target']}, layer by layer", "function:", "kernel:", "MAC", "instructions",
                             "instr/MAC")
    for k in r["kernels"]:
        ratio = "-" if k["instructions_per_mac"] is None else f"{k['instructions_per_mac']:.2f}"
        table.add_row(k["function"], k["kernel"], number(k["macs"]), number(k["instructions"]), ratio)
    return table


def number(value: int | None) -> str:
    """A figure, or a dash for one that is not known."""
    return "-" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
