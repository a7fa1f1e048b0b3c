"""--input-rows: rows come one by one, a ring keeps the last ones, and the result is that of the whole input."""
from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from cases import FLOAT, STYLES, Style
from graphs import Builder, assert_c_is_reference, compile, run_c, samples
from simulation import simulate

import fuse2c
from fuse2c import report, toolchain
from fuse2c.errors import PlanError
from fuse2c.ir.types import pack


def chain(style: Style, rows: int = 13) -> Builder:
    """Windows of three and two rows with pads and a stride, a sum, a pool; three channels, so that a row is no plane."""
    b = Builder()
    x = style.again(b, b.op("Conv", style.x(b, 1, 3, rows, 5), style.w(b, (6, 3, 3, 2)), pads=[1, 1, 1, 0]), 0.05)
    y = style.again(b, b.op("Conv", x, style.w(b, (6, 1, 2, 3)), group=6, pads=[0, 1, 1, 1]), 0.05)
    y = style.again(b, b.op("Add", y, x), 0.05)
    y = style.again(b, b.op("Conv", y, style.w(b, (4, 6, 2, 3)), strides=[3, 2]), 0.05)
    b.output(b.op("Flatten", style.again(b, b.op("GlobalAveragePool", y), 0.05)))
    return b


def turned(style: Style) -> Builder:
    """As converters from channels-last frameworks write it: the input is transposed first."""
    b = Builder()
    x = b.op("Transpose", style.x(b, 1, 11, 5, 3), perm=[0, 3, 1, 2])
    x = style.again(b, b.op("Conv", x, style.w(b, (4, 3, 3, 3)), strides=[2, 1]), 0.05)
    b.output(style.again(b, b.op("GlobalAveragePool", x), 0.05))
    return b


def along_time(style: Style) -> Builder:
    """One dimension: a row is one moment of all channels."""
    b = Builder()
    x = style.again(b, b.op("Conv", style.x(b, 1, 4, 19), style.w(b, (6, 4, 5)), pads=[2, 2], strides=[2]), 0.05)
    x = style.again(b, b.op("MaxPool", x, kernel_shape=[3], strides=[2]), 0.05)
    b.output(style.again(b, b.op("GlobalAveragePool", x), 0.05))
    return b


NETS = {"chain": chain, "turned": turned, "time": along_time}


@pytest.mark.parametrize("style", ["float", "s8"])
@pytest.mark.parametrize("net", list(NETS))
def test_pushed_rows_give_what_the_whole_input_gives(net: str, style: str, tmp_path: Path) -> None:
    b = NETS[net](FLOAT if style == "float" else STYLES[style])
    pushed, whole = compile(b, tmp_path, input_rows=True), compile(b, tmp_path, optimize="ram")
    rows = samples(whole.plan, 3)
    for got, want in zip(run_c(pushed, rows), run_c(whole, rows), strict=True):
        assert all(got[t].tobytes() == want[t].tobytes() for t in whole.plan.outputs)
    assert_c_is_reference(pushed)
    simulate(pushed.plan, rows[0])
    told = report.pushed(pushed.plan)
    assert told is not None and told["kept"] < told["rows"] and f"{told['kept']} kept" in pushed.report()
    assert any(p.size == told["bytes"] for p in pushed.plan.places)


def test_stored_elements_enter_as_they_come(tmp_path: Path) -> None:
    """The conversion of a float input is part of the kernel that takes over a row: the ring holds bytes."""
    pushed = compile(chain(STYLES["s8"]), tmp_path, input_rows=True, io="float")
    told = report.pushed(pushed.plan)
    assert told is not None and told["bytes"] == told["kept"] * 5 * 3
    assert_c_is_reference(pushed)


def test_push_row_says_when_it_needs_more(tmp_path: Path) -> None:
    """1 for every row but the last one; a reset in between starts anew."""
    c = compile(chain(STYLES["s8"]), tmp_path, input_rows=True)
    plan, name, tools = c.plan, c.path.stem, toolchain.host()
    folder = c.emit(tmp_path / "project")
    objects = toolchain.compile_model(tools, folder, name, tmp_path / "shared", extra=["-fPIC"])
    lib = ctypes.CDLL(str(toolchain.link(tools, objects, tmp_path / "model.so", extra=["-shared"])))
    push, reset = getattr(lib, f"{name}_push_row"), getattr(lib, f"{name}_reset")
    (sample,) = samples(plan, 1)[:1]
    image = pack(sample[plan.inputs[0]], plan.graph.type(plan.inputs[0])).reshape(13, -1).copy()
    y = np.zeros(plan.graph.type(plan.outputs[0]).count, np.float32)

    def pushes(rows: np.ndarray) -> list[int]:
        return [push(ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(y.ctypes.data)) for row in rows]
    assert pushes(image) == [1] * 12 + [0]
    want = run_c(c, [sample])[0][plan.outputs[0]].reshape(-1)
    assert np.array_equal(y, want)
    pushes(image[::-1][:7])
    reset()
    y[:] = 0
    assert pushes(image) == [1] * 12 + [0] and np.array_equal(y, want)


def test_the_example_pushes_rows(tmp_path: Path) -> None:
    c = compile(chain(STYLES["s8"]), tmp_path, input_rows=True)
    folder, tools = c.emit(tmp_path / "project"), toolchain.host()
    objects = toolchain.compile_model(tools, folder, c.path.stem, tmp_path / "objects")
    main = toolchain.compile_object(tools, folder / "example_main.c", tmp_path / "main.o", include=[folder])
    program = toolchain.link(tools, [*objects, main], tmp_path / "example")
    assert toolchain.run([str(program)], "the example failed").count("=") == 4


def test_what_cannot_be_pushed_is_refused_with_the_reason(tmp_path: Path) -> None:
    def refused(b: Builder, **options: object) -> str:
        with pytest.raises(PlanError, match="--input-rows") as e:
            compile(b, tmp_path, input_rows=True, **options)
        return str(e.value)

    b = Builder()
    b.output(b.op("Add", b.input((1, 3, 5, 4)), b.input((1, 3, 5, 4))))
    assert "2 inputs" in refused(b)
    b = Builder()
    b.output(b.op("Gemm", b.input((1, 6)), b.floats(6, 5)))
    assert "[1, 6] has no rows" in refused(b)
    b = Builder()
    b.output(b.op("Softmax", b.op("Conv", b.op("Transpose", b.input((1, 3, 5, 4)), perm=[0, 1, 3, 2]), b.floats(2, 3, 3, 3)),
                  axis=1))
    assert "all rows of its operand at once" in refused(b)
    assert "arena" in refused(chain(FLOAT), arena="caller")
    b = Builder()
    x, h = b.input((1, 3, 5, 4)), b.input((1, 3, 5, 4))
    total = b.op("Add", x, h)
    b.output(total, b.op("GlobalAveragePool", total))
    assert "keeps states" in refused(b, stateful=((h, total),))


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    c = fuse2c.plan(compile(chain(FLOAT), tmp_path).path)
    assert report.pushed(c.plan) is None and not any("push" in s.node.name for s in c.plan.steps)
