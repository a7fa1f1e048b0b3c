"""Damaged models: whatever is flipped, the result is a project or an error of the user's, and soon."""
from __future__ import annotations

import faulthandler
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import broken
import cases
import numpy as np
import onnx
import pytest

import fuse2c
from fuse2c.codegen import project
from fuse2c.errors import Fuse2cError

ROUNDS = 130
LIMIT_S = 120       # for one model; a hang ends the run with a traceback instead of blocking it
INTEGERS = (0, 1, -1, 2, 3, 7, 255, 2 ** 15, 2 ** 31 - 1, -2 ** 31, 2 ** 31, 2 ** 40, 2 ** 63 - 1, -2 ** 63)
FLOATS = (0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e-45, 3e38)
OPERATORS = ("Conv", "Add", "MatMul", "Reshape", "Transpose", "Softmax", "Concat", "MaxPool", "Slice", "Gather", "Clip",
             "ReduceMean", "Pad", "Resize", "QuantizeLinear", "DequantizeLinear", "Expand", "Split", "Cast")


def shapes() -> onnx.ModelProto:
    """Movements, reductions and constants that say what shape something has."""
    return broken.model([
        broken.node("Shape", "x", "s"), broken.node("Gather", "s i", "g"), broken.node("Concat", "g m", "t", axis=0),
        broken.node("Reshape", "x t", "r"), broken.node("Transpose", "r", "p", perm=[1, 0]),
        broken.node("Slice", "p b e", "c"), broken.node("Pad", "c pads", "d"),
        broken.node("ReduceMean", "d", "f", axes=[0], keepdims=1), broken.node("Softmax", "f", "h", axis=1),
        broken.node("Resize", "x - z", "k", mode="nearest"), broken.node("AveragePool", "k", "y", kernel_shape=[2, 3])],
        {"i": np.array([0], np.int64), "m": np.array([-1], np.int64), "b": np.array([2, 0], np.int64),
         "e": np.array([50, 1], np.int64), "pads": np.array([1, 0, 2, 1], np.int64),
         "z": np.array([1, 1, 2, 1.5], np.float32)}, outputs=("h", "y"))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "shapes": shapes,
    "stored": lambda: cases.layer("net-residual-relu", cases.STYLES["s8"]).model(),
    "float": lambda: cases.layer("net-flattened", cases.FLOAT).model(),
}


def flipped(content: bytes, r: random.Random) -> bytes:
    """A few bytes changed, lost or added."""
    data = bytearray(content)
    for _ in range(r.choice((1, 1, 2, 8))):
        at = r.randrange(len(data))
        how = r.randrange(3)
        if how == 0:
            data[at] ^= 1 << r.randrange(8)
        elif how == 1:
            del data[at:at + r.randrange(1, 4)]
        else:
            data[at:at] = bytes(r.randrange(256) for _ in range(r.randrange(1, 4)))
    return bytes(data)


def changed(content: bytes, r: random.Random) -> bytes:
    """Still a protobuf, with one or two fields that mean something else."""
    model = onnx.ModelProto.FromString(content)
    for _ in range(r.choice((1, 1, 2))):
        r.choice((_attribute, _ports, _weight, _shape, _operator))(model.graph, r)
    return model.SerializeToString()


def _attribute(g: onnx.GraphProto, r: random.Random) -> None:
    node = r.choice([n for n in g.node if n.attribute])
    a = r.choice(node.attribute)
    if a.type == onnx.AttributeProto.INTS and a.ints:
        a.ints[r.randrange(len(a.ints))] = r.choice(INTEGERS)
    elif a.type == onnx.AttributeProto.INT:
        a.i = r.choice(INTEGERS)
    else:
        node.attribute.remove(a)


def _ports(g: onnx.GraphProto, r: random.Random) -> None:
    node = r.choice([n for n in g.node if n.input])
    names = [t for n in g.node for t in (*n.input, *n.output)]
    node.input[r.randrange(len(node.input))] = r.choice((*names, ""))


def _weight(g: onnx.GraphProto, r: random.Random) -> None:
    tensor = r.choice(g.initializer)
    value = onnx.numpy_helper.to_array(tensor).copy().reshape(-1)
    kind: Any = FLOATS if value.dtype.kind == "f" else [i for i in INTEGERS if np.iinfo(value.dtype).min <= i
                                                        <= np.iinfo(value.dtype).max]
    value[r.randrange(value.size)] = r.choice(kind)
    tensor.CopyFrom(onnx.numpy_helper.from_array(value.reshape(tuple(tensor.dims)), tensor.name))


def _shape(g: onnx.GraphProto, r: random.Random) -> None:
    if r.random() < 0.5:
        dims = r.choice(g.input).type.tensor_type.shape.dim
        dims[r.randrange(len(dims))].dim_value = r.choice(INTEGERS)
    else:
        r.choice(g.input).type.tensor_type.elem_type = r.choice(onnx.TensorProto.DataType.values())


def _operator(g: onnx.GraphProto, r: random.Random) -> None:
    r.choice(g.node).op_type = r.choice(OPERATORS)


@pytest.mark.parametrize("how", [flipped, changed], ids=["bytes", "fields"])
@pytest.mark.parametrize("name", MODELS)
def test_damaged_models_give_a_project_or_an_error(name: str, how: Callable[[bytes, random.Random], bytes],
                                                   tmp_path: Path) -> None:
    content, r = MODELS[name]().SerializeToString(), random.Random(f"{name} {how.__name__}")
    path, seen = tmp_path / "m.onnx", Counter[str]()
    options: list[dict[str, Any]] = [{}, {}, {"io": "int8"}, {"fuse": False}, {"optimize": "ram"}, {"arena": "caller"}]
    for i in range(ROUNDS):
        path.write_bytes(how(content, r))
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            project.files(fuse2c.plan(path, r.choice(("host", "cortex-m4")), **r.choice(options)).plan)
            seen["compiled"] += 1
        except Fuse2cError as e:
            assert e.exit_status == 1, f"round {i}: {e}"
            seen[e.code] += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
    assert len(seen) > 1 and sum(seen.values()) == ROUNDS and max(seen.values()) < ROUNDS, seen
