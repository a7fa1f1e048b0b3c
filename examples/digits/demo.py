"""`make demo`: two digit classifiers on their way from ONNX to C, checked here and measured on an emulated Cortex-M4.

    python demo.py [--images COUNT] [--out DIRECTORY]

Every figure that it prints is measured while it runs. What a missing tool would have measured is left out, and said.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import fuse2c
from data import Digits, load
from fuse2c import toolchain
from fuse2c.bench import BenchResult
from fuse2c.check import CheckResult, HostModel
from fuse2c.errors import BuildError
from fuse2c.measure import qemu

HERE = Path(__file__).resolve().parent
TARGET = "cortex-m4"
MODELS = {"float32": HERE / "digits_fp32.onnx", "int8": HERE / "digits_int8.onnx"}
INPUT, OUTPUT = "image", "probabilities"
SHOWN, MISTAKES = 7, 2  # pictures in one row of 80 columns, and how many of them at most are mistakes
LOSSES = {
    toolchain.ARM_GCC: "flash, RAM and instructions are not measured",
    qemu.QEMU: "instructions are not counted",
    "onnxruntime": "the C is compared with the numpy reference only",
}

console = Console(highlight=False)
Classes = NDArray[np.int64]


@dataclass
class Version:
    """One model, fused or kernel by kernel, and what was found out about it."""

    model: str  # a key of MODELS
    fused: bool
    check: CheckResult
    classes: Classes  # what the generated C says, by image
    bench: BenchResult | None = None


def compiled(model: str, fused: bool, target: str) -> fuse2c.Compiled:
    """A plan of one of the two models."""
    return fuse2c.plan(MODELS[model], target=target, fuse=fused)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar that every call of the result moves on; a plain line where no one is looking at a terminal."""
    columns = (TextColumn("  {task.description}"), BarColumn(24), TextColumn("{task.completed}/{task.total}"))
    if not console.is_terminal:
        console.print(f"  {title} ...")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True,
                  disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def missing_tools() -> list[str]:
    """What is not installed, of what the demo can do without."""
    found = {name: shutil.which(name) is not None for name in (toolchain.ARM_GCC, qemu.QEMU)}
    found["onnxruntime"] = bool(runtime_version())
    return [name for name in LOSSES if not found[name]]


def runtime_version() -> str:
    """onnxruntime's version; empty where it cannot be imported."""
    try:
        import onnxruntime
    except ImportError:
        return ""
    return str(onnxruntime.__version__)


def examine(digits: Digits) -> list[Version]:
    """Build the generated C for this computer and compare each kernel on each image; then classify all images."""
    samples = [{INPUT: image[None]} for image in digits.x_test]
    versions = []
    with progress("checking every kernel", 2 * len(MODELS) * len(samples)) as advance:
        for model in MODELS:
            for fused in (False, True):
                plan = compiled(model, fused, "host")
                result = plan.check(samples, progress=lambda text: advance() if text.startswith("sample") else None)
                with HostModel(plan.plan) as host:
                    classes = [int(host.run(sample)[OUTPUT].argmax()) for sample in samples]
                versions.append(Version(model, fused, result, np.asarray(classes)))
    return versions


def measure(versions: list[Version], emulate: bool) -> None:
    """Build all versions for the target and run them in QEMU; without QEMU, sizes only."""
    with progress(f"building for {TARGET}", len(versions)) as advance:
        for version in versions:
            plan = compiled(version.model, version.fused, TARGET)
            if not emulate:
                board = replace(plan.plan.target, emulator=None)
                plan = replace(plan, plan=replace(plan.plan, target=board))
            try:
                version.bench = plan.bench()
            except BuildError as error:  # a cross compiler without its libraries, for example
                console.print(f"  [yellow]not measured[/]: {error.args[0]}; {error.hint}")
                return
            advance()


def heading(text: str) -> None:
    """The first line of a part."""
    console.print(f"\n[bold]{text}[/]")


def table(*columns: str) -> Table:
    """An empty table with one column of names and these columns of figures."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False)
    made.add_column("")
    for name in columns:
        made.add_column(name, justify="right", style="bold green" if name.endswith("\nfused") else "")
    return made


def accuracy(classes: Classes, digits: Digits) -> str:
    """Share of images classified correctly."""
    return f"{(classes == digits.y_test).mean():.2%}"


def classify(path: Path, images: NDArray[np.float32]) -> Classes:
    """What onnxruntime says, by image."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run([OUTPUT], {INPUT: images})[0]).argmax(axis=1)


def show_check(versions: list[Version], digits: Digits) -> None:
    """The comparisons with numpy and onnxruntime, layer by layer; then the accuracies."""
    heading(f"Every kernel's output on {len(digits.y_test)} test images, compared")
    checked = table("elements", "differ", "by at most")
    for v in (v for v in versions if v.fused):
        for name, d in (("numpy reference", v.check.reference), ("onnxruntime", v.check.ort_layers)):
            worst = f"{d.worst:.1e} of the largest" if v.model == "float32" else f"{d.worst:g} of 255 steps"
            if d.elements:
                checked.add_row(f"{v.model} against {name}", f"{d.elements:,}", f"{d.differing:,}", worst)
    console.print(checked)
    console.print(" A float differs where another order of summation cannot explain the distance.", style="dim")
    heading(f"Accuracy on {len(digits.y_test)} test images")
    right = table(*MODELS)
    if runtime_version():
        right.add_row(f"onnxruntime {runtime_version()}",
                      *(accuracy(classify(path, digits.x_test), digits) for path in MODELS.values()))
    right.add_row("generated C", *(accuracy(v.classes, digits) for v in versions if v.fused), style="bold")
    console.print(right)


def picture(image: NDArray[np.float32]) -> list[str]:
    """An image [8,8] as four lines of text, two rows of pixels in each."""
    blocks = " .'#" if console.options.ascii_only else " ▄▀█"
    ink = (image > 0.4).astype(int)
    return ["".join(blocks[2 * upper + lower] for upper, lower in zip(*ink[row : row + 2], strict=True))
            for row in range(0, 8, 2)]


def show_images(digits: Digits, classes: Classes) -> None:
    """A row of test images with what the C says of them: one of each of the first digits, then mistakes."""
    good = classes == digits.y_test
    wrong = np.flatnonzero(~good)
    first = [np.flatnonzero(good & (digits.y_test == n))[:1] for n in range(10)]
    shown = wrong[:MISTAKES]
    chosen = [*map(int, np.concatenate(first)[: SHOWN - len(shown)]), *map(int, shown)]
    heading(f"What the C makes of the images (int8): {len(wrong)} of {len(classes)} wrong"
            + (f", {len(shown)} of them shown" if len(shown) else ""))
    for lines in zip(*(picture(digits.x_test[n, 0]) for n in chosen), strict=True):
        console.print(("  " + "   ".join(lines)).rstrip(), style="bright_cyan")
    captions = Text("  ")
    for n in chosen:
        label = f"{classes[n]}" if good[n] else f"{classes[n]} (is {digits.y_test[n]})"
        captions.append(label.ljust(11), style="green" if good[n] else "red")
    captions.rstrip()
    console.print(captions)


def rows(v: Version) -> list[tuple[str, str]]:
    """The figures of one version, by name."""
    plan, b = compiled(v.model, v.fused, TARGET).plan, v.bench
    return [
        ("kernels", f"{plan.launches:,}"),
        ("bytes of intermediates", f"{plan.intermediate_bytes:,}"),
        ("instructions an inference", f"{b.instructions:,}" if b and b.instructions else "-"),
        ("flash: code, bytes", f"{b.flash_bytes['code']:,}" if b else "-"),
        ("flash: weights, bytes", f"{b.flash_bytes['weights']:,}" if b else "-"),
        ("RAM: arena, bytes", f"{plan.arena_bytes:,}"),
        ("  least of all plans", f"{plan.front[-1].ram:,}"),
        ("RAM: static, bytes", f"{b.ram_bytes['static']:,}" if b else "-"),
        ("RAM: stack, bytes", f"{b.ram_bytes['stack']:,}" if b else "-"),
        ("differ from the reference", f"{v.check.reference.differing:,}"),
        ("differ in QEMU from here", "-" if b is None or b.mismatches is None else f"{b.mismatches:,}"),
    ]


def show_table(versions: list[Version]) -> None:
    """Everything in one table: each model before and after fusion."""
    heading(f"Before and after fusion, on {TARGET}")
    figures = table(*(f"{v.model}\n{'fused' if v.fused else 'unfused'}" for v in versions))
    for row in zip(*map(rows, versions), strict=True):
        figures.add_row(row[0][0], *(value for _, value in row))
    console.print(figures)
    measured = next((v.bench for v in versions if v.bench), None)
    if measured:
        compiler = re.sub(r" \(.*?\)", "", measured.compiler)
        console.print(f" {compiler}, {measured.flags.split()[0]}; instructions are counted by QEMU", style="dim")


def show_code(out: Path) -> None:
    """Leave the C of the int8 model behind, and say what to look at."""
    plan = compiled("int8", True, TARGET)
    folder, model = (os.path.relpath(path) for path in (plan.emit(out / "digits_int8"), MODELS["int8"]))
    longest = max(plan.plan.steps, key=lambda step: len(step.node.parts))
    chain = " > ".join(node.op for node in longest.node.parts)
    heading(f"The C of the int8 model is in {folder}")
    notes = Table.grid(padding=(0, 1))
    notes.add_row(" digits_int8.h", "the interface: one function, sizes, scales and zero points")
    notes.add_row(" digits_int8.c", f"the kernels as they run; {longest.function} is {chain} in one pass")
    notes.add_row(" example_main.c", f"a program that calls it: make -C {folder} example && {folder}/example")
    console.print(notes)
    console.print(f"\nNext: [bold]fuse2c plan {model} -t {TARGET} --why[/]", soft_wrap=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile, check and measure the digits example.")
    parser.add_argument("--images", type=int, default=None, help="test images to use (default: all)")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "out", help="where to leave the C")
    args = parser.parse_args()
    full = load()
    digits = full._replace(x_test=full.x_test[: args.images], y_test=full.y_test[: args.images])
    console.print(f"[bold]fuse2c {fuse2c.__version__}: two classifiers of handwritten digits, from ONNX to C[/]")
    absent = missing_tools()
    for name in absent:
        console.print(f"  [yellow]{name} is not installed[/]: {LOSSES[name]}")
    versions = examine(digits)
    show_check(versions, digits)
    show_images(digits, versions[-1].classes)
    if toolchain.ARM_GCC not in absent:
        measure(versions, emulate=qemu.QEMU not in absent)
    show_table(versions)
    show_code(args.out)


if __name__ == "__main__":
    main()
