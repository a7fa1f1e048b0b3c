"""GridSample: an image read at positions that are computed at run time; AffineGrid: such positions, by a matrix."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy, nesting
from fuse2c.kernels.nesting import Access
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops import _onnx, cast, matmul
from fuse2c.ops.movement import Permutation
from fuse2c.ops.shapes import reshape, shape_of, whole_numbers

PORTS = ("x", "grid")
MODES = {"nearest": ("nearest", 1), "linear": ("linear", 2), "bilinear": ("linear", 2), "cubic": ("cubic", 4),
         "bicubic": ("cubic", 4)}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@dataclass(frozen=True, slots=True)
class Attrs:
    """Interpolation, what lies outside, and whether the corners are the centres of the outermost elements."""

    mode: str
    padding: str
    align: bool

    @property
    def taps(self) -> int:
        """Elements read along each axis."""
        return MODES[self.mode][1]


def from_grid_sample(src: Source) -> None:
    """GridSample; positions are computed in float32."""
    mode, padding = src.attrs.get("mode", "linear"), src.attrs.get("padding_mode", "zeros")
    for value, known, attr in ((mode, MODES, "mode"), (padding, PADDINGS, "padding_mode")):
        if value not in known:
            raise src.refuse(f"{attr} {value!r}", attr=attr, hint=f"one of {', '.join(known)}")
    grid = src.inputs[1]
    if src.graph.type(grid).dtype != DType.F32:
        grid = src.graph.temporary(f"{src.outputs[0]}.grid")
        cast.add(src, src.inputs[1], DType.F32, grid)
    src.node("GridSample", Attrs(MODES[mode][0], padding, bool(src.attrs.get("align_corners", 0))),
             (src.inputs[0], grid))


def from_affine_grid(src: Source) -> None:
    """AffineGrid: the corners of the image times theta; `size` is a parameter."""
    size = whole_numbers(src.const(1, "size"))
    batch, image = size[0], size[2:]
    align, dtype = bool(src.attrs.get("align_corners", 0)), src.graph.type(src.inputs[0]).dtype
    if shape_of(src) != (batch, len(image), len(image) + 1):
        raise ShapeError(f"theta of the shape {shape_of(src)} for the size {size}", node=src.name, op=src.op)
    lines = [np.linspace(-1, 1, n) if align and n > 1 else (2 * np.arange(n) + 1) / n - 1 for n in image]
    planes = np.meshgrid(*lines, indexing="ij")
    corners = np.stack([*reversed(planes), np.ones(image)]).reshape(len(image) + 1, -1)
    base = src.graph.constant(f"{src.name}.corners", corners.astype(dtype.numpy))
    y = src.outputs[0]
    product, turned = (src.graph.temporary(f"{y}.{what}") for what in ("product", "turned"))
    src.node("MatMul", matmul.Attrs(), (src.inputs[0], base), (product,))
    src.node("Transpose", Permutation((0, 2, 1)), (product,), (turned,))
    reshape(src, turned, (batch, *image, len(image)), y)


def infer(c: Call) -> list[TensorType]:
    """[N, C, positions...]."""
    x, grid = c.type(0), c.type(1).shape
    rank = len(x.shape) - 2
    if rank < 1 or len(grid) != rank + 2 or grid[0] != x.shape[0] or grid[-1] != rank:
        raise ShapeError(f"a grid {grid} for {x.shape}", node=c.node.name, op=c.node.op)
    return [TensorType(x.dtype, (*x.shape[:2], *grid[1:-1]))]


def reference(c: Call, x: np.ndarray, grid: np.ndarray) -> list[np.ndarray]:
    """onnx's own."""
    a = c.attrs
    return _onnx.run(_onnx.attrs("GridSample", 20, {"mode": a.mode, "padding_mode": a.padding,
                                                    "align_corners": int(a.align)}), [x, grid])


def sums(c: Call, x: np.ndarray, grid: np.ndarray) -> list[np.ndarray]:
    """No weights add up to much more than 1; the rounding of a position counts as often as the image is long."""
    return [np.full(c.y[0].shape, (1 + max(x.shape[2:]) / 16) * float(x.max(initial=0.0)))]


@dataclass(frozen=True, slots=True)
class Side:
    """One spatial axis of the image: its number, extent, stride, and where its coordinate stands in the grid."""

    d: int
    size: int
    stride: int
    at: str
    indent: str


def spec(c: Call) -> Spec:
    """Loops over batch and positions; channels inside, so that a position is looked up once."""
    x, grid, y, a = c.type(0), c.type(1), c.y[0], c.attrs
    rank = len(x.shape) - 2
    one = TensorType(y.dtype, (y.shape[0], 1, *y.shape[2:]))
    n = nesting.nest(one, [Access((x.strides[0], *[0] * (rank + 1))), Access((grid.strides[0], 0, *grid.strides[1:-1])),
                         Access((y.strides[0], 0, *y.strides[2:]))], rows=False)
    _, base, position, to = n.index
    sides = [Side(d, x.shape[2 + d], x.strides[2 + d], f"{position} + {(rank - 1 - d) * grid.strides[-1]}",
                  n.indent + "    " * (d + 1)) for d in range(rank)]
    terms = [f"(at{s.d}[t{s.d}] * {s.stride})" for s in sides]
    zero = "0.0" if x.dtype == DType.F64 else "0.0f"
    return Spec({"CHANNELS": x.shape[1], "TAPS": a.taps, "X_SC": x.strides[1], "Y_SC": y.strides[1],
                 "ALIGN": int(a.align), "PADDING": PADDINGS[a.padding]}, copy.constants(c, PORTS), by_rows=False,
                flags={"nest": n, "sides": sides, "sides_back": sides[::-1], "mode": a.mode, "zero": zero, "to": to,
                       "weight": " * ".join(f"w{s.d}[t{s.d}]" for s in sides),
                       "from": " + ".join([base, "(c * X_SC)", *terms]), "inner": n.indent + "    " * (rank + 1)})


def work(c: Call) -> Work:
    """A multiply-accumulate for each tap."""
    rank = len(c.type(0).shape) - 2
    return Work(macs=c.y[0].count * c.attrs.taps ** rank, alu=40 * prod(c.type(1).shape))


def when(c: Call) -> str:
    """Real numbers."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


IMPORTS = {"AffineGrid": from_affine_grid}
OP = Op(name="GridSample", onnx={"GridSample": from_grid_sample}, ports=PORTS, infer=infer, reference=reference,
        layout="strided", work=work, sums=sums, kernels=(Kernel("grid_sample", spec, when=when),))
