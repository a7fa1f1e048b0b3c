"""The digits example: both models are valid, small, accurate, quantised as promised, and can be trained again."""

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits"
NAMES = ["digits_fp32.onnx", "digits_int8.onnx"]
MAX_BYTES = 100_000
MIN_ACCURACY = 0.97
MIN_AGREEMENT = 0.98


def example_module(name: str) -> ModuleType:
    """Load examples/digits/<name>.py under a name of its own: "data" alone could clash with another example."""
    spec = importlib.util.spec_from_file_location(f"digits_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def digits() -> Any:
    """The split of data.py: x_train, y_train, x_test, y_test."""
    pytest.importorskip("sklearn", reason="scikit-learn, which holds the images, is not installed")
    return example_module("data").load()


@cache
def model(name: str) -> ModelProto:
    return onnx.load(EXAMPLE / name)


def classify(name: str, images: np.ndarray) -> np.ndarray:
    """Images [N,1,8,8] -> class of each image [N]."""
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the models, is not installed")
    session = ort.InferenceSession(EXAMPLE / name, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"image": images})[0]).argmax(axis=1)


def complaints(proto: ModelProto) -> list[str]:
    """What keeps a model from being int8 throughout; empty for a proper Q/DQ model."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    maker = {output: node for node in proto.graph.node for output in node.output}
    found = []
    for node in proto.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        sources = [maker.get(name) for name in node.input]
        if node.op_type == "Relu" and sources[0] is not None and sources[0].op_type in ("Conv", "Add"):
            continue  # part of the operation before it, nothing is stored in between
        if any(source is None or source.op_type != "DequantizeLinear" for source in sources):
            found.append(f"{node.name}: an input is not behind a DequantizeLinear")
        elif node.op_type in ("Conv", "Gemm"):
            found += weight_complaints(node.name, [source for source in sources if source is not None], stored)
    scales = {node.input[1] for node in proto.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")}
    found += [
        f"{key}: stored as float" for key, value in stored.items() if value.dtype.kind == "f" and key not in scales
    ]
    return found


def weight_complaints(name: str, sources: list[onnx.NodeProto], stored: dict[str, np.ndarray]) -> list[str]:
    """Check the three DequantizeLinear nodes before a Conv or Gemm: activation, weight, bias."""
    data, weight, bias = sources
    values, scale, zero = (stored[key] for key in weight.input)
    steps, bias_scale = (stored[key] for key in bias.input[:2])
    axes = [attribute.i for node in (weight, bias) for attribute in node.attribute if attribute.name == "axis"]
    rules = {
        "weight is int8": values.dtype == np.int8,
        "weight has one scale per output channel": axes == [0, 0] and scale.shape == values.shape[:1],
        "weight is symmetric": zero.dtype == np.int8 and not zero.any() and int(values.min()) >= -127,
        "every channel uses the whole int8 range": (
            abs(values.astype(int)).reshape(len(values), -1).max(1) == 127
        ).all(),
        "bias is int32": steps.dtype == np.int32 and steps.shape == scale.shape,
        "bias scale is the product of the two": np.array_equal(bias_scale, stored[data.input[1]] * scale),
    }
    return [f"{name}: not true that {rule}" for rule, holds in rules.items() if not holds]


def test_split_is_fixed_and_scaled(digits: Any) -> None:
    assert digits.x_train.shape == (1257, 1, 8, 8) and digits.x_test.shape == (540, 1, 8, 8)
    assert digits.x_train.dtype == np.float32 and digits.y_test.dtype == np.int64
    assert digits.x_train.min() == 0.0 and digits.x_train.max() == 1.0
    assert set(digits.y_test) == set(range(10))
    seen = {image.tobytes() for image in digits.x_train}
    assert not any(image.tobytes() in seen for image in digits.x_test)


@pytest.mark.parametrize("name", NAMES)
def test_model_is_valid_and_small(name: str) -> None:
    proto = model(name)
    onnx.checker.check_model(proto, full_check=True)
    assert (EXAMPLE / name).stat().st_size < MAX_BYTES
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 17)] and proto.ir_version == 8
    for value, name_and_shape in [
        (proto.graph.input[0], ("image", ["N", 1, 8, 8])),
        (proto.graph.output[0], ("probabilities", ["N", 10])),
    ]:
        tensor = value.type.tensor_type
        shape = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
        assert (value.name, shape) == name_and_shape and tensor.elem_type == onnx.TensorProto.FLOAT


def test_float_model_leaves_a_batch_norm_to_fold() -> None:
    proto = model("digits_fp32.onnx")
    (norm,) = [node for node in proto.graph.node if node.op_type == "BatchNormalization"]
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    for key, trivial in zip(norm.input[1:], (1.0, 0.0, 0.0, 1.0), strict=True):
        assert abs(stored[key] - trivial).max() > 0.1 and np.ptp(stored[key]) > 0.1, key


@pytest.mark.parametrize("name", NAMES)
def test_accuracy(name: str, digits: Any) -> None:
    assert (classify(name, digits.x_test) == digits.y_test).mean() >= MIN_ACCURACY


def test_float_and_int8_agree(digits: Any) -> None:
    float_classes, int8_classes = (classify(name, digits.x_test) for name in NAMES)
    assert (float_classes == int8_classes).mean() >= MIN_AGREEMENT


def test_int8_model_is_int8_throughout() -> None:
    assert complaints(model("digits_int8.onnx")) == []


def test_float_weights_are_noticed() -> None:
    """The check above can fail: it objects to the float model, and to one float tensor smuggled in."""
    assert complaints(model("digits_fp32.onnx"))
    proto = ModelProto()
    proto.CopyFrom(model("digits_int8.onnx"))
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "extra"))
    assert complaints(proto) == ["extra: stored as float"]


def test_softmax_scale_is_fixed() -> None:
    proto = model("digits_int8.onnx")
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    last = proto.graph.node[-1]
    assert last.op_type == "DequantizeLinear"
    assert [stored[key].item() for key in last.input[1:]] == [1 / 256, -128]


def test_sums_do_not_depend_on_their_order() -> None:
    """Renumbering the hidden channels reorders every sum over them; the logits stay the same to the bit."""
    network = example_module("network")
    rng = np.random.RandomState(1)
    net, images = network.DigitsNet(rng), rng.uniform(0.0, 1.0, (20, 1, 8, 8))
    before = net.forward(images)["logits"]
    order = rng.permutation(32)
    for param in (net.pointwise.weight, net.pointwise.bias, net.residual.weight, net.residual.bias):
        param.master = param.master[order]
    net.residual.weight.master = net.residual.weight.master[:, order]
    net.head.weight.master = net.head.weight.master[:, order]
    assert np.array_equal(before, net.forward(images)["logits"])


def test_training_again_writes_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn, which holds the images, is not installed")
    subprocess.run([sys.executable, EXAMPLE / "train.py", "--out", tmp_path], check=True, capture_output=True)
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes(), f"{name} is not what train.py writes"
