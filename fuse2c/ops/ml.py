"""Operators of ONNX's ai.onnx.ml domain, written as ordinary ones."""
from __future__ import annotations

from fuse2c.op import Source
from fuse2c.ops._emit import Emit


def from_binarizer(src: Source) -> None:
    """Binarizer: 1 above the threshold, else 0."""
    emit = Emit(src)
    dtype = emit.type(src.inputs[0]).dtype
    above = emit.op("Greater", src.inputs[0], emit.const(src.attrs.get("threshold", 0.0), dtype))
    emit.cast(above, dtype, out=src.outputs[0])


IMPORTS = {"Binarizer": from_binarizer}
