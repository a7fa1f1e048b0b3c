"""What a model says of its inputs: element types, dimensions, and the values that the user binds them to."""
from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod
from pathlib import Path
from zipfile import BadZipFile

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from fuse2c.errors import ModelError, ShapeError, did_you_mean, printable
from fuse2c.ir.types import DType
from fuse2c.options import Numbers, Value


def is_static(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether the file says how large a dimension is; some exporters write -1 where they do not know."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def dim_name(tensor: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> str:
    """What --dim calls a dimension: its own name, else that of its tensor and its axis; "?" names nothing."""
    return dim.dim_param.strip("?") or f"{tensor}.{axis}"


def dtype_of(elem_type: int, tensor: str) -> DType:
    """The compiler's element type for ONNX's number of one. Raises ModelError for one that it has not."""
    try:
        return DType(np.dtype(helper.tensor_dtype_to_np_dtype(elem_type)).name)
    except (KeyError, ValueError):
        names = onnx.TensorProto.DataType
        raise unsupported_type(names.Name(elem_type).lower() if elem_type in names.values() else str(elem_type),
                               tensor) from None


def unsupported_type(name: str, tensor: str) -> ModelError:
    """The error for an element type that generated code has not."""
    return ModelError(f"element type {name} is not supported", tensor=tensor,
                      hint="convert the model to float32 or quantise it to int8")


def read_array(path: Path) -> np.ndarray:
    """The array in an .npy file. Raises ModelError for a file that holds no array of numbers."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, SyntaxError, BadZipFile) as e:
        raise ModelError(f"--bind: cannot read {path.name}: {printable(str(e))}", hint="an .npy file of one array") from None
    if not isinstance(found, np.ndarray):
        raise ModelError(f"--bind: {path.name} holds several arrays", hint="an .npy file of one array")
    return found


def bound(graph: onnx.GraphProto, given: Mapping[str, Value]) -> dict[str, np.ndarray]:
    """The values of Options.bind, each with the element type and the shape of its input.

    An array has to have both; numbers get both, in row-major order. Raises ModelError for a name that is no input's,
    ShapeError for a value that does not fit.
    """
    inputs = {v.name: v for v in graph.input}
    for name in given:
        if name not in inputs:
            raise ModelError(f"--bind: no input is called {name!r}", hint=did_you_mean(name, inputs))
    return {name: _fitted(inputs[name], value) for name, value in given.items()}


def _fitted(info: onnx.ValueInfoProto, value: Value) -> np.ndarray:
    """One value for one input."""
    kind = info.type.tensor_type
    dtype = dtype_of(kind.elem_type, info.name)
    found = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else _cast(info.name, value, dtype)
    if found.dtype.kind == dtype.numpy.kind == "V" and found.dtype.itemsize == dtype.bytes:
        found = found.view(dtype.numpy)         # .npy files have no name for bfloat16 and the like
    dims: list[int | None] = list(found.shape)
    if kind.HasField("shape"):
        dims = [d.dim_value if is_static(d) else None for d in kind.shape.dim]
    if not isinstance(value, np.ndarray | np.generic):
        found = _shaped(found, dims)
    if found.dtype != dtype.numpy or found.ndim != len(dims) or any(
            n not in (None, have) for n, have in zip(dims, found.shape, strict=True)):
        want = ", ".join("?" if n is None else str(n) for n in dims)
        raise ShapeError(f"--bind: the input is {dtype.value} [{want}], the value {found.dtype.name} {list(found.shape)}",
                         tensor=info.name)
    return found


def _shaped(a: np.ndarray, dims: list[int | None]) -> np.ndarray:
    """An array in the shape of `dims`, of which one may be unknown; as it is where it cannot have that shape."""
    fixed = prod(n for n in dims if n is not None)
    if dims.count(None) > 1 or a.size % max(fixed, 1) or (None not in dims and a.size != fixed):
        return a
    return a.reshape([a.size // max(fixed, 1) if n is None else n for n in dims])


def _cast(name: str, value: Numbers, dtype: DType) -> np.ndarray:
    """Numbers as elements of a type. Raises ShapeError for one that the type has not."""
    numbers = np.asarray(value, object)
    if dtype.is_float:
        most = float(ml_dtypes.finfo(dtype.numpy).max)
        bad = [n for n in numbers.flat if abs(n) > most and abs(n) != math.inf]
    else:
        least, most = (0, 1) if dtype == DType.BOOL else dtype.range
        bad = [n for n in numbers.flat if n != n // 1 or not least <= n <= most]
    if bad:
        raise ShapeError(f"--bind: {dtype.value} has no {bad[0]}", tensor=name)
    return numbers.astype(np.float64 if dtype.is_float else np.int64 if least < 0 else np.uint64).astype(dtype.numpy)
