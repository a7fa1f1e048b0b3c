"""Loop nests: random graphs of elementwise operators, reductions, products and movements mean the same fused, in C."""
from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, chains, compile, outputs, reasons, samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuse2c.check import HostModel
from fuse2c.codegen import project
from fuse2c.names import identifier

UNARY = ("Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Softplus")
BINARY = ("Add", "Mul", "Sub", "Max")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2")
SHAPE = (2, 3, 5)


@st.composite
def graphs(draw: st.DrawFn) -> Builder:
    """Tensors that broadcast to SHAPE, or of five or four columns; any of them may be read twice, or be an output."""
    b = Builder(seed=draw(st.integers(0, 99)))
    shapes = {b.input(SHAPE): SHAPE, b.input((3, 1)): (3, 1), b.floats(5): (5,)}

    def pick(fits: tuple[tuple[int, ...], ...] = ()) -> str:
        names = [t for t, s in shapes.items() if not fits or s in fits]
        return names[-1 - min(draw(st.integers(0, 5)), len(names) - 1)]
    for _ in range(draw(st.integers(3, 9))):
        kind = draw(st.sampled_from(["unary", "binary", "reduce", "softmax", "product", "slice", "concat"]))
        x = pick()
        if kind == "unary":
            y = b.op(draw(st.sampled_from(UNARY)), x)
            shapes[y] = shapes[x]
        elif kind == "binary":
            z = pick(tuple(s for s in set(shapes.values()) if _fit(s, shapes[x])))
            y = b.op(draw(st.sampled_from(BINARY)), x, z)
            shapes[y] = np.broadcast_shapes(shapes[x], shapes[z])
        elif kind == "reduce":
            axis = draw(st.integers(0, len(shapes[x]) - 1))
            op = draw(st.sampled_from(REDUCTIONS))
            y = b.op(op, x, b.ints(axis)) if op == "ReduceSum" else b.op(op, x, axes=[axis])
            shapes[y] = tuple(1 if i == axis else n for i, n in enumerate(shapes[x]))
        elif kind == "softmax":
            axis = draw(st.integers(0, len(shapes[x]) - 1))
            y = b.op(draw(st.sampled_from(["Softmax", "LogSoftmax"])), x, axis=axis)
            shapes[y] = shapes[x]
        elif kind == "product" and len(shapes[x]) > 1:
            y = b.op("MatMul", x, b.floats(shapes[x][-1], 4, scale=0.5))
            shapes[y] = (*shapes[x][:-1], 4)
        elif kind == "slice" and shapes[x][-1] > 3:
            y = b.op("Slice", x, b.ints(1), b.ints(4), b.ints(-1))
            shapes[y] = (*shapes[x][:-1], 3)
        elif kind == "concat" and len(shapes[x]) > 1:
            y = b.op("Concat", x, x, axis=-1)
            shapes[y] = (*shapes[x][:-1], 2 * shapes[x][-1])
        else:
            continue
        if draw(st.integers(0, 5)) == 0:
            b.output(y)
    b.output(b.op("Neg", pick()))
    return b


def _fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return bool(np.broadcast_shapes(a, b))
    except ValueError:
        return False


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs(), st.sets(st.sampled_from(["loop-nest", "elementwise", "epilogue", "join", "move-later", "common"]), max_size=2))
def test_random_nests(b: Builder, refused: set[str]) -> None:
    """C is the body in numpy, and the body is the model; also where rules are left out."""
    with TemporaryDirectory() as folder:
        compiled = compile(b, Path(folder), no_fuse_rules=tuple(sorted(refused)))
        if not compiled.plan.steps:
            return
        rows = samples(compiled.plan, 2)
        assert_c_is_reference(compiled, rows)
        for got, want in zip(outputs(compiled.plan.graph, rows), outputs(compiled.plan.source, rows), strict=True):
            for t, y in want.items():
                assert np.allclose(got[t], y, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(y).max()))), chains(compiled)


def test_nothing_of_tensor_size_is_stored(tmp_path: Path) -> None:
    """GELU on a dense layer: no byte of memory is written but the output's."""
    b = Builder()
    x = b.op("Gemm", b.input((7, 12)), b.floats(12, 16), b.floats(16))
    half = b.op("Mul", x, b.const(0.5, np.float32))
    b.output(b.op("Mul", half, b.op("Add", b.op("Erf", b.op("Div", x, b.const(np.sqrt(2.0), np.float32))),
                                    b.const(1.0, np.float32))))
    plan = compile(b, tmp_path).plan
    assert plan.launches == 1 and plan.arena_bytes == 0 == plan.intermediate_bytes


@pytest.mark.parametrize("kind", ["norm", "attention", "mlp"])
def test_memory_that_is_written(kind: str, tmp_path: Path) -> None:
    """What a nest writes beside its outputs is one row: counted in the arena after runs on two fillings."""
    b = Builder()
    if kind == "norm":
        x = b.op("Tanh", b.input((9, 16)))
        centred = b.op("Sub", x, b.op("ReduceMean", x, axes=[1]))
        power = b.op("ReduceMean", b.op("Mul", centred, centred), axes=[1])
        b.output(b.op("Div", centred, b.op("Sqrt", b.op("Add", power, b.const(1e-5, np.float32)))))
        row = 16
    elif kind == "attention":
        q, k, v = (b.input((2, 9, 8)) for _ in range(3))
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 2, 1]))
        b.output(b.op("MatMul", b.op("Softmax", scores, axis=-1), v))
        row = 9
    else:
        hidden = b.op("Relu", b.op("MatMul", b.input((9, 8)), b.floats(8, 24)))
        b.output(b.op("MatMul", hidden, b.floats(24, 5)))
        row = 24
    plan = compile(b, tmp_path, arena="caller").plan
    assert plan.launches == 1
    touched = np.zeros(plan.arena_bytes, np.bool_)
    with HostModel(plan) as host:
        for filling in (0x55, 0xAA):
            host.arena = np.full(plan.arena_bytes + 8, filling, np.uint8)
            host.run(samples(plan, 1)[0])
            touched |= host.arena[:plan.arena_bytes] != filling
            assert (host.arena[plan.arena_bytes:] == filling).all()
    assert touched.sum() <= 4 * row


def test_near_misses(tmp_path: Path) -> None:
    """What would need a whole tensor stays outside, with the reason."""
    b = Builder()
    x = b.op("Tanh", b.input((6, 8)))
    b.output(b.op("MatMul", x, b.op("Transpose", b.op("Softmax", x, axis=1), perm=[1, 0])))
    compiled = compile(b, tmp_path)
    assert any("would have to be stored as a whole" in r for r in reasons(compiled, "fuse", "loop-nest"))
    assert_c_is_reference(compiled)
    b = Builder()
    x = b.input((40, 40))
    b.output(b.op("Softmax", b.op("Softmax", x, axis=1), axis=0))
    compiled = compile(b, tmp_path)
    assert any("bytes of scratch" in r for r in reasons(compiled, "fuse", "loop-nest"))
    assert_c_is_reference(compiled)
    b = Builder()
    x = b.op("Gather", b.input((2, 40)), b.ints(0, 3, 4, 39), axis=1)
    b.output(b.op("MatMul", x, b.floats(4, 7)))
    compiled = compile(b, tmp_path)
    assert any("picked by a table" in r for r in reasons(compiled, "fuse", "loop-nest"))
    assert_c_is_reference(compiled)


def attention_of_groups(b: Builder, picked: str) -> None:
    """Grouped queries: heads of keys and values serve several heads of queries; `picked`: along which axis they repeat."""
    q, k, v = b.input((1, 4, 6, 8)), b.input((1, 2, 6, 8)), b.input((1, 2, 6, 8))

    def repeated(t: str) -> str:
        wide = b.op("Expand", b.op("Unsqueeze", t, b.ints(2)), b.ints(1, 2, 2, 6, 8))
        return str(b.op("Reshape", wide, b.ints(1, 4, 6, 8)))
    keys = repeated(k)
    if picked == "rows":
        keys = b.op("Gather", keys, b.ints(5, 0, 2, 1, 4, 3), axis=2)
    scores = b.op("MatMul", q, b.op("Transpose", keys, perm=[0, 1, 3, 2]))
    b.output(b.op("MatMul", b.op("Softmax", scores, axis=-1), repeated(v)))


@pytest.mark.parametrize(("picked", "kernels"), [("heads", 1), ("rows", 2)])
def test_matrices_are_picked_where_they_lie(picked: str, kernels: int, tmp_path: Path) -> None:
    b = Builder()
    attention_of_groups(b, picked)
    compiled = compile(b, tmp_path)
    assert len(compiled.plan.steps) == kernels
    why = [r for r in reasons(compiled, "fuse", "loop-nest") if "would have to be stored as a whole" in r]
    assert picked == "heads" or why
    rows = samples(compiled.plan)
    assert_c_is_reference(compiled, rows)
    for got, want in zip(outputs(compiled.plan.graph, rows), outputs(compiled.plan.source, rows), strict=True):
        assert all(np.allclose(got[t], want[t], rtol=1e-5, atol=1e-6) for t in want)


def test_limits_of_one_kernel(tmp_path: Path) -> None:
    """More operands than a core has registers for stay apart, with the reason; a longer chain is cut."""
    b = Builder()
    total = b.input((3, 7))
    for _ in range(20):
        total = b.op("Add", total, b.op("Tanh", b.input((3, 7))))
    b.output(total)
    compiled = compile(b, tmp_path)
    assert any("operands and results, at most" in r for r in reasons(compiled, "fuse", "elementwise"))
    assert 2 <= len(compiled.plan.steps) < 8
    assert_c_is_reference(compiled)
    b = Builder()
    x = b.input((3, 7))
    for _ in range(120):
        x = b.op("Neg", x)
    b.output(x)
    compiled = compile(b, tmp_path)
    assert len(compiled.plan.steps) == 2 and any("operators, at most" in r for r in reasons(compiled, "fuse", "elementwise"))


def test_barriers_and_rules_left_out(tmp_path: Path) -> None:
    b = Builder()
    x = b.op("Tanh", b.input((6, 8)))
    b.output(b.op("Abs", b.op("Exp", x)))
    model = b.model()
    barrier = model.graph.node[1].name
    assert compile(model, tmp_path).plan.launches == 1
    stopped = compile(model, tmp_path, fuse_barriers=(barrier,))
    assert sorted(chains(stopped)) == ["Abs", "Tanh > Exp"] and any("barrier" in d.reason for d in stopped.plan.decisions)
    assert compile(model, tmp_path, no_fuse_rules=("elementwise", "join")).plan.launches == 3
    assert_c_is_reference(stopped)


@pytest.mark.parametrize("share", ["auto", "always", "never"])
def test_shared_kernels(share: str, tmp_path: Path) -> None:
    """Layers that differ in their weights only are one C function, if wanted."""
    b = Builder()
    x = b.input((1, 3, 6, 5))
    for _ in range(3):
        x = b.op("Relu", b.op("Conv", x, b.floats(3, 3, 3, 3), b.floats(3), pads=[1, 1, 1, 1]))
    b.output(b.op("ReduceMax", x, axes=[1]))
    for rules in ((), ("join",)):
        compiled = compile(b, tmp_path, share_kernels=share, no_fuse_rules=rules)
        assert_c_is_reference(compiled)
        name = identifier(compiled.plan.graph.name)
        text = project.files(compiled.plan)[f"{name}.c"]
        shared = share == "always" or (share == "auto" and rules)
        assert ("shared by" in text) == bool(shared)
