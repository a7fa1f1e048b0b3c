"""What ONNX says about its operators: the versions that can be read, and the element types of their tensors."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from fuse2c.frontend import control, functions
from fuse2c.frontend.constants import FOLDED
from fuse2c.frontend.onnx import OPSET_MIN
from fuse2c.ir.types import DType
from fuse2c.ops import onnx_importers

BEYOND = frozenset({"Bernoulli", "SequenceMap"})        # functions that draw random numbers or make sequences


@dataclass(frozen=True, slots=True)
class Schema:
    """An operator as ONNX defines it. `last`: the newest operator set that has it, 0 if that is the newest of all."""

    first: int
    last: int
    types: tuple[DType, ...]


@cache
def schemas() -> dict[str, Schema]:
    """Every operator of ONNX's own domains that can be compiled, by name."""
    versions: dict[str, list[Any]] = {}
    for s in onnx.defs.get_all_schemas_with_history():
        if s.domain in (*functions.DOMAINS, "ai.onnx.ml"):
            versions.setdefault(s.name, []).append(s)
    return {name: found for name, all_versions in sorted(versions.items())
            if supported(name, max(all_versions, key=_since)) and (found := _schema(all_versions)).types}


def supported(name: str, newest: Any) -> bool:
    """Whether an operator is imported, folded, inlined, or defined by operators of which that holds."""
    if name in onnx_importers() or name in (*control.OPERATORS, *FOLDED, "Shape", "Size"):
        return True
    if newest.has_function:
        return all(supported(n.op_type, onnx.defs.get_schema(n.op_type, domain=n.domain))
                   for n in newest.function_body.node)
    return bool(newest.has_context_dependent_function) and name not in BEYOND


def _since(schema: Any) -> int:
    return int(schema.since_version)


def _schema(versions: Iterable[Any]) -> Schema:
    *older, newest = sorted(versions, key=_since)
    plain = newest.domain in ("", "ai.onnx")
    first = min(_since(s) for s in (*older, newest))
    return Schema(max(first, OPSET_MIN) if plain else first, _since(newest) - 1 if newest.deprecated else 0,
                  tuple(t for t in _types(older[-1] if newest.deprecated and older else newest)
                        if t == DType.F32 or not _narrow(newest)))


def _narrow(schema: Any) -> bool:
    """Whether an operator is defined by a function with float32 constants that meet its operands as they are."""
    if schema.name in onnx_importers() or not schema.has_function:
        return False
    ops = {n.op_type for n in schema.function_body.node}
    real = any(a.t.data_type == onnx.TensorProto.FLOAT for n in schema.function_body.node for a in n.attribute)
    return real and not ops & {"Cast", "CastLike"}


def _types(schema: Any) -> tuple[DType, ...]:
    """Element types of T, by which ONNX calls the type of the data, else those of the first input."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    given = [*schema.inputs, *schema.outputs]
    name = next((t for t in ("T", "V") if t in allowed), given[0].type_str if given else "")
    known = [text.removeprefix("tensor(").removesuffix(")").upper() for text in allowed.get(name, [name])]
    found = {np.dtype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(t))).name
             for t in known if t != "STRING" and t in set(onnx.TensorProto.DataType.keys())}
    return tuple(t for t in DType if t in found)
