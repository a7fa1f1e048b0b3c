"""A build with -DF2C_COUNT counts what the plan says: work, kernels begun, calls of kernel functions, bytes moved."""
from __future__ import annotations

from pathlib import Path

import cases
import pytest
from graphs import Builder, samples
from partitions import layered, partitioned, random_groups, streamed, unscheduled

from fuse2c import price
from fuse2c.check import HostModel
from fuse2c.plan import Plan


def counted(plan: Plan) -> dict[str, int]:
    """Of one inference."""
    with HostModel(plan, "-O1", count=True) as host:
        host.run(samples(plan, 1)[0])
        return host.counted()


def planned(plan: Plan) -> dict[str, int]:
    """The same, as the plan says."""
    moved = price.of_plan(plan)
    return {"macs": plan.macs, "launches": plan.launches, "calls": plan.call_count, "read": moved.read,
            "written": moved.written, "weights": moved.weights}


def saved(b: Builder, folder: Path) -> Path:
    """The model as a file."""
    path = folder / "model.onnx"
    path.write_bytes(b.model().SerializeToString())
    return path


@pytest.mark.parametrize("style", ["float", "s8"])
@pytest.mark.parametrize("name", [n for n in cases.all_layers() if n.startswith(("conv", "net", "dense"))])
def test_layers_count_what_is_planned(name: str, style: str, tmp_path: Path) -> None:
    plan = unscheduled(saved(cases.layer(name, cases.FLOAT if style == "float" else cases.STYLES[style]), tmp_path))
    if plan.macs == 0:
        pytest.skip("no multiply-accumulates in this case")
    plan = layered(plan)
    assert counted(plan) == planned(plan)


def recurrent(kind: str, gates: int) -> Builder:
    """Three steps of two frames."""
    b = Builder()
    y = b.op(kind, b.input((3, 2, 4)), b.floats(1, 5 * gates, 4), b.floats(1, 5 * gates, 5), hidden_size=5)
    b.output(b.op("Relu", y))
    return b


def others() -> dict[str, Builder]:
    """One graph for each further operator with multiply-accumulates."""
    found = {kind: recurrent(kind, gates) for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))}
    made: dict[str, tuple[str, tuple[str, ...], dict[str, object]]] = {}
    b = Builder()
    made["ConvTranspose"] = ("ConvTranspose", (b.input((1, 2, 3, 4)), b.floats(2, 3, 3, 2)), {"pads": [1, 0, 2, 1],
                                                                                              "strides": [2, 1]})
    found["ConvTranspose"] = b
    b = Builder()
    made["Conv3"] = ("Conv", (b.input((1, 2, 3, 4, 5)), b.floats(3, 2, 2, 3, 2)), {"pads": [1, 0, 2, 0, 1, 0]})
    found["Conv3"] = b
    b = Builder()
    made["Einsum"] = ("Einsum", (b.input((3, 4)), b.input((4, 5)), b.input((5,))), {"equation": "ij,jk,k->i"})
    found["Einsum"] = b
    b = Builder()
    made["Resize"] = ("Resize", (b.input((1, 2, 3, 5)), "", "", b.ints(1, 2, 7, 4)), {"mode": "cubic"})
    found["Resize"] = b
    b = Builder()
    made["GridSample"] = ("GridSample", (b.input((1, 2, 3, 5)), b.input((1, 4, 2, 2))), {})
    found["GridSample"] = b
    b = Builder()
    made["MatMul"] = ("MatMul", (b.input((2, 3, 4)), b.input((4, 5))), {})
    found["MatMul"] = b
    b = Builder()
    made["Det"] = ("Det", (b.input((2, 4, 4)),), {})
    found["Det"] = b
    for name, (kind, inputs, attrs) in made.items():
        found[name].output(found[name].op(kind, *inputs, **attrs))
    return found


@pytest.mark.parametrize("name", list(others()))
def test_other_operators_count_what_is_planned(name: str, tmp_path: Path) -> None:
    plan = layered(unscheduled(saved(others()[name], tmp_path)))
    assert plan.macs > 0 and counted(plan) == planned(plan)


def chain(style: cases.Style) -> Builder:
    """Windows of different heights, a stride, padding, a sum, a pool that takes rows as they come."""
    b = Builder()
    x = style.again(b, b.op("Conv", style.x(b, 1, 2, 11, 5), style.w(b, (6, 2, 3, 3)), pads=[1, 1, 1, 1]), 0.05)
    y = style.again(b, b.op("Conv", x, style.w(b, (6, 1, 3, 2)), group=6, pads=[2, 0, 0, 1]), 0.05)
    y = style.again(b, b.op("Add", y, x), 0.05)
    y = style.again(b, b.op("Conv", y, style.w(b, (4, 6, 2, 3)), strides=[3, 2]), 0.05)
    b.output(style.again(b, b.op("GlobalAveragePool", y), 0.05))
    return b


@pytest.mark.parametrize("style", ["float", "s8"])
def test_streaming_computes_nothing_twice(style: str, tmp_path: Path) -> None:
    plan = unscheduled(saved(chain(cases.FLOAT if style == "float" else cases.STYLES[style]), tmp_path))
    plans = [layered(plan), streamed(plan), *(partitioned(plan, random_groups(plan, seed)) for seed in range(3))]
    counts = [counted(p) for p in plans]
    assert counts == [planned(p) for p in plans]
    assert len({c["macs"] for c in counts}) == len({c["launches"] for c in counts}) == 1
    assert plans[1].rings and counts[1]["calls"] > counts[0]["calls"]
