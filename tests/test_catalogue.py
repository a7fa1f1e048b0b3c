"""`fuse2c list ops` tells the truth: what it lists is planned, for the types that it names."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import fuse2c
from fuse2c import catalogue
from fuse2c.errors import UnsupportedOp
from fuse2c.frontend.schemas import schemas
from fuse2c.ir.types import DType

SHAPE = (2, 3, 4, 4)        # square at the end: Det wants that


def simple(name: str) -> onnx.defs.OpSchema | None:
    """The schema of an operator whose inputs are all of one type and which needs no attribute."""
    try:
        schema = onnx.defs.get_schema(name)
    except onnx.defs.SchemaError:
        return None
    needed = [i.type_str for i in schema.inputs[:max(schema.min_input, 1)]]
    plain = needed and len(set(needed)) == 1 and needed[0] in ("T", "T1", "V")
    needs = any(a.required for a in schema.attributes.values())
    return schema if plain and not schema.deprecated and not needs else None


def planned(folder: Path, name: str, dtype: DType, count: int) -> fuse2c.Compiled:
    """A model of one node with `count` inputs."""
    kind = TensorProto.DataType.Value({"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype.value, dtype.value.upper()))
    inputs = [f"x{i}" for i in range(count)]
    graph = helper.make_graph([helper.make_node(name, inputs, ["y"])], "one",
                              [helper.make_tensor_value_info(t, kind, SHAPE) for t in inputs],
                              [onnx.ValueInfoProto(name="y")])
    path = folder / "one.onnx"
    onnx.save(helper.make_model(graph), path)
    return fuse2c.plan(path)


# These want operands of other shapes than SHAPE, an optional input or further outputs.
SHAPED = frozenset("""
BlackmanWindow CausalConvWithState ConstantOfShape ConvTranspose DFT DeformConv DynamicQuantizeLinear EyeLike GRU Gemm
HammingWindow HannWindow If InstanceNormalization LSTM LayerNormalization RNN Range Resize RotaryEmbedding Split
""".split())
PROBED = [row.name for row in catalogue.operators() if simple(row.name) is not None and row.name not in SHAPED]


@pytest.mark.parametrize("name", PROBED)
def test_every_listed_type_is_planned(name: str, tmp_path: Path) -> None:
    schema = simple(name)
    assert schema is not None
    op = catalogue.home().get(name)
    for dtype in schemas()[name].types:
        if op is None or catalogue.has_kernel(op, dtype):
            planned(tmp_path, name, dtype, max(schema.min_input, 1))


def test_most_operators_are_probed() -> None:
    assert len(PROBED) > 90


def test_types_in_few_words() -> None:
    assert catalogue.grouped([DType.I8, DType.F32]) == ["int8", "float32"]
    assert catalogue.grouped([*(t for t in DType if t.is_float), DType.I4, DType.U4]) == ["floats", "4 bits"]
    assert catalogue.grouped(tuple(DType)) == ["all"]


def test_rows_say_what_is_known() -> None:
    rows = {row.name: row for row in catalogue.operators()}
    assert rows["Scatter"].opsets == "9 to 10" and rows["Gelu"].opsets == "from 20"
    assert rows["Conv"].fusion == "takes epilogues" and "is an epilogue" in rows["Relu"].fusion
    assert rows["Reshape"].fusion == "no kernel: a view" and rows["Loop"].fusion == "inlined"
    assert not {"Bernoulli", "SequenceMap", "StringConcat", "Adam", "RandomNormal"} & set(rows)
    assert all(row.types for row in rows.values())


def old_add(folder: Path, axis: int, operand: list[int]) -> fuse2c.Compiled:
    """Add of operator set 6, along an axis."""
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"], broadcast=1, axis=axis)], "old",
                              [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3, 5]),
                               helper.make_tensor_value_info("b", TensorProto.FLOAT, operand)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 5])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)]), folder / "old.onnx")
    return fuse2c.plan(folder / "old.onnx")


@pytest.mark.parametrize(("axis", "operand"), [(0, [2]), (1, [3]), (-2, [3]), (2, [5]), (0, [2, 3])])
def test_an_old_broadcast_along_an_axis(axis: int, operand: list[int], tmp_path: Path) -> None:
    assert old_add(tmp_path, axis, operand).check(count=2).reference.differing == 0


def test_an_old_broadcast_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match=r"shape \[3, 5\] that starts at axis 2 of 3"):
        old_add(tmp_path, 2, [3, 5])
