"""Models from users' bug reports, in small: what exporters write and other tools trip over, against onnxruntime.

Each is compiled, its C built and run on the host, every kernel compared with its reference, every output with
onnxruntime's. One name a case; the builders say what is special about it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from graphs import IR_VERSION, Builder, Sample, compile, run_c, run_ort
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from fuse2c.check import random_samples
from fuse2c.cli import cli
from fuse2c.errors import ModelError, ShapeError

F32, I64 = np.float32, np.int64
Input = tuple[str, Sequence[int]]
RNG = np.random.default_rng()
START = np.random.default_rng(7).bit_generator.state


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same numbers in every test, whichever ran before."""
    RNG.bit_generator.state = START


def floats(*shape: int) -> np.ndarray:
    """Normal float32 numbers."""
    return RNG.standard_normal(shape).astype(F32)


def node(op: str, inputs: str, outputs: str = "y", **attrs: Any) -> onnx.NodeProto:
    """A node; "-" is an input or output that is left out."""
    return helper.make_node(op, [t.replace("-", "") for t in inputs.split()], [t.replace("-", "") for t in outputs.split()],
                            **attrs)


def model(nodes: Iterable[onnx.NodeProto], inputs: Iterable[Input], outputs: Iterable[str] = ("y",),
          weights: dict[str, Any] | None = None, opset: int = 17) -> ModelProto:
    """A model with float32 inputs; shapes and types of outputs are left to inference."""
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [onnx.ValueInfoProto(name=t) for t in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()])
    plain = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(plain)


def assert_same(got: Sample, want: Iterable[np.ndarray]) -> None:
    """Outputs in order: shapes, types and values."""
    for (name, a), b in zip(got.items(), map(np.asarray, want), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, name
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


def assert_as_onnxruntime(proto: ModelProto, folder: Path, want: list[Sample] | None = None, **options: Any) -> None:
    """C equals the reference kernel by kernel, and onnxruntime (or what is given) as a whole."""
    compiled = compile(proto, folder, **options)
    rows = random_samples(compiled.plan, 3)
    assert compiled.check(rows, opt="-O1").reference.differing == 0
    names = [o.name for o in proto.graph.output]
    for got, other in zip(run_c(compiled, rows), want or run_ort(proto, rows), strict=True):
        assert_same(got, [other[t] for t in names])


# --- recurrent networks -------------------------------------------------------------------------------------------

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": ["HardSigmoid", "Elu", "Softsign"], "GRU": ["Sigmoid", "LeakyRelu"], "RNN": ["Softplus"]}
STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 4, 5


def recurrent(op: str, direction: str, variant: str, layout: int = 0) -> ModelProto:
    """One layer, with one optional input, output or attribute of ONNX's, or ("all") with all inputs."""
    ways, gates = (2 if direction == "bidirectional" else 1), GATES[op]
    rng = np.random.default_rng(3)
    weights = {"w": (rng.standard_normal((ways, gates * HIDDEN, WIDTH)) / 2).astype(F32),
               "r": (rng.standard_normal((ways, gates * HIDDEN, HIDDEN)) / 2).astype(F32)}
    inputs: list[Input] = [("x", (BATCH, STEPS, WIDTH) if layout else (STEPS, BATCH, WIDTH))]
    state = (BATCH, ways, HIDDEN) if layout else (ways, BATCH, HIDDEN)
    ports = {"bias": "-", "lengths": "-", "h0": "-", "c0": "-", "peep": "-"}
    every, attrs = variant == "all", {"hidden_size": HIDDEN, "direction": direction}
    if every or variant in ("bias", "reset late"):
        ports["bias"], weights["bias"] = "bias", rng.standard_normal((ways, 2 * gates * HIDDEN)).astype(F32)
    if every or variant == "lengths":
        ports["lengths"], weights["lengths"] = "lengths", np.asarray([3, 2], np.int32)
    for t in ("h0", "c0")[:2 if op == "LSTM" else 1]:
        if every or variant == "states":
            ports[t] = t
            inputs.append((t, state))
    if every and op == "LSTM":
        ports["peep"], weights["peep"] = "peep", rng.standard_normal((ways, 3 * HIDDEN)).astype(F32)
    attrs |= {"clip": {"clip": 0.5}, "activations": {"activations": ACTIVATIONS[op] * ways},
              "input_forget": {"input_forget": 1}, "reset late": {"linear_before_reset": 1}}.get(variant, {})
    attrs |= {"layout": layout} if layout else {}
    outputs = ["y", "yh", "yc"][:3 if op == "LSTM" else 2]
    written = ["-" if variant == f"only {last}" and t != last else t for t in outputs for last in [variant[5:]]]
    given = ["x", "w", "r", *list(ports.values())[:5 if op == "LSTM" else 3]]
    return model([node(op, " ".join(given), " ".join(written), **attrs)], inputs, [t for t in written if t != "-"],
                 weights, opset=14)


VARIANTS = ["plain", "bias", "lengths", "states", "all", "clip", "activations", "only yh"]
LAYERS = [(op, v) for op in GATES for v in VARIANTS] + [("LSTM", "only yc"), ("LSTM", "input_forget"), ("GRU", "reset late")]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "variant"), LAYERS)
def test_recurrent(op: str, variant: str, direction: str, tmp_path: Path) -> None:
    assert_as_onnxruntime(recurrent(op, direction, variant), tmp_path)


@pytest.mark.parametrize("op", GATES)
def test_batch_first(op: str, tmp_path: Path) -> None:
    """layout=1, which onnxruntime does not have: the other layout, turned."""
    compiled = compile(recurrent(op, "bidirectional", "all", layout=1), tmp_path)
    rows = random_samples(compiled.plan, 2)
    other = run_ort(recurrent(op, "bidirectional", "all"), [
        {t: np.ascontiguousarray(a.swapaxes(0, 1)) for t, a in row.items()} for row in rows])
    for got, want in zip(run_c(compiled, rows), other, strict=True):
        assert_same(got, [want["y"].transpose(2, 0, 1, 3), *(want[t].swapaxes(0, 1) for t in list(want)[1:])])


# --- convolutions over time ---------------------------------------------------------------------------------------

def causal(kind: str) -> ModelProto:
    """Dilated Conv1D layers that see the past only, in the ways in which exporters write them."""
    b = Builder(18)
    y, length, channels = b.input((1, 3, 20)), 20, 3
    for dilation, width, out in ((1, 3, 4), (2, 3, 5), (4, 2, 4), (8, 2, 6)):
        before, attrs, w = (width - 1) * dilation, {"dilations": [dilation]}, (out, channels, width)
        if kind == "pads":
            y = b.op("Conv", y, b.floats(*w), b.floats(out), pads=[before, 0], **attrs)
        elif kind in ("constant", "edge", "reflect"):
            y = b.op("Conv", b.op("Pad", y, b.ints(0, 0, before, 0, 0, 0), mode=kind), b.floats(*w), **attrs)
        elif kind == "chomp":
            y = b.op("Conv", y, b.floats(*w), b.floats(out), pads=[before, before], **attrs)
            y = b.op("Slice", y, b.ints(0), b.ints(-before), b.ints(-1))
        elif kind == "two axes":
            y = b.op("Conv", b.op("Unsqueeze", y, b.ints(2)), b.floats(out, channels, 1, width), pads=[0, before, 0, 0],
                     dilations=[1, dilation])
            y = b.op("Squeeze", y, b.ints(2))
        else:
            y = b.op("Conv", y, b.floats(channels, 1, width), pads=[before, 0], group=channels, **attrs)
            y = b.op("Conv", y, b.floats(out, channels, 1))
        norm = [b.const(np.abs(floats(out)) + F32(0.1)), b.floats(out), b.floats(out), b.const(np.abs(floats(out)) + F32(0.1))]
        y, channels = b.op("Relu", b.op("BatchNormalization", y, *norm)), out
    b.output(y)
    proto = b.model(check_model=False)
    assert proto.graph.output[0].type.tensor_type.shape.dim[2].dim_value == length
    return proto


@pytest.mark.parametrize("optimize", ["cycles", "ram"])
@pytest.mark.parametrize("kind", ["pads", "constant", "edge", "reflect", "chomp", "two axes", "depthwise"])
def test_causal_convolutions(kind: str, optimize: str, tmp_path: Path) -> None:
    assert_as_onnxruntime(causal(kind), tmp_path, optimize=optimize)


# --- windows and normalisations -----------------------------------------------------------------------------------

WINDOWS = [((3, 2), (2, 2), (0, 0, 0, 0), (1, 1)), ((3, 3), (2, 2), (1, 1, 1, 1), (2, 2)),
           ((1, 1), (3, 3), (0, 0, 0, 0), (1, 1)), ((2, 2), (5, 3), (1, 1, 1, 1), (1, 1))]


@pytest.mark.parametrize("opset", [19, 22])
@pytest.mark.parametrize(("kernel", "strides", "pads", "dilations"), WINDOWS)
@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
def test_ceil_mode(op: str, kernel: Any, strides: Any, pads: Any, dilations: Any, opset: int, tmp_path: Path) -> None:
    """No window starts in the end pad, whatever ONNX's inference of shapes said before opset 22."""
    assert_as_onnxruntime(model([node(op, "x", kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations,
                                      ceil_mode=1)], [("x", (1, 2, 7, 6))], opset=opset), tmp_path)


@pytest.mark.parametrize("shape", [(2, 4, 6), (1, 4, 5, 3), (2, 4, 2, 3, 2)])
@pytest.mark.parametrize(("opset", "groups"), [(18, 1), (18, 2), (18, 4), (21, 1), (21, 2), (21, 4)])
def test_group_normalisation(opset: int, groups: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    """Its first version has a factor for each group, and onnx has withdrawn it since."""
    count = groups if opset < 21 else shape[1]
    assert_as_onnxruntime(model([node("GroupNormalization", "x s b", num_groups=groups, epsilon=1e-4)], [("x", shape)],
                                weights={"s": floats(count), "b": floats(count)}, opset=opset), tmp_path)


def test_group_normalisation_of_other_groups_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="4 channels in 3 groups"):
        compile(model([node("GroupNormalization", "x s s", num_groups=3)], [("x", (1, 4, 5))],
                      weights={"s": floats(3)}, opset=18), tmp_path)


@pytest.mark.parametrize(("group", "offsets", "strides", "pads", "dilations", "masked"), [
    (1, 1, (1, 1), (0, 0, 0, 0), (1, 1), False), (2, 1, (2, 1), (1, 0, 1, 1), (1, 1), True),
    (1, 2, (1, 2), (1, 1, 1, 1), (2, 1), True), (2, 2, (1, 1), (0, 1, 0, 1), (1, 2), False)])
def test_deformable(group: int, offsets: int, strides: Any, pads: Any, dilations: Any, masked: bool, tmp_path: Path) -> None:
    size, kernel = (6, 7), (2, 3)
    out = [(n + pads[i] + pads[2 + i] - (k - 1) * dilations[i] - 1) // strides[i] + 1
           for i, (n, k) in enumerate(zip(size, kernel, strict=True))]
    inputs: list[Input] = [("x", (1, 4, *size)), ("o", (1, offsets * 12, *out)), ("m", (1, offsets * 6, *out))]
    assert_as_onnxruntime(model(
        [node("DeformConv", "x w o b m" if masked else "x w o b", kernel_shape=kernel, strides=strides, pads=pads,
              dilations=dilations, group=group, offset_group=offsets)], inputs[:3 if masked else 2],
        weights={"w": floats(6, 4 // group, *kernel), "b": floats(6)}, opset=19), tmp_path)


SAMPLED: dict[str, Callable[[], ModelProto]] = {
    "bilinear": lambda: model([node("GridSample", "x g", mode="linear")], [("x", (1, 2, 90, 70)), ("g", (1, 6, 5, 2))],
                              opset=20),
    "bicubic": lambda: model([node("GridSample", "x g", mode="cubic", padding_mode="border")],
                             [("x", (1, 2, 9, 7)), ("g", (1, 6, 5, 2))], opset=20),
    "regions": lambda: model([node("RoiAlign", "x r i", output_height=3, output_width=2, sampling_ratio=2,
                                   spatial_scale=20.0)], [("x", (1, 2, 90, 70)), ("r", (4, 4))],
                             weights={"i": np.zeros(4, I64)}),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_tolerance_of_samples(name: str, tmp_path: Path) -> None:
    """Sums that cancel are judged by what was summed: of some thousand elements some are close to 0."""
    compiled = compile(SAMPLED[name](), tmp_path)
    found = compiled.check(random_samples(compiled.plan, 60), opt="-O1").reference
    assert found.differing == 0 and 0 < found.worst < 4e-7


def test_tolerance_of_determinants(tmp_path: Path) -> None:
    proto = model([node("Det", "x")], [("x", (3, 4, 4))])
    compiled = compile(proto, tmp_path)
    rows = random_samples(compiled.plan, 60)
    found = compiled.check(rows, opt="-O1").reference
    assert found.differing == 0 and 0 < found.worst < 4e-6
    np.testing.assert_allclose(run_c(compiled, rows)[0]["y"], ReferenceEvaluator(proto).run(None, rows[0])[0], rtol=1e-4)


def test_slopes_that_widen_are_refused(tmp_path: Path) -> None:
    """ONNX broadcasts a slope to x and not the other way."""
    for x, slope in (((2, 3), (4, 1, 3)), ((1, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((2, 3, 4), (3,))):
        with pytest.raises(ShapeError):
            compile(model([node("PRelu", "x s")], [("x", x)], weights={"s": floats(*slope)}), tmp_path)


# --- scalars ------------------------------------------------------------------------------------------------------

ONE = ("x", ())
SCALARS: dict[str, Callable[[], ModelProto]] = {
    **{op: lambda op=op: model([node(op, "x z")], [ONE, ("z", ())]) for op in ("Add", "Div", "Pow", "Max", "Mean", "PRelu")},
    "wide": lambda: model([node("Sub", "x z")], [ONE, ("z", (2, 3))]),
    "relu": lambda: model([node("Relu", "x")], [ONE]),
    "unsqueezed": lambda: model([node("Unsqueeze", "x a", "b"), node("Unsqueeze", "z a", "c"), node("Concat", "b c", axis=0)],
                                [ONE, ("z", ())], weights={"a": I64([0])}),
    "expanded": lambda: model([node("Expand", "x s")], [ONE], weights={"s": I64([2, 3])}),
    "bounds": lambda: model([node("Clip", "x lo hi")], [("x", (2, 3)), ("lo", ()), ("hi", ())]),
    "sum of all": lambda: model([node("ReduceSum", "x", keepdims=0)], [("x", (3, 4))]),
    "greatest": lambda: model([node("ArgMax", "x", axis=0, keepdims=0)], [("x", (5,))]),
    "dot": lambda: model([node("MatMul", "x z")], [("x", (4,)), ("z", (4,))]),
    "no axes": lambda: model([node("Reshape", "x s")], [("x", (1, 1))], weights={"s": np.zeros(0, I64)}),
    "flat": lambda: model([node("Flatten", "x", axis=0)], [ONE]),
    "cast": lambda: model([node("Cast", "x", to=TensorProto.INT64)], [ONE]),
    "stored": lambda: model([node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")], [ONE],
                            weights={"s": F32(0.1), "z": np.int8(3)}),
    "picked": lambda: model([node("Gather", "x i", axis=1)], [("x", (2, 3))], weights={"i": I64(-1)}),
}

# --- tensors without elements -------------------------------------------------------------------------------------

NONE = ("x", (0, 3))
EMPTY: dict[str, Callable[[], ModelProto]] = {
    "joined": lambda: model([node("Concat", "x z", axis=0)], [NONE, ("z", (2, 3))]),
    "joined with none": lambda: model([node("Concat", "x z", axis=0)], [NONE, ("z", (0, 3))]),
    "elementwise": lambda: model([node("Relu", "x")], [NONE]),
    "summed": lambda: model([node("ReduceSum", "x a", "s", keepdims=0), node("Add", "s z")], [NONE, ("z", (2, 3))],
                            weights={"a": I64([0])}),
    "no inner axis": lambda: model([node("MatMul", "x z", "p"), node("Add", "p b")],
                                   [("x", (2, 0)), ("z", (0, 3)), ("b", (3,))]),
    "no rows": lambda: model([node("Gemm", "x w b")], [("x", (0, 4))], weights={"w": floats(4, 3), "b": floats(3)}),
    "sliced away": lambda: model([node("Slice", "x e e a", "q"), node("Concat", "q x", axis=0)], [("x", (2, 3))],
                                 weights={"e": I64([2]), "a": I64([0])}),
    "one part": lambda: model([node("Split", "x s", "p y", axis=1)], [("x", (2, 3))], ("p", "y"), {"s": I64([0, 3])}),
    "nothing picked": lambda: model([node("Gather", "x i")], [("x", (2, 3))], weights={"i": np.zeros(0, I64)}),
    "padded": lambda: model([node("Pad", "x p")], [NONE], weights={"p": I64([1, 0, 1, 0])}),
    "nothing written": lambda: model([node("ScatterND", "x i u")], [("x", (4, 3))],
                                     weights={"i": np.zeros((0, 1), I64), "u": np.zeros((0, 3), F32)}),
    "no image": lambda: model([node("Conv", "x w")], [("x", (0, 2, 4, 5))], weights={"w": floats(3, 2, 2, 2)}),
    "no steps": lambda: model([node("LSTM", "x w r", "- h", hidden_size=2)], [("x", (0, 1, 2))], ("h",),
                              {"w": floats(1, 8, 2), "r": floats(1, 8, 2)}),
    "normalised": lambda: model([node("LayerNormalization", "x w")], [NONE], weights={"w": floats(3)}),
    "no best": lambda: model([node("TopK", "x k", "v i")], [("x", (2, 3))], ("v", "i"), {"k": I64([0])}),
}

# --- inputs and outputs -------------------------------------------------------------------------------------------

X = ("x", (2, 3))
TURN = node("Reshape", "a s", "y")
ENDS: dict[str, Callable[[], ModelProto]] = {
    "output twice": lambda: model([node("Relu", "x")], [X], ("y", "y")),
    "twice, and read": lambda: model([node("Relu", "x", "a"), node("Neg", "a")], [X], ("a", "y", "a")),
    "input is output": lambda: model([node("Relu", "x")], [X], ("x", "y")),
    "nothing to do": lambda: model([], [X, ("z", (3,))], ("z", "x")),
    "initialiser is output": lambda: model([node("Add", "x c")], [X], ("y", "c"), {"c": floats(3)}),
    "initialiser only": lambda: model([], [], ("c",), {"c": floats(2, 2)}),
    "constant is output": lambda: model([node("Add", "c c", "k"), node("Relu", "x")], [X], ("k", "y", "k"),
                                        {"c": floats(2, 2)}),
    "shape is output": lambda: model([node("Shape", "x")], [X]),
    "unused inputs": lambda: model([node("Relu", "x")], [("u", (5,)), X, ("v", ())]),
    "unused nodes": lambda: model([node("Relu", "x"), node("Exp", "x", "dead")], [X]),
    "unused output": lambda: model([node("Split", "x", "p q r", axis=1)], [X], ("q",), opset=13),
    "view and its source": lambda: model([node("Relu", "x", "a"), TURN], [X], ("a", "y"), {"s": I64([3, 2])}),
    "view of an input": lambda: model([node("Reshape", "x s", "a"), node("Flatten", "a", axis=0)], [X], ("a", "y", "x"),
                                      {"s": I64([3, 2])}),
    "identities": lambda: model([node("Identity", "x", "a"), node("Identity", "a")], [X], ("a", "y")),
    "dropout": lambda: model([node("Dropout", "x", "y m")], [X], ("y", "m")),
    "one operand twice": lambda: model([node("MatMul", "x x")], [("x", (3, 3))]),
    "before its epilogue": lambda: model([node("Conv", "x w", "a"), node("Relu", "a")], [("x", (1, 3, 5, 4))], ("a", "y"),
                                         {"w": floats(4, 3, 2, 3)}),
}


@pytest.mark.parametrize("build", [pytest.param(build, id=f"{kind}: {name}") for kind, models in (
    ("scalars", SCALARS), ("no elements", EMPTY), ("inputs and outputs", ENDS)) for name, build in models.items()])
def test_small(build: Callable[[], ModelProto], tmp_path: Path) -> None:
    assert_as_onnxruntime(build(), tmp_path)


@pytest.mark.parametrize("build", [EMPTY["joined with none"], ENDS["initialiser only"]], ids=["no elements", "no inputs"])
def test_sanitizers_come_to_an_end(build: Callable[[], ModelProto], tmp_path: Path) -> None:
    """A program that reads until its input ends would read nothing for ever."""
    (tmp_path / "m.onnx").write_bytes(build().SerializeToString())
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "m.onnx"), "--samples", "2", "--sanitize"])
    assert done.exit_code == 0 and "sanitizers: clean" in done.output, done.output


# --- names --------------------------------------------------------------------------------------------------------

KEYWORDS = ("int float double char void return if while for do static const inline register restrict volatile auto goto "
            "switch case default break continue sizeof struct union enum typedef unsigned signed long short extern main "
            "errno NULL exp sqrt y i j k n acc arena input output weights memcpy bool true false uint8_t size_t EOF").split()
ODD = ["größe", "输入", "😀", "a b", "a/b:0", "9", "__x", "a" * 300, "x\ty", 'x"y', "x*/y", "x\\", "??=", "%d", "A", "NULL"]


def test_names_that_are_keywords(tmp_path: Path) -> None:
    """A chain of tensors whose names, and those of the nodes, are C's own."""
    chain = ["x", *KEYWORDS]
    nodes = [node("Add", f"{a} w", b, name=c) for a, b, c in zip(chain, KEYWORDS, KEYWORDS[::-1], strict=False)]
    assert_as_onnxruntime(model(nodes, [X], ("int", "return", KEYWORDS[-1]), {"w": floats(3)}), tmp_path)


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_names_that_are_no_identifiers(name: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", [name, f"{name}_w"], [f"{name}_a"], name=name),
             helper.make_node("Relu", [f"{name}_a"], [f"{name}_y"], name=f"{name}2")]
    assert_as_onnxruntime(model(nodes, [(name, (1, 2, 4, 3))], (f"{name}_y",), {f"{name}_w": floats(3, 2, 2, 2)}), tmp_path)


def test_names_that_become_one(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["a b", "a.b"], ["a_b"], name="n n"),
             helper.make_node("Mul", ["a_b", "a-b"], ["A_B"], name="n.n"),
             helper.make_node("Sub", ["A_B", "a b"], ["a/b"], name="n_n")]
    assert_as_onnxruntime(model(nodes, [("a b", (2, 3)), ("a.b", (3,)), ("a-b", (2, 3))], ("a/b", "A_B")), tmp_path)


# --- what check makes of odd values -------------------------------------------------------------------------------

def test_masks_of_infinities(tmp_path: Path) -> None:
    """A softmax behind a mask of -inf, of which one row is all masked."""
    mask = np.where(np.tri(4, 5, -1), 0, -np.inf).astype(F32)
    proto = model([node("Add", "x m", "a"), node("Softmax", "a")], [("x", (2, 4, 5))], weights={"m": mask})
    result = compile(proto, tmp_path).check(count=3, opt="-O1")
    assert result.reference.differing == 0 and result.ort_outputs is not None and result.ort_outputs.differing == 0


def test_results_of_a_size_that_depends_on_the_data(tmp_path: Path) -> None:
    """onnxruntime's are shorter; what counts is compared."""
    compiled = compile(model([node("NonZero", "x")], [("x", (4, 5))]), tmp_path)
    rows = [{"x": np.where(RNG.random((4, 5)) < 0.6, 0, floats(4, 5)).astype(F32)} for _ in range(3)]
    result = compiled.check(rows, opt="-O1")
    assert result.reference.differing == 0
    assert result.ort_layers.differing == 0
    assert result.ort_layers.elements == 2 * sum(np.count_nonzero(row["x"]) for row in rows)


def test_long_integers_to_a_real_power(tmp_path: Path) -> None:
    """float32 has not all of them: the power is computed in float64, as onnxruntime does."""
    b = Builder(15)
    x, e = b.input((3,), I64), b.input((3,))
    b.output(b.op("Pow", x, e))
    proto = b.model()
    row = {x: I64([30_001, -123, 7]), e: F32([3, 5, 18])}
    (got,), (want,) = run_c(compile(proto, tmp_path), [row]), run_ort(proto, [row])
    assert [int(n) for n in next(iter(got.values()))] == [30_001 ** 3, -123 ** 5, 7 ** 18]
    np.testing.assert_array_equal(next(iter(got.values())), next(iter(want.values())))
