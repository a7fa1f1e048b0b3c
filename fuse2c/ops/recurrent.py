"""RNN, GRU and LSTM: one node for a whole sequence, both directions, weights constant or variable.

The state is kept in the outputs Y_h and Y_c; Y, all states of the sequence, is written only if something reads it.
Sequences that are shorter than the longest end in zeros. `clip` limits what goes into the gates' activations.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import CTYPE, DType, TensorType
from fuse2c.kernels import functions, scalars
from fuse2c.kernels.scalars import UNARY, Row, literal
from fuse2c.op import EFFORT, FUNCTION, Call, Kernel, Op, Source, Spec, Work

GATES = {"RNN": "h", "GRU": "zrh", "LSTM": "iofc"}      # in the order of the weights
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
PORTS = ("x", "w", "r", "b", "lens", "h0", "c0", "p")
PEEPHOLES = "iof"                                       # in the order of input P
ACTIVATIONS: dict[str, Row] = {name.lower(): UNARY[name] for name in (
    "Relu", "Tanh", "Sigmoid", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign", "Softplus")} | {
    "affine": Row(lambda p, x: p[0] * x + p[1], "(({p0} * {a}) + {p1})", attrs=(("alpha", 1.0), ("beta", 0.0))),
    "scaledtanh": Row(lambda p, x: p[0] * np.tanh(p[1] * x), "({p0} * f2c_tanh{s}({p1} * {a}))",
                      attrs=(("alpha", 1.0), ("beta", 1.0)))}

Activation = tuple[str, tuple[float, ...]]              # key of ACTIVATIONS, its numbers


@dataclass(frozen=True, slots=True)
class Attrs:
    """A recurrent layer; `activations` holds those of one direction after those of the other."""

    hidden: int
    reverse: tuple[bool, ...]           # one entry a direction
    activations: tuple[Activation, ...]
    batch_first: bool = False           # ONNX's layout 1
    clip: float | None = None
    reset_late: bool = False            # GRU's linear_before_reset
    coupled: bool = False               # LSTM's input_forget: f = 1 - i
    sequence: bool = True               # the first output is Y


def from_onnx(src: Source) -> None:
    """Any of the three; absent outputs get a name, the sequence is left out if nobody wants it."""
    direction = src.attrs.get("direction", "forward")
    reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if reverse is None:
        raise src.refuse(f"direction {direction!r}", attr="direction")
    hidden = src.attrs.get("hidden_size", src.graph.type(src.inputs[2]).shape[-1])
    clip = src.attrs.get("clip")
    outputs = [*src.outputs, *[""] * (3 - len(src.outputs))]
    names = outputs[:1] * bool(outputs[0])
    names += [t or src.graph.temporary(f"{src.name}.{state}") for t, state in zip(
        outputs[1:3 if src.op == "LSTM" else 2], ("h", "c"), strict=False)]
    src.node(src.op, Attrs(hidden, reverse, _activations(src, len(reverse)), bool(src.attrs.get("layout", 0)),
                           None if not clip else float(clip), bool(src.attrs.get("linear_before_reset", 0)),
                           bool(src.attrs.get("input_forget", 0)), bool(outputs[0])), outputs=tuple(names))


def _activations(src: Source, directions: int) -> tuple[Activation, ...]:
    """Names and numbers; alpha and beta are consumed in order by the functions that have such a number."""
    names = src.attrs.get("activations") or list(DEFAULTS[src.op]) * directions
    names = [n.decode() if isinstance(n, bytes) else n for n in names]
    given = {key: list(src.attrs.get(f"activation_{key}", ())) for key in ("alpha", "beta")}
    found = []
    for name in names:
        row = ACTIVATIONS.get(name.lower())
        if row is None:
            raise src.refuse(f"activation {name!r}", attr="activations",
                             hint=f"one of {', '.join(sorted(ACTIVATIONS))}")
        found.append((name.lower(), tuple(float(given[key].pop(0)) if given[key] else default
                                          for key, default in row.attrs)))
    if len(found) != directions * len(DEFAULTS[src.op]):
        raise src.refuse(f"{len(found)} activations for {directions} directions", attr="activations")
    return tuple(found)


def sizes(c: Call) -> tuple[int, int]:
    """(steps, images) of x."""
    steps, batch = c.type(0).shape[:2]
    return (batch, steps) if c.attrs.batch_first else (steps, batch)


def infer(c: Call) -> list[TensorType]:
    """Y if wanted, the last state, and an LSTM's last cell."""
    a, dtype, (steps, batch) = c.attrs, c.type(0).dtype, sizes(c)
    count = len(a.reverse)
    y = (batch, steps, count, a.hidden) if a.batch_first else (steps, count, batch, a.hidden)
    state = (batch, count, a.hidden) if a.batch_first else (count, batch, a.hidden)
    return [TensorType(dtype, y)] * a.sequence + [TensorType(dtype, state)] * (2 if c.node.op == "LSTM" else 1)


def reference(c: Call, *given: np.ndarray | None) -> list[np.ndarray]:
    """ONNX's equations, one image and one step at a time, in the compute type."""
    a, dtype = c.attrs, scalars.compute(c.type(0).dtype)
    inputs = {port: None if v is None else v if port == "lens" else v.astype(dtype)
              for port, v in zip(PORTS, given, strict=False)}
    x, (steps, batch) = inputs["x"], sizes(c)
    assert x is not None
    x = x.swapaxes(0, 1) if a.batch_first else x
    y = np.zeros((steps, len(a.reverse), batch, a.hidden), dtype)
    states = np.zeros((2, len(a.reverse), batch, a.hidden), dtype)
    for key, at in (("h0", 0), ("c0", 1)):
        start = inputs.get(key)
        if start is not None:
            states[at] = start.swapaxes(0, 1) if a.batch_first else start
    lens = inputs.get("lens")
    for d, reverse in enumerate(a.reverse):
        for n in range(batch):
            length = steps if lens is None else min(max(int(lens[n]), 0), steps)
            for step in range(length):
                t = length - 1 - step if reverse else step
                states[:, d, n] = _step(c, inputs, d, x[t, n], states[0, d, n], states[1, d, n])
                y[t, d, n] = states[0, d, n]
    if a.batch_first:
        y, states = y.transpose(2, 0, 1, 3), states.swapaxes(1, 2)
    found = [y] * a.sequence + list(states[:2 if c.node.op == "LSTM" else 1])
    return [v.astype(c.type(0).dtype.numpy) for v in found]


def _step(c: Call, inputs: Mapping[str, Any], d: int, x: np.ndarray, h: np.ndarray, cell: np.ndarray
          ) -> tuple[np.ndarray, np.ndarray]:
    """(state, cell) after one step of direction d."""
    a, gates = c.attrs, GATES[c.node.op]
    count = len(DEFAULTS[c.node.op])

    def act(i: int, v: np.ndarray, limit: bool = True) -> np.ndarray:
        key, p = a.activations[d * count + i]
        v = np.clip(v, -a.clip, a.clip) if limit and a.clip is not None else v
        with np.errstate(all="ignore"):
            return np.asarray(ACTIVATIONS[key].numpy(p, v)).astype(x.dtype)
    b = inputs.get("b")
    bias = np.zeros((2, len(gates), a.hidden), x.dtype) if b is None else b[d].reshape(2, len(gates), a.hidden)
    u = dict(zip(gates, (inputs["w"][d] @ x).reshape(len(gates), -1) + bias[0], strict=True))
    matrices = inputs["r"][d].reshape(len(gates), a.hidden, a.hidden)
    v = {g: m @ h + bias[1][i] for i, (g, m) in enumerate(zip(gates, matrices, strict=True))}
    if c.node.op == "RNN":
        return act(0, u["h"] + v["h"]), cell
    if c.node.op == "GRU":
        z, r = act(0, u["z"] + v["z"]), act(0, u["r"] + v["r"])
        inner = r * v["h"] if a.reset_late else matrices[2] @ (r * h) + bias[1][2]
        return (1 - z) * act(1, u["h"] + inner) + z * h, cell
    p = inputs.get("p")
    peep = dict(zip(PEEPHOLES, np.zeros((3, a.hidden), x.dtype) if p is None else p[d].reshape(3, -1), strict=True))
    i = act(0, u["i"] + v["i"] + peep["i"] * cell)
    f = 1 - i if a.coupled else act(0, u["f"] + v["f"] + peep["f"] * cell)
    cell = f * cell + i * act(1, u["c"] + v["c"])
    o = act(0, u["o"] + v["o"] + peep["o"] * cell)
    return o * act(2, cell, limit=False), cell


def sums(c: Call, x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray | None = None,
         lens: np.ndarray | None = None, h0: np.ndarray | None = None, *rest: np.ndarray | None) -> list[np.ndarray]:
    """The longest sum of any gate, with a state of at most 1 or its start; errors of all steps add up in the state."""
    state = 1.0 if h0 is None else max(1.0, float(h0.max(initial=0)))
    most = w.sum(axis=-1).max() * x.max(initial=0) + r.sum(axis=-1).max() * state + (0 if b is None else b.max())
    return [np.full(c.y[0].shape, (1.0 + most) * sizes(c)[0])]


def work(c: Call) -> Work:
    """Two matrix products a step, and the activations."""
    steps, batch = sizes(c)
    units = steps * batch * len(c.attrs.reverse) * len(GATES[c.node.op]) * c.attrs.hidden
    return Work(macs=units * (c.type(0).shape[-1] + c.attrs.hidden), alu=units * 12)


def spec(c: Call) -> Spec:
    """Sizes and strides, constant operands as tables, and the expressions of gates and activations."""
    a, gates, (steps, batch) = c.attrs, GATES[c.node.op], sizes(c)
    directions, inputs, hidden = len(a.reverse), c.type(0).shape[-1], a.hidden
    names = {"DIRECTIONS": directions, "BATCH": batch, "STEPS": steps, "INPUT": inputs, "HIDDEN": hidden,
             "GATES": len(gates)}
    if a.batch_first:
        names |= {"X_ST": inputs, "X_SB": steps * inputs, "Y_ST": directions * hidden, "Y_SD": hidden,
                  "Y_SB": steps * directions * hidden, "H_SD": hidden, "H_SB": directions * hidden}
    else:
        names |= {"X_ST": batch * inputs, "X_SB": inputs, "Y_ST": directions * batch * hidden, "Y_SD": batch * hidden,
                  "Y_SB": hidden, "H_SD": batch * hidden, "H_SB": hidden}
    tables = {port: value.reshape(-1) for i, port in enumerate(PORTS) if (value := c.constant(i)) is not None}
    outputs = ["y", "y2", "y3"] if a.sequence else ["", "y", "y2"]
    backwards = "length - 1 - step"
    flags: dict[str, Any] = {
        "sequence": outputs[0], "h": outputs[1], "c": outputs[2], "ctype": CTYPE[c.type(0).dtype],
        "length": "f2c_clamp_s32({lens}[n], 0, STEPS)" if c.has(4) else "STEPS",
        "t": f"(dir == 0) ? step : ({backwards})" if directions == 2 else backwards if a.reverse[0] else "step",
        "h_start": "{h0}[(dir * H_SD) + (n * H_SB) + u]" if c.has(5) else "0",
        "c_start": "{c0}[(dir * H_SD) + (n * H_SB) + u]" if c.has(6) else "0",
        "coupled": a.coupled, "reset_late": a.reset_late}
    texts = _gates(c)
    units = steps * batch * directions * hidden
    return Spec(names, tables, by_rows=False, flags=flags | _biases(c) | texts,
                effort=dict.fromkeys((*EFFORT, "alu", "output"), 0) | {
                    FUNCTION: units * sum(map(functions.instructions, texts.values())), "tile": units * len(gates),
                    "multiply": work(c).macs, "line": steps * batch * directions},
                scratch=(3 if c.node.op == "GRU" else 1) * hidden * c.type(0).dtype.bytes)


def _biases(c: Call) -> dict[str, str]:
    """The start of each gate's sum; `late_h` is what a GRU keeps apart for linear_before_reset."""
    gates = GATES[c.node.op]
    if not c.has(3):
        return {f"bias_{g}": "0" for g in gates} | {"late_h": "0"}
    own = {g: f"{{b}}[(((dir * 2 * GATES) + {i}) * HIDDEN) + u]" for i, g in enumerate(gates)}
    other = {g: f"{{b}}[(((dir * 2 * GATES) + {len(gates) + i}) * HIDDEN) + u]" for i, g in enumerate(gates)}
    return {f"bias_{g}": f"{own[g]} + {other[g]}" if g != "h" or c.node.op == "RNN" else own[g] for g in gates} | {
        "late_h": other.get("h", "0")}


def _gates(c: Call) -> dict[str, str]:
    """`gate_<g>`: what goes into the activation; `act_<g>`: the activation of gate_<g>; `act_cell`: of the new cell."""
    a, op, dtype = c.attrs, c.node.op, c.type(0).dtype
    suffix = "_f64" if dtype == DType.F64 else ""
    sums = {g: f"sum_{g}" for g in GATES[op]}
    if op == "GRU":
        sums["h"] = "sum_h + (reset[u] * late)" if a.reset_late else "sum_h + late"
    if op == "LSTM" and c.has(7):
        sums |= {g: f"sum_{g} + ({{p}}[(((dir * 3) + {i}) * HIDDEN) + u] * {'now' if g == 'o' else 'cell[u]'})"
                 for i, g in enumerate(PEEPHOLES)}
    which = {"RNN": {"h": 0}, "GRU": {"z": 0, "r": 0, "h": 1}, "LSTM": {"i": 0, "o": 0, "f": 0, "c": 1, "cell": 2}}[op]
    clip = "" if a.clip is None else literal(a.clip, dtype)
    return {f"gate_{g}": f"f2c_clamp{suffix}({text}, -{clip}, {clip})" if clip else text
            for g, text in sums.items()} | {
        f"act_{g}": _activation(a, len(DEFAULTS[op]), i, "now" if g == "cell" else f"gate_{g}", dtype)
        for g, i in which.items()}


def _activation(a: Attrs, count: int, i: int, value: str, dtype: DType) -> str:
    """The C text of an activation; where the directions differ in it, a choice."""
    texts = []
    for key, p in a.activations[i::count]:
        text = scalars.text(ACTIVATIONS[key], dtype).replace("{a}", value)
        for n, number in enumerate(p):
            text = text.replace(f"{{p{n}}}", literal(number, dtype))
        texts.append(text)
    return texts[0] if len(set(texts)) == 1 else f"((dir == 0) ? {texts[0]} : {texts[1]})"


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


OPS = tuple(Op(name=name, onnx={name: from_onnx}, ports=PORTS, infer=infer, reference=reference, work=work,
               sums=sums, kernels=(Kernel(name.lower(), spec, when=when),)) for name in GATES)
