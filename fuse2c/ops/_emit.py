"""Expansions: an importer that writes an ONNX operator as a few operators of the IR."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.op import Source
from fuse2c.ops import elementwise


@dataclass(frozen=True, slots=True)
class Emit:
    """Adds nodes to the graph that `src` is imported into; every method returns the name of its result.

    `out`: the tensor to write; a fresh one if empty.
    """

    src: Source

    def type(self, x: str) -> TensorType:
        """The type of a tensor."""
        return self.src.graph.type(x)

    def op(self, op: str, *inputs: str, attrs: object = None, out: str = "") -> str:
        """Any operator with one output; without attributes an elementwise one."""
        y = out or self.src.graph.temporary(f"{self.src.name}.{op.lower()}")
        self.src.node(op, elementwise.Attrs() if attrs is None else attrs, inputs, (y,))
        return y

    def const(self, value: Any, dtype: DType) -> str:
        """A constant of an element type."""
        return self.src.graph.constant(f"{self.src.name}.const", np.asarray(value).astype(dtype.numpy))

    def reshape(self, x: str, shape: Sequence[int], out: str = "") -> str:
        """The same elements in another shape."""
        from fuse2c.ops.movement import Shape
        return self.op("Reshape", x, attrs=Shape(tuple(shape)), out=out)

    def cast(self, x: str, dtype: DType, out: str = "") -> str:
        """Another element type; the tensor itself if it has that already and no name is wanted."""
        from fuse2c.ops.cast import add
        if self.type(x).dtype == dtype and not out:
            return x
        y = out or self.src.graph.temporary(f"{self.src.name}.cast")
        add(self.src, x, dtype, y)
        return y

    def reduce(self, op: str, x: str, axes: Sequence[int]) -> str:
        """A reduction that keeps the reduced axes."""
        from fuse2c.ops.reduce import Attrs
        return self.op(op, x, attrs=Attrs(tuple(sorted(axes))))

    def centred(self, x: str, axes: Sequence[int]) -> tuple[str, str, str]:
        """(mean, x minus its mean, variance) over some axes."""
        mean = self.reduce("ReduceMean", x, axes)
        centred = self.op("Sub", x, mean)
        return mean, centred, self.reduce("ReduceMean", self.op("Mul", centred, centred), axes)
