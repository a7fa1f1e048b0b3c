"""Transposed convolution, and Col2Im, which is one with an identity for weights: each output gathers its inputs.

ConvTranspose: x [N,C,in...], w [C,O/group,K...], b [O] -> [N,O,out...]. Col2Im: x [N,C*prod(K),L] -> [N,C,out...].
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import volume, windowing
from fuse2c.kernels.scalars import compute
from fuse2c.kernels.tiling import Store
from fuse2c.kernels.windowing import Window
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work


@dataclass(frozen=True, slots=True)
class Attrs:
    """The window of the convolution that this one turns around, and the extents of the result."""

    window: Window
    out: tuple[int, ...]
    group: int = 1


def from_onnx(src: Source) -> None:
    """ConvTranspose: resolves auto_pad, output_padding and output_shape."""
    x, w = src.graph.type(src.inputs[0]), src.graph.type(src.inputs[1])
    rank = len(w.shape) - 2
    if not 1 <= rank <= volume.MAX_RANK or len(x.shape) != len(w.shape):
        raise src.refuse(f"{rank}-D transposed convolution of a tensor of shape {x.shape}")
    kernel = tuple(src.attrs.get("kernel_shape", w.shape[2:]))
    if kernel != w.shape[2:]:
        raise ShapeError(f"kernel_shape is {kernel}, the weights are {w.shape}", node=src.name, op=src.op)
    auto = src.attrs.get("auto_pad", "NOTSET")
    plain = {key: value for key, value in src.attrs.items() if key != "auto_pad"}
    window = windowing.from_attrs(replace(src, attrs=plain), x.shape[2:], kernel)
    full = [s * (n - 1) + extra + window.extent(i) for i, (s, n, extra) in enumerate(zip(
        window.strides, x.shape[2:], src.attrs.get("output_padding", [0] * rank), strict=True))]
    wanted = src.attrs.get("output_shape")
    same = [n * s for n, s in zip(x.shape[2:], window.strides, strict=True)]
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        # The pads follow from the extents, but never add any; the odd element goes to the end for SAME_UPPER only.
        total = [max(n - o, 0) for n, o in zip(full, (wanted or same)[-rank:], strict=True)]
        begin = [n // 2 if auto == "SAME_UPPER" else n - n // 2 for n in total]
        window = replace(window, pads=tuple(begin + [n - b for n, b in zip(total, begin, strict=True)]))
    out = tuple(wanted[-rank:] if wanted else
                (n - window.pads[i] - window.pads[rank + i] for i, n in enumerate(full)))
    src.node("ConvTranspose", Attrs(window, out, src.attrs.get("group", 1)))


def infer(c: Call) -> list[TensorType]:
    """[N, O, out...]."""
    x, w, group = c.type(0), c.type(1), c.attrs.group
    if w.shape[0] != x.shape[1] or x.shape[1] % group:
        raise ShapeError(f"weights expect {w.shape[0]} input channels in {group} groups, the input has {x.shape[1]}",
                         node=c.node.name, op=c.node.op, tensor=c.node.inputs[1])
    if c.has(2) and c.type(2).shape != (w.shape[1] * group,):
        raise ShapeError(f"the bias has shape {c.type(2).shape}, expected ({w.shape[1] * group},)", node=c.node.name)
    if min(c.attrs.out) < 1:
        raise ShapeError(f"the pads leave nothing: output would be {c.attrs.out}", node=c.node.name, op=c.node.op)
    return [TensorType(x.dtype, (x.shape[0], w.shape[1] * group, *c.attrs.out))]


def reference(c: Call, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> list[np.ndarray]:
    """One product of matrices for each group, its columns added up where they belong."""
    group, n = c.attrs.group, x.shape[0]
    shares = x.reshape(n, group, x.shape[1] // group, -1)
    filters = w.reshape(group, w.shape[0] // group, -1)
    columns = np.einsum("ngcl,gcm->ngml", shares, filters).reshape(n, -1, prod(x.shape[2:]))
    y = gathered(columns, c.attrs.window, x.shape[2:], c.attrs.out)
    return [(y if b is None else y + b.reshape(1, -1, *[1] * len(c.attrs.out))).astype(x.dtype)]


def gathered(columns: np.ndarray, window: Window, blocks: tuple[int, ...], out: tuple[int, ...]) -> np.ndarray:
    """columns [N,C*prod(K),prod(blocks)] added up into [N,C,out...]."""
    n = columns.shape[0]
    taps = columns.reshape(n, -1, *window.kernel, *blocks)
    room = [(b - 1) * s + window.extent(i) for i, (b, s) in enumerate(zip(blocks, window.strides, strict=True))]
    size = [max(r, o + p) for r, o, p in zip(room, out, window.begin, strict=True)]
    y = np.zeros((n, taps.shape[1], *size), columns.dtype)
    for tap in np.ndindex(*window.kernel):
        at = tuple(slice(k * d, k * d + (b - 1) * s + 1, s) for k, d, b, s in zip(
            tap, window.dilations, blocks, window.strides, strict=True))
        y[(slice(None), slice(None), *at)] += taps[(slice(None), slice(None), *tap)]
    return y[(slice(None), slice(None), *(slice(p, p + o) for p, o in zip(window.begin, out, strict=True)))]


def work(c: Call) -> Work:
    """One multiply-accumulate for each input element and weight that it meets."""
    return Work(macs=c.type(0).count * prod(c.type(1).shape[1:]), alu=4 * c.y[0].count)


def spec(c: Call) -> Spec:
    """The operands' places. What lands in the pads is not computed."""
    spec = volume.spec(c, c.attrs.window, c.constant(1), c.constant(2), 0, groups=c.attrs.group)
    x, channels = c.type(0), c.type(1).shape[1]
    return replace(spec, macs=x.shape[0] * x.shape[1] * channels * windowing.taps(c.attrs.window, x.shape[2:], c.attrs.out))


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


def from_col2im(src: Source) -> None:
    """Col2Im: image_shape and block_shape are parameters."""
    image, kernel = (tuple(map(int, src.const(port, what))) for port, what in ((1, "image_shape"), (2, "block_shape")))
    if not 1 <= len(image) <= volume.MAX_RANK:
        raise src.refuse(f"{len(image)}-D images")
    window = windowing.from_attrs(src, image, kernel)
    src.node("Col2Im", Attrs(window, image), src.inputs[:1])


def col2im_infer(c: Call) -> list[TensorType]:
    """[N, C, image...]."""
    x, a = c.type(0), c.attrs
    blocks = prod(a.window.out(a.out))
    if len(x.shape) != 3 or x.shape[2] != blocks or x.shape[1] % prod(a.window.kernel):
        raise ShapeError(f"{blocks} blocks of {a.window.kernel} in an image {a.out} do not fit {x.shape}",
                         node=c.node.name, op=c.node.op)
    return [TensorType(x.dtype, (x.shape[0], x.shape[1] // prod(a.window.kernel), *a.out))]


def col2im_reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """Blocks added up."""
    a = c.attrs
    return [gathered(x.astype(compute(c.type(0).dtype)), a.window, a.window.out(a.out), a.out).astype(x.dtype)]


def col2im_spec(c: Call) -> Spec:
    """The blocks are the input's pixels."""
    x, y, window = c.type(0), c.y[0], c.attrs.window
    pixels = TensorType(x.dtype, (*x.shape[:2], *window.out(y.shape[2:])))
    return Spec(windowing.volume_constants(pixels, y, window), by_rows=False, flags={"store": Store("acc", "oc", "at")})


OPS = (
    Op(name="ConvTranspose", onnx={"ConvTranspose": from_onnx}, ports=("x", "w", "b"), infer=infer,
       reference=reference, work=work, layout="spatial", anchor=True, channel_axis=1, docs="1-D to 3-D",
       kernels=(Kernel("conv_transpose", spec, when=when),)),
    Op(name="Col2Im", onnx={"Col2Im": from_col2im}, infer=col2im_infer, reference=col2im_reference, anchor=True,
       work=lambda c: Work(alu=c.type(0).count), docs="images of 1 to 3 dimensions",
       kernels=(Kernel("col2im", col2im_spec),)),
)
