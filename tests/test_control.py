"""Control flow disappears at import: If, Loop and Scan against onnxruntime, and what cannot be unrolled."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from graphs import Builder, chains, compile, run_c, run_ort
from onnx import TensorProto, helper

from fuse2c.errors import ShapeError, UnsupportedOp
from fuse2c.frontend import control

FLOAT = TensorProto.FLOAT


def info(name: str, shape: tuple[int, ...] | None = None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[str],
         constants: dict[str, np.ndarray] | None = None, kinds: tuple[int, ...] = ()) -> onnx.GraphProto:
    """A subgraph; outputs are float32 unless `kinds` says otherwise."""
    kinds = kinds or (FLOAT,) * len(outputs)
    return helper.make_graph(nodes, "body", inputs, [info(t, None, k) for t, k in zip(outputs, kinds, strict=True)],
                             [onnx.numpy_helper.from_array(v, k) for k, v in (constants or {}).items()])


def branches(wide: bool = False) -> dict[str, onnx.GraphProto]:
    """then: |x|, else: x * 3 - x's first row; both read x from outside and use the same inner names."""
    then = body([helper.make_node("Abs", ["x0"], ["y"])], [], ["y"])
    nodes = [helper.make_node("Mul", ["x0", "three"], ["t"]), helper.make_node("Sub", ["t", "x0"], ["y"])]
    other = body(nodes, [], ["y"], {"three": np.float32(3) * np.ones((2, 1, 1) if wide else (), np.float32)})
    return {"then_branch": then, "else_branch": other}


def agrees(b: Builder, rows: list[dict[str, np.ndarray]], tmp_path: Path, **options: object) -> list[str]:
    """Asserts that C equals onnxruntime; returns the chains of operators."""
    model = b.model(check_model=False)
    compiled = compile(model, tmp_path, **options)
    for got, want in zip(run_c(compiled, rows), run_ort(model, rows), strict=True):
        for t in want:
            assert got[t].shape == want[t].shape
            np.testing.assert_allclose(got[t], want[t], rtol=1e-6, atol=1e-6)
    return chains(compiled)


def sample(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("taken", [True, False])
def test_a_constant_condition_chooses_a_branch(taken: bool, tmp_path: Path) -> None:
    b = Builder()
    x = b.input((3, 4))
    b.output(b.op("If", b.const(np.array(taken)), **branches()))
    found = " ".join(agrees(b, [{x: sample(3, 4)}], tmp_path))
    assert ("Abs" in found, "Sub" in found) == (taken, not taken)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_condition_at_run_time_selects(shape: tuple[int, ...], tmp_path: Path) -> None:
    b = Builder()
    x, c = b.input((3, 4)), b.input(shape, np.bool_)
    b.output(b.op("If", c, **branches()))
    agrees(b, [{x: sample(3, 4), c: np.full(shape, value)} for value in (True, False)], tmp_path)


def test_branches_of_different_shapes(tmp_path: Path) -> None:
    b = Builder()
    x, c = b.input((3, 4)), b.input((), np.bool_)
    assert x == "x0"
    b.output(b.op("If", c, **branches(wide=True)))
    with pytest.raises(UnsupportedOp, match="1 node") as e:
        compile(b.model(check_model=False), tmp_path)
    assert "the branches give float32[3,4] and float32[2,3,4]" in str(e.value)


def loop(b: Builder, nodes: list[onnx.NodeProto], going: str, turns: str, first: str = "") -> list[str]:
    """state = state * x0 + turn; the scan output is the state's double."""
    inside = [helper.make_node("Cast", ["turn"], ["t"], to=FLOAT), helper.make_node("Mul", ["state", "x0"], ["m"]),
              helper.make_node("Add", ["m", "t"], ["next"]), helper.make_node("Add", ["next", "next"], ["row"]), *nodes]
    inputs = [info("turn", (), TensorProto.INT64), info("on", (), TensorProto.BOOL), info("state", (2, 3))]
    graph = body(inside, inputs, [going, "next", "row"], {"five": np.int64(5)}, (TensorProto.BOOL, FLOAT, FLOAT))
    return list(b.op("Loop", turns, first, "x1", outputs=2, body=graph))


def test_a_loop_is_unrolled(tmp_path: Path) -> None:
    b = Builder()
    x, state = b.input((2, 3)), b.input((2, 3))
    b.output(*loop(b, [helper.make_node("Identity", ["on"], ["going"])], "going", b.const(np.int64(4))))
    agrees(b, [{x: sample(2, 3), state: sample(2, 3)}], tmp_path)


def test_a_loop_that_ends_itself(tmp_path: Path) -> None:
    b = Builder()
    x, state = b.input((2, 3)), b.input((2, 3))
    going = helper.make_node("Less", ["turn", "five"], ["going"])
    b.output(*loop(b, [going], "going", "", b.const(np.array(True))))
    assert sum(c.count("Mul") for c in agrees(b, [{x: sample(2, 3), state: sample(2, 3)}], tmp_path)) == 6


def test_a_number_of_turns_that_is_bound(tmp_path: Path) -> None:
    b = Builder()
    b.input((2, 3)), b.input((2, 3))
    turns = b.input((), np.int64)
    b.output(*loop(b, [helper.make_node("Identity", ["on"], ["going"])], "going", turns))
    with pytest.raises(UnsupportedOp, match="1 node") as e:
        compile(b.model(check_model=False), tmp_path)
    assert "the number of turns must be a constant" in str(e.value) and e.value.constants == (turns,)
    plan = compile(b.model(check_model=False), tmp_path, bind={turns: np.int64(3)}).plan
    assert plan.graph.inputs == ("x0", "x1") and plan.graph.type(plan.graph.outputs[1]).shape == (3, 2, 3)


def test_loops_that_stay(tmp_path: Path) -> None:
    def reason(nodes: list[onnx.NodeProto], turns: int) -> str:
        b = Builder()
        b.input((2, 3)), b.input((2, 3))
        b.output(*loop(b, nodes, "going", b.const(np.int64(turns))))
        with pytest.raises(UnsupportedOp) as e:
            compile(b.model(check_model=False), tmp_path)
        return str(e.value)
    same = [helper.make_node("Identity", ["on"], ["going"])]
    sums = [helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
            helper.make_node("Cast", ["total"], ["going"], to=TensorProto.BOOL)]
    assert "whether the loop goes on must be a constant" in reason(sums, 3)
    assert f"more than {control.UNROLLED} nodes" in reason(same, 10 ** 7)
    assert "no turn at all" in reason(same, 0)


def scan_body() -> onnx.GraphProto:
    """state += column of a; the outputs are the new state and its product with a column of b."""
    nodes = [helper.make_node("Add", ["state", "a"], ["next"]), helper.make_node("Mul", ["next", "b"], ["row"])]
    return body(nodes, [info("state", (3,)), info("a", (3,)), info("b", (3,))], ["next", "row"])


def test_scan_over_other_axes_and_backwards(tmp_path: Path) -> None:
    b = Builder()
    state, x, y = b.input((3,)), b.input((3, 4)), b.input((4, 3))
    b.output(*b.op("Scan", state, x, y, outputs=2, body=scan_body(), num_scan_inputs=2, scan_input_axes=[1, 0],
                   scan_input_directions=[1, 0], scan_output_axes=[1], scan_output_directions=[1]))
    agrees(b, [{state: sample(3), x: sample(3, 4), y: sample(4, 3)}], tmp_path)


def test_scans_that_stay(tmp_path: Path) -> None:
    b = Builder()
    b.output(*b.op("Scan", b.input((3,)), b.input((4, 3)), b.input((5, 3)), outputs=2, body=scan_body(),
                   num_scan_inputs=2))
    with pytest.raises(ShapeError):
        compile(_unchecked(b), tmp_path)
    b = Builder(8)
    b.output(*b.op("Scan", "", b.input((2, 3)), b.input((2, 4, 3)), b.input((2, 4, 3)), outputs=2, body=scan_body(),
                   num_scan_inputs=2))
    with pytest.raises(UnsupportedOp) as e:
        compile(_unchecked(b), tmp_path)
    assert "a batch of 2 before opset 9" in str(e.value)


def _unchecked(b: Builder) -> onnx.ModelProto:
    """A model that onnx's shape inference need not accept."""
    graph = helper.make_graph(b.nodes, "graph", b.inputs, b.outputs, b.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", b.opset)], ir_version=8)
