"""RNN, GRU, LSTM: C against the numpy reference, and the reference against onnxruntime (which has no layout 1)."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile, outputs, run_c, run_ort, samples

from fuse2c.check.reference import float_tolerance, run_graph
from fuse2c.errors import UnsupportedOp

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True)
class Layer:
    """One recurrent node: sizes are steps, images, inputs, hidden units; `keep` lists the outputs that are used."""

    op: str
    direction: str = "forward"
    sizes: tuple[int, int, int, int] = (4, 2, 3, 5)
    layout: int = 0
    bias: bool = True
    lens: tuple[int, ...] | None = None
    start: bool = True
    constant: bool = True
    peepholes: bool = False
    keep: tuple[int, ...] = (0, 1)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtype: Any = np.float32

    def build(self) -> tuple[Builder, dict[str, np.ndarray]]:
        """The graph and one sample."""
        steps, batch, inputs, hidden = self.sizes
        count, gates = 2 if self.direction == "bidirectional" else 1, GATES[self.op]
        b, row = Builder(14), {}

        def tensor(*shape: int, constant: bool = True) -> str:
            value = (0.5 * b.rng.standard_normal(shape)).astype(self.dtype)
            if constant and self.constant:
                return b.const(value)
            name = b.input(shape, self.dtype)
            row[name] = value
            return name
        names = [tensor(*((batch, steps) if self.layout else (steps, batch)), inputs, constant=False),
                 tensor(count, gates * hidden, inputs), tensor(count, gates * hidden, hidden),
                 tensor(count, 2 * gates * hidden) if self.bias else "", ""]
        if self.lens is not None:
            names[4] = b.input((batch,), np.int32)
            row[names[4]] = np.array(self.lens, np.int32)
        state = (batch, count, hidden) if self.layout else (count, batch, hidden)
        names += [tensor(*state, constant=False) if self.start else "" for _ in range(2 if self.op == "LSTM" else 1)]
        names += [tensor(count, 3 * hidden)] * self.peepholes
        results = b.op(self.op, *names, outputs=3 if self.op == "LSTM" else 2, hidden_size=hidden,
                       direction=self.direction, layout=self.layout, **self.attrs)
        b.output(*(results[i] for i in self.keep))
        last = b.nodes[-1].output
        for i in range(len(last)):
            last[i] = last[i] if i in self.keep else ""
        while not last[-1]:
            last.pop()
        return b, row


MIXED = {"activations": ["HardSigmoid", "Softsign", "ScaledTanh", "Elu", "LeakyRelu", "Affine"],
         "activation_alpha": [0.3, 1.1, 0.9, 0.2, 0.7], "activation_beta": [0.4, 0.8, 0.1]}
LAYERS = {
    **{f"{op}-ragged": Layer(op, lens=(3, 1)) for op in GATES},
    **{f"{op}-both-ways": Layer(op, "bidirectional", (4, 3, 2, 5), lens=(4, 2, 3), constant=False) for op in GATES},
    **{f"{op}-backwards": Layer(op, "reverse", bias=False, start=False, keep=(1,)) for op in GATES},
    **{f"{op}-batch-first": Layer(op, "bidirectional", (4, 3, 2, 5), 1, lens=(2, 4, 0)) for op in GATES},
    **{f"{op}-clip": Layer(op, "bidirectional", (3, 1, 2, 4), attrs={"clip": 0.3}) for op in GATES},
    "GRU-late-reset": Layer("GRU", "bidirectional", attrs={"linear_before_reset": 1}, lens=(2, 4)),
    "GRU-late-reset-no-bias": Layer("GRU", bias=False, attrs={"linear_before_reset": 1}),
    "GRU-activations": Layer("GRU", attrs={"activations": ["HardSigmoid", "Relu"]}),
    "RNN-activations": Layer("RNN", "bidirectional", attrs={"activations": ["Softplus", "ThresholdedRelu"],
                                                             "activation_alpha": [0.3]}),
    "LSTM-peepholes": Layer("LSTM", "bidirectional", peepholes=True, keep=(0, 1, 2), attrs={"clip": 0.5}, lens=(2, 4)),
    "LSTM-coupled": Layer("LSTM", peepholes=True, keep=(2,), attrs={"input_forget": 1}),
    "LSTM-activations": Layer("LSTM", "bidirectional", attrs=MIXED, start=False),
    "LSTM-double": Layer("LSTM", "bidirectional", layout=1, peepholes=True, keep=(0, 1, 2), dtype=np.float64),
    "GRU-half": Layer("GRU", "reverse", dtype=np.float16),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str, tmp_path: Path) -> None:
    layer = LAYERS[name]
    b, row = layer.build()
    model = b.model(check_model=False)
    compiled = compile(model, tmp_path)
    bound = {np.float16: 2e-3, np.float32: 2e-6, np.float64: 2e-14}[layer.dtype]
    want = outputs(compiled.plan.source, [row])[0]
    for t, value in run_c(compiled, [row])[0].items():
        np.testing.assert_allclose(value, want[t], rtol=bound, atol=bound)
    if layer.layout == 0 and layer.dtype == np.float32:
        for t, value in run_ort(model, [row])[0].items():
            np.testing.assert_allclose(want[t], value, rtol=bound, atol=bound)


def test_the_sequence_is_left_out_when_nothing_reads_it(tmp_path: Path) -> None:
    whole, last = (compile(Layer("LSTM", keep=keep).build()[0].model(check_model=False), tmp_path)
                   for keep in ((0, 1), (1,)))
    assert len(whole.plan.steps[0].node.outputs) == 3 and len(last.plan.steps[0].node.outputs) == 2


def test_lengths_beyond_the_sequence_are_limited(tmp_path: Path) -> None:
    b, row = Layer("RNN", lens=(3, 1)).build()
    lens = next(t for t, value in row.items() if value.dtype == np.int32)
    compiled = compile(b.model(check_model=False), tmp_path)
    wild, tame = ({**row, lens: np.array(value, np.int32)} for value in ((99, -5), (4, 0)))
    for t, value in run_c(compiled, [wild])[0].items():
        np.testing.assert_array_equal(value, run_c(compiled, [tame])[0][t])


@pytest.mark.parametrize("op", GATES)
def test_checks_allow_rounding_and_no_more(op: str, tmp_path: Path) -> None:
    compiled = compile(Layer(op, start=False).build()[0].model(check_model=False), tmp_path)
    row = samples(compiled.plan)[0]
    assert_c_is_reference(compiled, [row])
    step = compiled.plan.steps[0]
    values = run_graph(compiled.plan.graph, row)
    want = values[step.node.outputs[0]]
    assert float(float_tolerance(compiled.plan, step, values, want).max()) < 2e-3 * float(np.abs(want).max())


@pytest.mark.parametrize(("attrs", "reason"), [
    ({"direction": "sideways"}, "direction 'sideways'"),
    ({"activations": ["Sine"]}, "activation 'Sine'"),
    ({"activations": ["Relu", "Tanh"]}, "2 activations for 1 directions"),
])
def test_refusals(attrs: dict[str, Any], reason: str, tmp_path: Path) -> None:
    b = Builder(14)
    x = b.input((3, 2, 4))
    b.output(b.op("RNN", x, b.floats(1, 5, 4), b.floats(1, 5, 5), hidden_size=5, **attrs))
    with pytest.raises(UnsupportedOp) as e:
        compile(b.model(check_model=False), tmp_path)
    assert reason in str(e.value)
