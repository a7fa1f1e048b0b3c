"""For every rule a graph on which it fires, in ONNX's text format: for the documentation, and the tests run them.

`W(a,b)` stands for a constant tensor of that shape, `Z(a,b)` for one of zeros, `Q` and `DQ` for QuantizeLinear and
DequantizeLinear with a scale of 0.05 and a zero point of 3.
"""
from __future__ import annotations

import re

_Q, _DQ = "QuantizeLinear", "DequantizeLinear"
GRAPHS: dict[str, str] = {
    "epilogue": "(float[1,3,6,5] x, float[1,4,4,4] r) "
                "{ c = Conv(x, W(4,3,3,2)) p = PRelu(c, W(4,1,1)) a = Add(p, r) y = Relu(a) }",
    "loop-nest": "(float[2,6] x) { d = MatMul(x, W(6,8)) s = Softmax<axis=1>(d) y = MatMul(s, W(8,3)) }",
    "elementwise": "(float[2,3,4] x, float[3,1] r) { a = Tanh(x) b = Mul(a, r) c = Sigmoid(x) y = Sub(b, c) z = Abs(a) }",
    "in-place": "(float[1,3,6,5] x) { a = Conv(x, W(4,3,1,1)) b = MaxPool<kernel_shape=[1,1]>(x) y = Concat<axis=1>(a, b) }",
    "join": "(float[1,3,6,5] x) { c = Conv(x, W(4,3,1,1)) y = MaxPool<kernel_shape=[2,2]>(c) }",
    "power": "(float[2,5] x) { y = Pow(x, W3()) }",
    "hard-sigmoid": "(float[2,5] x) { a = Add(x, W3()) c = Clip(a, W0(), W6()) y = Div(c, W6()) }",
    "swish": "(float[2,5] x) { s = Sigmoid(x) y = Mul(x, s) }",
    "hard-swish": "(float[2,5] x) { s = HardSigmoid<alpha=0.16666667,beta=0.5>(x) y = Mul(x, s) }",
    "mish": "(float[2,5] x) { a = Softplus(x) b = Tanh(a) y = Mul(b, x) }",
    "bias": "(float[2,6] x) { m = MatMul(x, W(6,5)) y = Add(m, W(5)) }",
    "merge-reshapes": "(float[2,3,4] x) { a = Reshape(x, I(6,4)) b = Reshape(a, I(4,6)) y = Tanh(b) }",
    "merge-transposes": "(float[2,3,4] x) { a = Transpose<perm=[1,2,0]>(x) b = Transpose<perm=[1,0,2]>(a) y = Tanh(b) }",
    "pad-transpose": "(float[1,5,6,3] x) "
                     "{ p = Pad(x, I(0,1,2,0,0,0,1,0)) t = Transpose<perm=[0,3,1,2]>(p) y = Conv(t, W(4,3,3,2)) }",
    "requantise": "(int8[2,5] x) { a = DQ(x) b = Q(a) r = DQ(b) c = Relu(r) y = Q(c) }",
    "integer": "(int8[2,5] x, int8[2,5] z) { a = DQ(x) b = DQ(z) c = Add(a, b) y = Q(c) }",
    "dequantise-late": "(int8[2,3,4] x) { a = DQ(x) t = Transpose<perm=[1,2,0]>(a) y = Tanh(t) }",
    "quantise-early": "(float[2,3,4] x) { t = Transpose<perm=[1,2,0]>(x) y = Q(t) }",
    "table": "(int8[2,3,4] x) { a = DQ(x) s = Sigmoid(a) t = Q(s) u = DQ(t) m = Mul(u, a) y = Q(m) }",
    "constant": "(float[2,5] x) { a = Exp(W(2,5)) y = Div(x, a) }",
    "scale": "(float[2,6] x) { m = MatMul(x, W(6,5)) y = Mul(m, W(5)) }",
    "pad": "(float[1,3,6,5] x) { p = Pad(x, I(0,0,1,2,0,0,0,1)) y = Conv(p, W(4,3,3,2)) }",
    "scale-before": "(float[1,4,6,5] x) { m = Mul(x, W(4,1,1)) y = Conv<group=2,pads=[1,0,0,1]>(m, W(6,2,3,2)) }",
    "shift-before": "(float[1,4,6,5] x) { a = Add(x, W(4,1,1)) y = Conv<group=2>(a, W(6,2,3,2)) }",
    "pad-later": "(float[1,3,6,5] x) { p = Pad(x, I(0,0,1,2,0,0,0,1)) r = Relu(p) y = Conv(r, W(4,3,3,2)) }",
    "flatten": "(float[1,3,6,5] x) { c = Conv(x, W(4,3,3,2)) f = Flatten(c) y = MatMul(f, W(64,5)) }",
    "identity": "(float[2,3,4] x) { a = Reshape(x, I(2,3,4)) y = Tanh(a) }",
    "move-later": "(float[2,3,4] x) { a = Transpose<perm=[1,2,0]>(x) b = Mul(a, W(4,1)) y = Transpose<perm=[2,0,1]>(b) }",
    "turned-operand": "(float[2,6] x, float[5,6] w) { t = Transpose<perm=[1,0]>(w) y = MatMul(x, t) }",
    "pixel": "(float[1,6,1,1] x) { y = Conv(x, W(4,6,1,1)) }",
    "common": "(float[2,6] x) { a = Exp(x) b = Exp(x) c = Neg(b) y = MatMul(a, W(6,3)) z = MatMul(c, W(6,3)) }",
    "index-map": "(float[1,6,4,5] x) { a = Reshape(x, I(1,2,3,4,5)) b = Transpose<perm=[0,2,1,3,4]>(a) "
                 "c = Reshape(b, I(1,6,4,5)) y = Tanh(c) }",
    "merge-maps": "(float[2,3,4] x) { a = Gather<axis=1>(x, I(2,0,1)) b = Gather<axis=2>(a, I(3,0,2)) y = Tanh(b) }",
    "shuffled-anchor": "(float[1,3,4,5] x) { v = Conv(x, W(6,3,1,1)) r = Relu(v) a = Reshape(r, I(1,2,3,4,5)) "
                       "b = Transpose<perm=[0,2,1,3,4]>(a) y = Reshape(b, I(1,6,4,5)) }",
    "sliced-product": "(float[2,6] x) { m = MatMul(x, W(6,8)) a, b = Split<axis=1>(m) c = Sigmoid(b) y = Mul(a, c) }",
    "sum-of-convolutions": "(float[1,3,6,5] x) "
                           "{ a = Conv<pads=[1,1,1,1]>(x, W(4,3,3,3)) b = Conv(x, W(4,3,1,1)) y = Add(a, b) }",
    "side-by-side": "(float[1,3,6,5] x) { a = Conv(x, W(4,3,3,2)) b = Conv(x, W(2,3,3,2)) y = Concat<axis=1>(a, b) }",
    "empty-channels": "(float[1,3,6,5] x) { c = Conv(x, Z(4,3,3,2)) r = Sigmoid(c) y = Conv(r, W(2,4,1,1)) }",
    "empty-taps": "(float[1,3,6,5] x) { w = Pad(W(4,3,1,2), I(0,0,1,1,0,0,1,0)) y = Conv<pads=[1,1,1,0]>(x, w) }",
    "blend": "(int8[1,4,3,5] x) { a = DQ(x) r = Resize<mode=\"linear\">(a, , , I(1,4,6,10)) y = Q(r) }",
    "upsample-stored": "(int8[1,2,3,4] x) { v = Constant<value = int8[2,1,3,2] {7,-1,11,-5,15,-9,19,23,-13,-1,-5,11}>() "
                       "w = DQ(v) a = DQ(x) c = ConvTranspose<strides=[2,2]>(a, w) r = Relu(c) y = Q(r) }",
    "upsample": "(float[1,2,3,4] x) { c = ConvTranspose<strides=[2,2]>(x, W(2,3,3,2)) y = Relu(c) }",
    "column-pairs": "(int8[1,2,5,7] x) { v = Constant<value = int8[1,2,2,2] {7,-1,11,-5,15,-9,19,23}>() "
                    "w = DQ(v) a = DQ(x) c = Conv(a, w) y = Q(c) }",
    "unread-elements": "(float[1,3,6,5] x) { w = Pad(W(40,1,3,2), I(0,1,0,0,0,1,0,0)) y = Conv(x, w) }",
}


def text(rule: str) -> str:
    """The example of a rule, with its abbreviations written out as nodes in front."""
    inputs, nodes = re.fullmatch(r"(\(.*?\)) \{ (.*) \}", GRAPHS[rule]).groups()           # type: ignore[union-attr]
    front: dict[str, str] = {}

    def constant(m: re.Match[str]) -> str:
        kind, value, shape = m[1], m[2] or "", m[3]
        name = f"{kind.lower()}{value}_{shape.replace(',', '_')}"
        if kind == "I":
            front[name] = f"{name} = Constant<value_ints=[{shape}]>()"
        elif not shape:
            front[name] = f"{name} = Constant<value_float={value}.0>()"
        else:
            front[name] = (f"{name}s = Constant<value_ints=[{shape}]>() "
                           f"{name} = ConstantOfShape<value=float[1] {{{'0.0' if kind == 'Z' else '0.3'}}}>({name}s)")
        return name
    nodes = re.sub(r"\b([WIZ])(\d?)\(([\d,]*)\)", constant, nodes)
    if re.search(r"\bD?Q\(", nodes):
        front["q"] = "scale = Constant<value_float=0.05>() zero = Constant<value=int8 {3}>()"
        nodes = re.sub(r"\b(D?Q)\((\w+)\)", lambda m: f"{_DQ if m[1] == 'DQ' else _Q}({m[2]}, scale, zero)", nodes)
    ends = [n for n in ("y", "z") if re.search(rf"\b{n} = ", nodes)]
    stored = [n for n in ends if re.search(rf"\b{n} = {_Q}", nodes)]
    outputs = ", ".join(f"{'int8' if n in stored else 'float'} {n}" for n in ends)
    body = " ".join([*front.values(), nodes])
    return f'<ir_version: 8, opset_import: ["": 17]>\nexample {inputs} => ({outputs}) {{ {body} }}'
