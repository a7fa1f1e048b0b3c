"""The bound against exact counts: every kernel, core, level of optimisation and compiler, extreme and random inputs.

QEMU counts through a plugin that the test builds. Each core, level and compiler meets four kernels; with each compiler, each
kernel meets every core and every level, though not all of them together.
"""
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from graphs import Builder, compile
from test_measure import ARM_CLANG
from test_wcet import BOARDS

from fuse2c import target as targets
from fuse2c import toolchain
from fuse2c.codegen import project
from fuse2c.errors import ToolMissing
from fuse2c.ir.types import TensorType, pack
from fuse2c.measure import qemu

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from fuse2c import wcet
from fuse2c.wcet import image as images

PLUGIN = Path(__file__).parent / "qemu_count.c"
CORES = {"cortex-m0plus": "M0+", "cortex-m3": "M3", "cortex-m4": "M4", "cortex-m7": "M7", "cortex-m33": "M33",
         "cortex-m55": "M55"}
LEVELS = ("-O1", "-O2", "-O3", "-Os")
Kernel = Callable[[Builder], None]


def conv(b: Builder, size: tuple[int, int] = (3, 2), group: int = 1, **attrs: object) -> None:
    x = b.stored((1, 6, 5, 4), 0.1, np.int8(-7))
    y = b.op("Conv", x, b.weights((6, 6 // group, *size), 0.02), b.bias(6, 0.002), group=group, **attrs)
    b.output(b.quantise(b.op("Relu", y), 0.3, np.int8(5)))


def dense(b: Builder) -> None:
    x = b.stored((1, 23), 0.1, np.int8(-7))
    b.output(b.quantise(b.op("Gemm", x, b.weights((9, 23), 0.02), transB=1), 0.3, np.int8(5)))


def one(b: Builder, op: str, shape: tuple[int, ...] = (1, 4, 5, 6), more: tuple[str, ...] = (), **attrs: object) -> None:
    b.output(b.quantise(b.op(op, b.stored(shape, 0.1, np.int8(-7)), *more, **attrs), 0.11, np.int8(-5)))


def residual(b: Builder) -> None:
    x, y = b.stored((1, 3, 5, 4), 0.1, np.int8(-7)), b.stored((1, 3, 5, 4), 0.07, np.int8(9))
    b.output(b.quantise(b.op("Add", x, y), 0.13, np.int8(1)))


def floats(b: Builder) -> None:
    x = b.input((1, 3, 5, 4))
    y = b.op("Relu", b.op("Conv", x, b.floats(4, 3, 3, 3), b.floats(4), pads=[1, 1, 0, 1]))
    b.output(b.op("Softmax", b.op("Gemm", b.op("Flatten", y), b.floats(64, 5), b.floats(5))))


def recurrent(b: Builder) -> None:
    x = b.input((2, 1, 3))
    b.output(b.op("LSTM", x, b.floats(1, 16, 3), b.floats(1, 16, 4), outputs=3, hidden_size=4)[0])


KERNELS: dict[str, Kernel] = {
    "conv": lambda b: conv(b, pads=[1, 0, 1, 1]), "pointwise": lambda b: conv(b, (1, 1)),
    "strided": lambda b: conv(b, strides=[2, 1]),
    "depthwise": lambda b: conv(b, (3, 3), 6, pads=[1, 1, 1, 1]), "dense": dense, "residual": residual,
    "softmax": lambda b: one(b, "Softmax", (2, 7)),
    "max_pool": lambda b: one(b, "MaxPool", kernel_shape=[2, 2], strides=[2, 1]),
    "average_pool": lambda b: one(b, "GlobalAveragePool"), "sigmoid": lambda b: one(b, "Sigmoid"),
    "transpose": lambda b: one(b, "Transpose", perm=[0, 2, 3, 1]),
    "resize": lambda b: one(b, "Resize", more=("", b.const(np.array([1, 1, 2, 2], np.float32))), mode="nearest",
                            coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "floats": floats, "recurrent": recurrent,
}
FLOAT = ("floats", "recurrent")
COMPILERS, EACH = ("gcc", "clang"), 4
CASES = [(core, opt, cc, list(KERNELS)[(EACH * (a + b) + len(KERNELS) // 2 * c + k) % len(KERNELS)])
         for a, core in enumerate(CORES) for b, opt in enumerate(LEVELS) for c, cc in enumerate(COMPILERS) for k in range(EACH)]


def counting_plugin(folder: Path) -> Path:
    """The counting plugin for this machine's QEMU, built in a folder; skips where that cannot be."""
    if not shutil.which(qemu.QEMU) or not shutil.which(toolchain.ARM_GCC):
        pytest.skip(f"{qemu.QEMU} or {toolchain.ARM_GCC} is not installed")
    if "-plugin" not in subprocess.run([qemu.QEMU, "--help"], capture_output=True, text=True, check=False).stdout:
        pytest.skip(f"this {qemu.QEMU} takes no plugins")
    try:
        cc = toolchain.host().cc
    except ToolMissing as error:
        pytest.skip(str(error))
    library = folder / "count.so"
    toolchain.run([cc, "-shared", "-fPIC", "-O2", str(PLUGIN), "-o", str(library)], "the plugin does not compile")
    return library


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return counting_plugin(tmp_path_factory.mktemp("plugin"))


def inputs(t: TensorType, seed: int) -> list[np.ndarray]:
    """Extreme values, alternating ones, and random ones."""
    rng = np.random.default_rng(seed)
    if t.dtype.is_float:
        values = [np.full(t.shape, v, np.float32) for v in (0, -3.5, 3e38, np.inf, np.nan)]
        return [*values, *(np.float32(size) * rng.standard_normal(t.shape, np.float32) for size in (1, 100))]
    low, high = t.dtype.range
    values = [np.full(t.shape, v, t.dtype.numpy) for v in (low, high, 0)]
    turns = np.where(np.arange(t.count).reshape(t.shape) % 2, low, high).astype(t.dtype.numpy)
    return [*values, turns, *(rng.integers(low, high, t.shape, endpoint=True).astype(t.dtype.numpy) for _ in range(2))]


def counts(program: Path, entry: str, called_by: tuple[str, ...], board: qemu.Board, plugin: Path) -> list[int]:
    """Exact instructions of every run of a function."""
    image = images.load(program)
    callers = [(a, a + size) for a, size, symbol in image.functions if symbol in called_by]
    out = program.with_suffix(".counts")
    arguments = f"{plugin},entry={image.entry(entry)},low={min(callers)[0]},high={max(callers)[1]},out={out}"
    toolchain.run([*qemu.command(board, program), "-plugin", arguments], "QEMU failed")
    return [int(line) for line in out.read_text().split()]


@pytest.mark.parametrize(("core", "opt", "cc", "kernel"), CASES, ids=["-".join(case) for case in CASES])
def test_bound_against_exact_counts(core: str, opt: str, cc: str, kernel: str, plugin: Path, tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    if cc == "clang" and not ARM_CLANG:
        pytest.skip("clang is not installed")
    if kernel in FLOAT and core in ("cortex-m0plus", "cortex-m3"):
        kernel = "dense"                # the compiler's float routines fork all the time: see test_wcet.py
    b = Builder()
    KERNELS[kernel](b)
    plan = compile(b, tmp_path, target=core, name="m").plan
    g, folder = plan.graph, project.write(plan, tmp_path / "out")
    sets = list(zip(*(inputs(g.type(t), n) for n, t in enumerate(plan.inputs)), strict=True))
    firmware = qemu.Firmware("m", folder, tuple(pack(a, g.type(t)) for a, t in zip(sets[0], plan.inputs, strict=True)),
                             tuple((g.type(t).dtype.numpy, g.type(t).count) for t in plan.outputs), caller_arena=False)
    header = qemu.case_header(firmware)

    def case_header(_: qemu.Firmware) -> str:
        """The same with a call for each set of inputs."""
        lines, calls = [header], []
        call = next(line for line in header.splitlines() if "F2C_BENCH_CALL()" in line).partition("() ")[2]
        for n, values in enumerate(sets):
            one_call = call
            for k, (a, t) in enumerate(zip(values, plan.inputs, strict=True)):
                lines += qemu._input_lines(f"set{n}_in{k}", pack(a, g.type(t)))
                one_call = one_call.replace(f"f2c_bench_in{k}.", f"set{n}_in{k}.")
            calls.append(one_call)
        every = f"#define F2C_BENCH_CALL() ((void)f2c_bench_in0, {' | '.join(calls)})"
        return "\n".join([*lines, "#undef F2C_BENCH_CALL", every, ""])
    monkeypatch.setattr(qemu, "case_header", case_header)
    board = qemu.Board(BOARDS[CORES[core]].machine, targets.load(core).processor.cflags)
    (tmp_path / "build").mkdir()
    program = qemu.build(firmware, board, tmp_path / "build", opt, ARM_CLANG if cc == "clang" else None)
    seen = counts(program, "m_run", ("run_model", "run_on_painted_stack"), board, plugin)
    assert len(seen) == 2 * len(sets)
    result = wcet.analyse(program, "m_run", core)
    assert result.instructions >= max(seen) and result.ipet >= result.instructions
    assert not result.single_path or set(seen) == {result.instructions}
    if core != "cortex-m0plus" and kernel not in FLOAT:
        assert result.instructions <= 1.05 * max(seen)


def test_with_each_compiler_every_kernel_meets_every_core_and_level() -> None:
    for at, every in ((0, CORES), (1, LEVELS)):
        assert {(case[at], *case[2:]) for case in CASES} == {(one, cc, kernel) for one in every for cc in COMPILERS
                                                             for kernel in KERNELS}
