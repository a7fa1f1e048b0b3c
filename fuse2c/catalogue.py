"""The operators that can be compiled, read off the operators' own files and ONNX's schemas."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from fuse2c.frontend import control, schemas
from fuse2c.frontend.constants import FOLDED
from fuse2c.ir.types import DType
from fuse2c.kernels import scalars
from fuse2c.op import Op
from fuse2c.ops import all_ops, elementwise, onnx_importers

INTS = ("int8", "int16", "int32", "int64")
GROUPS = (("all", tuple(DType)), ("floats", ("float16", "bfloat16", "float32", "float64")),
          ("integers", (*INTS, *(f"u{t}" for t in INTS))), ("signed integers", INTS),
          ("unsigned integers", tuple(f"u{t}" for t in INTS)), ("2 and 4 bits", ("int2", "uint2", "int4", "uint4")),
          ("4 bits", ("int4", "uint4")))
NO_INTEGER_FORM = next(f.default for f in fields(Op) if f.name == "integer")
CONSTANT = FOLDED | {"Shape", "Size"}
REMARKS = {"If": "a condition of run time becomes a selection; both branches then run",
           "Loop": "the number of turns must be known; it is unrolled", "Scan": "it is unrolled"}


@dataclass(frozen=True, slots=True)
class Row:
    """One ONNX operator, in words."""

    name: str
    opsets: str
    types: str
    fusion: str
    remark: str


def operators() -> list[Row]:
    """Every operator that can be compiled, sorted by name."""
    return [_row(name, home().get(name)) for name in sorted({*onnx_importers(), *schemas.schemas()})]


def home() -> dict[str, Op]:
    """ONNX operator -> the operator that it becomes; those that become several have none."""
    return all_ops() | {name: op for op in all_ops().values() for name in op.onnx}


def _row(name: str, op: Op | None) -> Row:
    schema = schemas.schemas().get(name)
    types = (DType.I8, DType.U8) if schema is None else [t for t in schema.types if op is None or has_kernel(op, t)]
    quantised = op is not None and op.integer is not NO_INTEGER_FORM and DType.F32 in types
    words = [*grouped(types), *["quantised"] * quantised]
    if schema is None:
        opsets = "com.microsoft"
    else:
        opsets = f"{schema.first} to {schema.last}" if schema.last else f"from {schema.first}"
    return Row(name, opsets, ", ".join(words), _fusion(name, op), _remark(name, op))


def has_kernel(op: Op, dtype: DType) -> bool:
    """Whether an elementwise operator has a C form for a type; other operators take what ONNX allows."""
    row = scalars.UNARY.get(op.name) or scalars.BINARY.get(op.name)
    return row is None or op not in elementwise.OPS or bool(scalars.text(row, dtype))


def grouped(types: Iterable[DType]) -> list[str]:
    """Element types in as few words as possible."""
    left, words = [t.value for t in types], []
    for word, members in GROUPS:
        if all(t in left for t in members):
            words.append(word)
            left = [t for t in left if t not in members]
    return words + left


def _fusion(name: str, op: Op | None) -> str:
    if op is None:
        if name in onnx_importers():
            return "as its parts"
        return "inlined" if name in control.OPERATORS else "folded" if name in CONSTANT else "as its parts"
    if op.layout == "view":
        return "no kernel: a view"
    words = ["takes epilogues"] * op.anchor + ["is an epilogue"] * (op.scalar is not None)
    return ", ".join(words) or "own kernel"


def _remark(name: str, op: Op | None) -> str:
    if op is not None:
        return op.docs
    if name in REMARKS or name in onnx_importers():
        return REMARKS.get(name, "")
    return "of constants and shapes" if name in CONSTANT else "by ONNX's own definition"
