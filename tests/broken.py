"""Models with one fault each, built by hand: what an exporter, an editor or an attacker may hand to the compiler."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, SMALL = np.float32, np.int64, np.int8(3)
IMAGE = (1, 3, 5, 4)
Shape = Sequence[int | str | None]


def value(name: str, shape: Shape | None, elem: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """An input or output; None: an output whose shape is left to inference."""
    return helper.make_tensor_value_info(name, elem, shape)


def node(op: str, inputs: str, outputs: str = "y", name: str = "", **attrs: Any) -> onnx.NodeProto:
    """A node; names of tensors are separated by spaces, "-" stands for an absent input."""
    ports = [[t if t != "-" else "" for t in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *ports, name=name or op.lower(), **attrs)


def model(nodes: Iterable[onnx.NodeProto], weights: Mapping[str, Any] | None = None, *,
          inputs: Mapping[str, Any] | None = None, outputs: Iterable[str] = ("y",), opset: int = 17,
          domains: Iterable[str] = ()) -> onnx.ModelProto:
    """A model from x [1,3,5,4] to y that nobody checks. A weight that is a TensorProto is taken as it is."""
    tensors = [v if isinstance(v, TensorProto) else numpy_helper.from_array(np.asarray(v), k)
               for k, v in (weights or {}).items()]
    given = {"x": IMAGE} if inputs is None else inputs
    graph = helper.make_graph(list(nodes), "g", [v if isinstance(v, onnx.ValueInfoProto) else value(k, v)
                                                 for k, v in given.items()],
                              [value(t, None) for t in outputs], tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def one(op: str, inputs: str = "x", weights: Mapping[str, Any] | None = None, **attrs: Any) -> onnx.ModelProto:
    """A model of one node from x to y."""
    return model([node(op, inputs, **attrs)], weights)


def typed(elem: int) -> onnx.ModelProto:
    """Identity of an input of some element type."""
    return model([node("Identity", "x")], inputs={"x": value("x", (2, 3), elem)})


def constant(op: str, inputs: str, weights: Mapping[str, Any], opset: int = 17, **attrs: Any) -> onnx.ModelProto:
    """A node whose inputs are all constant, added to the input."""
    return model([node(op, inputs, "made", name="bomb", **attrs), node("Add", "x made")], weights, inputs={"x": (1,)},
                 opset=opset)


def external(location: str | None, offset: Any = None, length: Any = None, dims: Sequence[int] = (4,),
             elem: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """x + w, the value of w in a file of its own."""
    w = TensorProto(name="w", data_type=elem, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, entry in (("location", location), ("offset", offset), ("length", length)):
        if entry is not None:
            w.external_data.add(key=key, value=str(entry))
    return model([node("Add", "x w")], {"w": w}, inputs={"x": (4,)})


def sparse() -> onnx.ModelProto:
    """A sparse initialiser."""
    m = one("Add", "x w")
    m.graph.sparse_initializer.append(onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.ones(1, F32), "w"), indices=numpy_helper.from_array(np.ones(1, I64), "i"),
        dims=[4]))
    return m


def function() -> onnx.ModelProto:
    """A node that is a function of the model's own, called like an operator of ONNX."""
    m = model([node("Relu", "x", domain="com.microsoft")], domains=["com.microsoft"])
    m.functions.append(helper.make_function("com.microsoft", "Relu", ["a"], ["b"], [node("Neg", "a", "b")],
                                            [helper.make_opsetid("", 17)]))
    return m


def with_text(m: onnx.ModelProto, old: bytes, new: bytes) -> bytes:
    """The file with some bytes replaced by as many others."""
    content = m.SerializeToString()
    assert old in content and len(old) == len(new)
    return content.replace(old, new)


def external_attribute() -> onnx.ModelProto:
    """An attribute whose value lies in a file of its own."""
    t = TensorProto(name="v", data_type=TensorProto.FLOAT, dims=(1,), data_location=TensorProto.EXTERNAL)
    t.external_data.add(key="location", value="w.bin")
    return constant("ConstantOfShape", "s", {"s": np.array([4], I64)}, value=t)


def doubling(inputs: str, times: int = 40) -> onnx.ModelProto:
    """A chain of concatenations of a tensor with itself."""
    names = [inputs, *(f"d{i}" for i in range(times - 1)), "y"]
    return model([node("Concat", f"{a} {a}", b, name=b, axis=0) for a, b in pairwise(names)],
                 {"w": np.ones(4, F32)})


def loops(depth: int, turns: int = 100) -> onnx.ModelProto:
    """Loops inside loops, each of many turns, around nothing."""
    keep = [node("Identity", "go", "on", name="keep"), node("Identity", "v", "w", name="work")]
    for i in range(depth):
        ports = [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("v", (1,))]
        body = helper.make_graph(keep, f"body{i}", ports, [value("on", (), TensorProto.BOOL), value("w", (1,))])
        loop = node("Loop", "n t v", "w", name=f"loop{i}", body=body)
        keep = [node("Identity", "go", "on", name="keep"), loop]
    return model([node("Loop", "n t x", "y", body=body)], {"n": np.int64(turns), "t": np.bool_(True)},
                 inputs={"x": (1,)})


def quantised(scale: Any, zero: Any = SMALL, axis: int = 1) -> onnx.ModelProto:
    """Q and DQ with a scale and a zero point that may be wrong."""
    return model([node("QuantizeLinear", "x s z", "q", axis=axis), node("DequantizeLinear", "q s z", axis=axis)],
                 {"s": scale, "z": zero})


def overflowing() -> onnx.ModelProto:
    """An int8 convolution whose sums do not fit into int32."""
    depth = 140_000
    return model([node("DequantizeLinear", "x s z", "a"), node("DequantizeLinear", "w s z", "b", name="weights"),
                  node("Conv", "a b", "c"), node("QuantizeLinear", "c t z")],
                 {"w": np.full((1, depth, 1, 1), 127, np.int8), "s": F32(0.5), "t": F32(1e6), "z": np.int8(0)},
                 inputs={"x": value("x", (1, depth, 1, 1), TensorProto.INT8)})


RELU, WEIGHTS = node("Relu", "x"), np.ones((2, 3, 3, 2), F32)
BIG, FAR = np.array([100_000, 100_000], I64), np.array([0, 0, 100_000, 100_000], I64)
MANY = [node("Foo", "x", "a", name="first"), *(node("Foo", "a", f"b{i}", name=f"foo{i}") for i in range(7)),
        node("Bar", "a", "c", name="bar", domain="my.ops"), node("Relu", "c")]

FILES: dict[str, Callable[[], onnx.ModelProto | bytes]] = {
    "empty file": lambda: b"",
    "text": lambda: b"This is no model.\n" * 9,
    "random bytes": lambda: np.random.default_rng(7).bytes(4000),
    "truncated": lambda: one("Conv", "x w", {"w": WEIGHTS}).SerializeToString()[:-40],
    "protobuf of something else": lambda: numpy_helper.from_array(np.ones(3, F32), "w").SerializeToString(),
    "no graph": lambda: onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]),
    "opset too old": lambda: model([RELU], opset=5),
    "opset too new": lambda: model([RELU], opset=999),
    "name that is not UTF-8": lambda: with_text(model([node("Relu", "x", name="quxx")]), b"quxx", b"q\xff\xfex"),
}
GRAPHS: dict[str, Callable[[], onnx.ModelProto | bytes]] = {
    "unsupported operators": lambda: model(MANY, domains=["my.ops"]),
    "one unsupported operator": lambda: one("Foo"),
    "function of the model's own": function,
    "no outputs": lambda: model([RELU], outputs=()),
    "output never written": lambda: model([node("Relu", "x", "a")]),
    "input never written": lambda: one("Relu", "q"),
    "nodes out of order": lambda: model([node("Relu", "a", name="late"), node("Neg", "x", "a", name="early")]),
    "cycle": lambda: model([node("Add", "x b", "a", name="p"), node("Relu", "a", "b", name="q"), node("Neg", "b")]),
    "written twice": lambda: model([node("Relu", "x", name="p"), node("Neg", "x", name="q")]),
    "input overwritten": lambda: model([node("Relu", "x", "x")], outputs=("x",)),
    "weight overwritten": lambda: model([node("Relu", "x", "w"), node("Neg", "w")], {"w": np.ones(3, F32)}),
    "initialiser twice": lambda: model([node("Add", "x w")], {
        k: numpy_helper.from_array(np.ones(4, F32), "w") for k in "ab"}),
    "initialiser without a name": lambda: model([RELU], {"": np.ones(4, F32)}),
    "input twice": lambda: model([RELU], inputs={k: value("x", IMAGE) for k in "ab"}),
    "input without a type": lambda: model([RELU], inputs={"x": onnx.ValueInfoProto(name="x")}),
    "sparse initialiser": sparse,
    "too few inputs": lambda: one("Conv", "x"),
    "input left out": lambda: model([node("Concat", "x - x", axis=1)]),
    "too many outputs": lambda: model([node("Relu", "x", "y z")]),
    "unknown attribute": lambda: one("Relu", quux=1),
    "attribute of the wrong type": lambda: one("Conv", "x w", {"w": WEIGHTS}, group="two"),
    "attribute beyond 32 bits": lambda: one("Softmax", axis=2 ** 40),
    "axis out of range": lambda: one("Concat", "x x", axis=9),
    "types that differ": lambda: one("Add", "x w", {"w": np.ones(4, np.int32)}),
    "shapes that do not broadcast": lambda: one("Add", "x w", {"w": np.ones(7, F32)}),
    "wrong number of channels": lambda: one("Conv", "x w", {"w": np.ones((2, 5, 3, 3), F32)}, name="conv1"),
    "bias larger than the product": lambda: model([node("Gemm", "x w b")], {
        "w": np.ones((4, 5), F32), "b": np.ones((3, 1), F32)}, inputs={"x": (1, 4)}),
    "stride beyond all sense": lambda: one("Conv", "x w", {"w": np.ones((2, 3, 1, 1), F32)}, strides=[2 ** 40, 1]),
    "ONNX's operator in another domain": lambda: model([node("Transpose", "x", domain="com.microsoft")],
                                                       domains=["com.microsoft"]),
    "kernel larger than the input": lambda: one("MaxPool", kernel_shape=[9, 9]),
    "reshape to another size": lambda: one("Reshape", "x s", {"s": np.array([7, 11], I64)}),
    "reshape by a variable": lambda: model([node("Reshape", "x s")], inputs={
        "x": IMAGE, "s": value("s", (2,), TensorProto.INT64)}),
    "scale of zero": lambda: quantised(F32(0)),
    "scale that is no number": lambda: quantised(F32("nan")),
    "too few scales": lambda: quantised(np.ones(2, F32), np.ones(2, np.int8)),
    "accumulator that overflows": overflowing,
}
SIZES: dict[str, Callable[[], onnx.ModelProto | bytes]] = {
    "unbound dimensions": lambda: model([RELU], inputs={"x": ("N", 3, "height", None)}),
    "huge input": lambda: model([RELU], inputs={"x": (2 ** 40, 2 ** 40, 2 ** 40)}),
    "too many axes": lambda: model([RELU], inputs={"x": [1] * 40}),
    "huge broadcast": lambda: model([node("Add", "x z")], inputs={"x": (1, 100_000), "z": (100_000, 1)}),
    "huge Pad": lambda: one("Pad", "x p", {"p": np.array([0, 0, 0, 0, 0, 0, 10 ** 9, 10 ** 9], I64)}),
    "huge Resize": lambda: one("Resize", "x - s", {"s": np.array([1, 1, 1e9, 1e9], F32)}),
    "huge Tile": lambda: one("Tile", "x r", {"r": np.array([1, 1, 10 ** 6, 10 ** 6], I64)}),
    "huge Expand": lambda: one("Expand", "x s", {"s": np.array([10 ** 6, 10 ** 6, 3, 5, 4], I64)}),
    "huge padding of a convolution": lambda: one("Conv", "x w", {"w": WEIGHTS}, pads=[10 ** 9] * 4),
    "doubling": lambda: doubling("x"),
    "constant ConstantOfShape": lambda: constant("ConstantOfShape", "s", {"s": BIG}),
    "constant of negative size": lambda: constant("ConstantOfShape", "s", {"s": -BIG}),
    "constant Expand": lambda: constant("Expand", "a s", {"a": np.ones((1, 1), F32), "s": BIG}),
    "constant Tile": lambda: constant("Tile", "a s", {"a": np.ones((1, 1), F32), "s": BIG}),
    "constant Range": lambda: constant("Range", "a b c", {"a": F32(0), "b": F32(1e12), "c": F32(1)}),
    "endless Range": lambda: constant("Range", "a b c", {"a": F32(0), "b": F32(9), "c": F32(0)}),
    "Range to no number": lambda: constant("Range", "a b c", {"a": F32(0), "b": F32("nan"), "c": F32(1)}),
    "constant Pad": lambda: constant("Pad", "a p", {"a": np.ones((1, 1), F32), "p": FAR}),
    "constant Pad by attribute": lambda: constant("Pad", "a", {"a": np.ones((1, 1), F32)}, 10, pads=FAR.tolist()),
    "constant Resize": lambda: constant("Resize", "a - - s", {"a": np.ones((1, 1), F32), "s": BIG}),
    "constant OneHot": lambda: constant("OneHot", "a b c", {
        "a": np.ones(3, I64), "b": np.array(10 ** 10), "c": np.array([0, 1], F32)}),
    "constant outer product": lambda: constant("MatMul", "a b", {
        "a": np.ones((30_000, 1), F32), "b": np.ones((1, 30_000), F32)}),
    "constant Gather": lambda: constant("Gather", "a i", {"a": np.ones((1, 30_000), F32), "i": np.zeros(30_000, I64)}),
    "constant doubling": lambda: doubling("w"),
    "constant OneHot of no depth": lambda: constant("OneHot", "a b c", {
        "a": np.ones(3, I64), "b": np.zeros(0, I64), "c": np.array([0, 1], F32)}),
    "constant with a wrong axis": lambda: constant("Concat", "a a", {"a": np.ones(3, F32)}, axis=5),
    "constant that cannot be": lambda: constant("Reshape", "a s", {"a": np.ones(6, F32), "s": np.array([5, 5])}),
}
TYPES = {name: elem for name, elem in TensorProto.DataType.items()
         if name in ("STRING", "COMPLEX64", "FLOAT8E4M3FN", "UNDEFINED")} | {"99": 99}
WEIGHT_FAULTS: dict[str, Callable[[], onnx.ModelProto | bytes]] = {
    **{f"element type {name}": lambda elem=elem: typed(elem) for name, elem in TYPES.items()},      # type: ignore[misc]
    "constant of text": lambda: one("Add", "x w", {"w": np.array(["a", "b"], object)}),
    "constant of text as output": lambda: model([RELU], {"w": np.array(["a", "b"], object)}, outputs=("y", "w")),
    "too few bytes": lambda: one("Add", "x w", {"w": TensorProto(name="w", data_type=1, dims=(4,), raw_data=b"123")}),
    "unknown element type": lambda: one("Add", "x w", {"w": TensorProto(name="w", data_type=77, dims=(4,))}),
    "negative size": lambda: one("Add", "x w", {"w": TensorProto(name="w", data_type=1, dims=(-4,))}),
    "external attribute": external_attribute,
    "external, absolute": lambda: external("/etc/passwd"),
    "external, up": lambda: external("../outside.bin"),
    "external, up from below": lambda: external("below/../../outside.bin"),
    "external, link to outside": lambda: external("link.bin"),
    "external, folder that is a link": lambda: external("linked/outside.bin"),
    "external, loop of links": lambda: external("loop.bin"),
    "external, missing": lambda: external("nowhere.bin"),
    "external, a folder": lambda: external("."),
    "external, no location": lambda: external(None),
    "external, NUL in the name": lambda: external("w\0.bin"),
    "external, beyond the end": lambda: external("w.bin", 20),
    "external, before the start": lambda: external("w.bin", -4),
    "external, offset that is no number": lambda: external("w.bin", "four"),
    "external, wrong length": lambda: external("w.bin", 0, 8),
    "external, huge": lambda: external("w.bin", dims=(2 ** 40, 2 ** 40)),
    "external, more than there may be": lambda: external("w.bin", dims=(2 ** 28,), elem=TensorProto.COMPLEX128),
}
CASES = FILES | GRAPHS | SIZES | WEIGHT_FAULTS
