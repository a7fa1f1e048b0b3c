"""Operators on stored integers with scales beside them, as Q/DQ around the operator on floats.

ONNX has two of them; onnxruntime's own domain (com.microsoft) has one for each float operator that its quantiser
stores in QOperator format.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ir.types import Quant
from fuse2c.op import Source
from fuse2c.ops import conv, matmul
from fuse2c.ops.elementwise import Attrs
from fuse2c.ops.quantise import add_dequantise, add_quantise, constants


def _names(src: Source, count: int) -> list[str]:
    """Fresh names for the float tensors inside an expanded QLinear operator."""
    return [src.graph.temporary(f"{src.outputs[0]}.real{i}") for i in range(count)]


def _conv(src: Source) -> None:
    """QLinearConv: (x, s, z, w, s, z, y_s, y_z, bias)."""
    x, w, b, y = _names(src, 4)
    constants(src, 1, 2, 4, 5, 6, 7)
    add_dequantise(src, src.inputs[0], (1, 2), x)
    add_dequantise(src, src.inputs[3], (4, 5), w)
    inputs: tuple[str, ...] = (x, w)
    if src.has(8):
        inputs = (x, w, _bias(src, src.inputs[8], (1, 4), b))
    conv.from_onnx(replace(src, op="Conv", inputs=inputs, outputs=(y,)))
    add_quantise(src, y, (6, 7), src.outputs[0])


def _bias(src: Source, bias: str, scale_ports: tuple[int, int], name: str) -> str:
    """The real bias: int32 at scale s_x * s_w."""
    scale = (np.asarray(src.const(scale_ports[0], "the scale"), np.float32)
             * np.asarray(src.const(scale_ports[1], "the scale"), np.float32)).reshape(-1)
    scale_name = src.graph.constant(f"{src.name}.bias_scale", scale if scale.size > 1 else scale.reshape(()))
    src.graph.retype(bias, replace(src.graph.type(bias), quant=Quant(tuple(map(float, scale)), (0,), 0)))
    zero = src.graph.constant(f"{src.name}.bias_zero", np.zeros((), np.int32))
    src.node("DequantizeLinear", Attrs(), (bias, scale_name, zero), (name,))
    return name


def _matmul(src: Source) -> None:
    """QLinearMatMul: (a, s, z, b, s, z, y_s, y_z)."""
    a, b, y = _names(src, 3)
    constants(src, *range(1, 3), *range(4, 8))
    add_dequantise(src, src.inputs[0], (1, 2), a, axis=-2)
    add_dequantise(src, src.inputs[3], (4, 5), b, axis=-1)
    matmul.from_matmul(replace(src, op="MatMul", inputs=(a, b), outputs=(y,)))
    add_quantise(src, y, (6, 7), src.outputs[0], axis=-2)


def _gemm(src: Source) -> None:
    """QGemm (com.microsoft): (a, s, z, b, s, z, bias, y_s, y_z)."""
    a, b, bias, y = _names(src, 4)
    constants(src, 1, 2, 4, 5, 7, 8)
    add_dequantise(src, src.inputs[0], (1, 2), a)
    add_dequantise(src, src.inputs[3], (4, 5), b, axis=0 if src.attrs.get("transB", 0) else 1)
    inputs = (a, b, _bias(src, src.inputs[6], (1, 4), bias)) if src.has(6) else (a, b)
    if not src.has(7):
        raise src.refuse("QGemm with a float output", hint="give y_scale and y_zero_point")
    matmul.from_gemm(replace(src, op="Gemm", inputs=inputs, outputs=(y,)))
    add_quantise(src, y, (7, 8), src.outputs[0])


@dataclass(frozen=True, slots=True)
class Form:
    """Where the inputs of an operator are: each operand's value, scale and zero point stand side by side.

    operands: ports of the values; the last one repeats to the end for a `variadic` operator. y: port of the result's
    scale. plain: ports of inputs without scale, which come first.
    """

    operands: tuple[int, ...]
    y: int
    plain: tuple[int, ...] = ()
    variadic: bool = False


UNARY = Form((0,), 3)
BINARY = Form((0, 3), 6)
FORMS = {"QLinearAdd": BINARY, "QLinearAveragePool": UNARY, "QLinearConcat": Form((2,), 0, variadic=True),
         "QLinearGlobalAveragePool": UNARY, "QLinearLeakyRelu": UNARY, "QLinearMul": BINARY,
         "QLinearSigmoid": UNARY, "QLinearSoftmax": UNARY, "QLinearWhere": Form((1, 4), 7, plain=(0,))}
SINCE = 13      # the opset of the float operators behind them: a softmax has one axis


def _from_form(src: Source) -> None:
    """An operator of com.microsoft that is its float namesake between dequantised operands and a quantised result."""
    from fuse2c.ops import onnx_importers  # of all operators, this file's among them
    form = FORMS[src.op]
    if src.attrs.get("channels_last", 0):
        raise src.refuse("channels at the end", attr="channels_last", hint="export the model in ONNX's order of axes")
    at = range(form.operands[0], len(src.inputs), 3) if form.variadic else form.operands
    *reals, y = _names(src, len(at) + 1)
    constants(src, *(port + i for port in at for i in (1, 2)), form.y, form.y + 1)
    for port, real in zip(at, reals, strict=True):
        add_dequantise(src, src.inputs[port], (port + 1, port + 2), real)
    name = src.op.removeprefix("QLinear")
    onnx_importers()[name](replace(src, op=name, inputs=(*(src.inputs[i] for i in form.plain), *reals), outputs=(y,),
                                   opset=src.attrs.get("opset", SINCE)))
    add_quantise(src, y, (form.y, form.y + 1), src.outputs[0])


IMPORTS = {"QGemm": _gemm, "QLinearConv": _conv, "QLinearMatMul": _matmul, **dict.fromkeys(FORMS, _from_form)}
