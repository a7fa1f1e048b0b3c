"""Pruned weights: channels without weights vanish from both layers, and the model means the same."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile, outputs, samples
from onnx import numpy_helper

from fuse2c.errors import Overflow

I8 = np.int8
GONE, DEAD, CHANNELS = (1, 4), (2, 6), 7      # channels that nobody reads, and channels that are constant


def layer(b: Builder, x: str, shape: tuple[int, ...], empty: tuple[int, tuple[int, ...]], x_scale: float | None,
          **attrs: Any) -> str:
    """A layer with a bias, of whose weights some slices along an axis are zero; integers if there is a scale of x."""
    value = b.rng.integers(-90, 90, shape).astype(I8)
    value[(slice(None),) * empty[0] + (list(empty[1]),)] = 0
    kind = "Gemm" if len(shape) == 2 else "Conv"
    attrs |= {"transB": 1} if kind == "Gemm" else {}
    if x_scale is None:
        return str(b.op(kind, x, b.const(value.astype(np.float32) * 0.01), b.floats(shape[0]), **attrs))
    scale = b.rng.uniform(0.005, 0.02, shape[0]).astype(np.float32)
    w = b.dequantise(b.const(value), scale, np.zeros(shape[0], I8), axis=0)
    shift = b.dequantise(b.const(b.rng.integers(-3000, 3000, shape[0]).astype(np.int32)), np.float32(x_scale) * scale,
                         np.zeros(shape[0], np.int32), axis=0)
    return str(b.op(kind, x, w, shift, **attrs))


def again(b: Builder, t: str, quantised: bool, zero: int) -> str:
    """Quantised in between."""
    return b.requantise(t, 0.05, I8(zero)) if quantised else t


def network(quantised: bool, between: str, kernel: int, pad: int, zero: int) -> Builder:
    """Two layers, of which the first has DEAD outputs and the second does not read those of GONE."""
    b = Builder()
    dense = between == "dense"
    shape = (2, 5) if dense else (1, 5, 8, 7)
    x = b.dequantise(b.input(shape, I8), 0.04, I8(3)) if quantised else b.input(shape)
    window: dict[str, Any] = {} if dense else {"kernel_shape": [kernel, kernel], "pads": [pad] * 4}
    of_x, of_t = (0.04, 0.05) if quantised else (None, None)
    t = layer(b, x, (CHANNELS, 5) if dense else (CHANNELS, 5, 1, 1), (0, DEAD), of_x)
    t = again(b, b.op("Relu", t), quantised, zero)
    if between == "depthwise":
        t = again(b, layer(b, t, (CHANNELS, 1, 3, 3), (1, ()), of_t, group=CHANNELS), quantised, zero)
    if between == "pool":
        t = b.op("MaxPool", t, kernel_shape=[2, 2])
    t = layer(b, t, (4, CHANNELS) if dense else (4, CHANNELS, kernel, kernel), (1, GONE), of_t, **window)
    b.output(b.quantise(t, 0.3, I8(-2)) if quantised else t)
    return b


def _kept(b: Builder) -> int:
    """Channels that are read, and not zeros."""
    own = next(numpy_helper.to_array(t) for t in b.constants if t.dims == [CHANNELS] and t.data_type in (1, 6)
               and numpy_helper.to_array(t).min() < 0)
    return CHANNELS - len(GONE) - sum(own[i] <= 0 for i in DEAD)


@pytest.mark.parametrize("quantised", [True, False], ids=["int8", "float32"])
@pytest.mark.parametrize(("between", "kernel", "pad", "zero", "left"), [
    ("relu", 1, 0, -128, 3), ("relu", 3, 0, 5, 3), ("relu", 3, 1, -128, None), ("depthwise", 1, 0, -128, 5),
    ("pool", 3, 1, -128, 5), ("dense", 1, 0, 7, 3)])
def test_channels_without_weights_vanish(between: str, kernel: int, pad: int, zero: int, left: int | None, quantised: bool,
                                         tmp_path: Path) -> None:
    b = network(quantised, between, kernel, pad, zero)
    compiled, plain = compile(b, tmp_path), compile(b, tmp_path, no_fuse_rules=("empty-channels",))
    if left is None:        # where there is padding, only channels of zeros vanish; with a bias that is what Relu makes of it
        left = _kept(b)
    layers = [p for n in compiled.plan.graph.nodes for p in n.parts if p.op in ("Conv", "MatMul")]
    assert compiled.plan.graph.type(layers[0].inputs[1]).shape[0 if between != "dense" else -1] == left or between == "dense"
    assert left in compiled.plan.graph.type(layers[-1].inputs[1]).shape
    assert compiled.plan.weight_bytes < plain.plan.weight_bytes and compiled.plan.macs < plain.plan.macs
    rows = samples(compiled.plan)
    assert_c_is_reference(compiled, rows)
    for got, want in zip(outputs(compiled.plan.graph, rows), outputs(plain.plan.graph, rows), strict=True):
        for x, y in zip(got.values(), want.values(), strict=True):
            if quantised:       # a layer's shift may be another one for fewer channels
                assert np.abs(x.astype(int) - y.astype(int)).max() <= 1 and (x != y).mean() < 0.01
            else:
                assert np.allclose(x, y, rtol=1e-5, atol=1e-5)


def test_a_layer_of_which_nothing_is_read(tmp_path: Path) -> None:
    """One channel stays: a tensor has some."""
    b = Builder()
    x = b.input((1, 3, 4, 5))
    t = b.op("Relu", b.op("Conv", x, b.floats(6, 3, 3, 3), pads=[1] * 4))
    b.output(b.op("Conv", t, b.const(np.zeros((2, 6, 1, 1), np.float32)), b.floats(2)))
    compiled = compile(b, tmp_path)
    assert compiled.plan.macs < 4 * 5 * (27 + 2) + 1
    assert_c_is_reference(compiled)


def test_what_else_is_read_stays(tmp_path: Path) -> None:
    b = network(False, "relu", 1, 0, 0)
    t = next(n.output[0] for n in b.nodes if n.op_type == "Relu")
    b.output(b.op("Neg", t))
    compiled = compile(b, tmp_path)
    assert not any(d.taken and d.subject.startswith("empty-channels") for d in compiled.plan.decisions)
    assert_c_is_reference(compiled)


def test_only_what_is_still_the_models_is_compared_with_others(tmp_path: Path) -> None:
    """A tensor with fewer channels has a name of its own: nobody takes it for the model's."""
    compiled = compile(network(True, "relu", 1, 0, -128), tmp_path)
    names = {t for n in compiled.plan.graph.nodes for t in n.outputs}
    assert compiled.plan.source is not None
    for t in names & set(compiled.plan.source.tensors):
        assert compiled.plan.graph.type(t).shape == compiled.plan.source.type(t).shape
    result = compiled.check(samples(compiled.plan))
    assert not result.reference.differing and not result.outputs.differing


def test_a_bias_that_would_not_fit(tmp_path: Path) -> None:
    """Constant channels are added to a bias of 32 bits where it has room only."""
    b = Builder()
    x = b.stored((2, 5), 0.04, I8(3))
    weights = b.rng.integers(-90, 90, (7, 5)).astype(I8)
    weights[list(DEAD)] = 0
    shift = np.full(7, 2 ** 20, np.int32)
    t = b.op("Gemm", x, b.dequantise(b.const(weights), 0.01, I8(0)), b.dequantise(b.const(shift), 0.0004, np.int32(0)),
             transB=1)
    w = b.dequantise(b.const(np.full((4, 7), 127, I8)), 0.01, I8(0))
    near = b.dequantise(b.const(np.full(4, 2 ** 31 - 20000, np.int32)), 0.0005, np.int32(0))
    b.output(b.quantise(b.op("Gemm", b.requantise(t, 0.05, I8(0)), w, near, transB=1), 20000.0, I8(-2)))
    with pytest.raises(Overflow, match=r"can reach 2147\d*, an int32 accumulator"):      # of the layer as it was
        compile(b, tmp_path)
