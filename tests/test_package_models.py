"""Models that Python packages ship (the extra `models`): compiled for the host, equal to onnxruntime.

The packages are not imported, only their files are looked for; a package that is not installed is skipped.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import fuse2c
from fuse2c import check as checking

ort = pytest.importorskip("onnxruntime")
Rng = np.random.Generator
SAMPLES = 2
ERROR = 5e-4            # of the largest element of an output: some hundred layers of float32, sums in another order
VARIES = 1e-3           # what the output must differ by between elements or samples, or the comparison says nothing


def normal(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Noise."""
    return rng.standard_normal(shape).astype(dtype)


def tokens(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The bytes of a file, and 256 where it is shorter."""
    values = rng.integers(0, 257, shape)
    values[:, shape[1] * 3 // 4:] = 256
    return values.astype(dtype)


def strokes(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An image of dark strokes on paper: a text detector finds nothing at all in noise."""
    image = np.full(shape[2:], 1.0)
    for left in range(8, shape[3] - 12, 11):
        image[20:44, left:left + int(rng.integers(2, 4))] = -1.0
        top = int(rng.integers(20, 40))
        image[top:top + 3, left:left + 9] = -1.0
    return (image + 0.05 * rng.standard_normal(shape)).astype(dtype)


@dataclass(frozen=True)
class Case:
    """How to compile and feed a model."""

    dims: Mapping[str, int] = field(default_factory=dict)
    bind: Mapping[str, int] = field(default_factory=dict)
    feed: Callable[[Rng, tuple[int, ...], str], np.ndarray] = normal


RATE = {"sr": 16000}
CASES = {
    "magika/models/standard_v3_3/model.onnx": Case(feed=tokens),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": Case(
        {"p2o.DynamicDimension.1": 64, "p2o.DynamicDimension.2": 96}, feed=strokes),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": Case({"x.2": 48, "p2o.DynamicDimension.1": 80}),
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": Case({"x.2": 48, "x.3": 192}),
    "silero_vad/data/silero_vad.onnx": Case({"input.1": 576, "state.1": 1}, RATE),
    "silero_vad/data/silero_vad_16k_op15.onnx": Case({"sequence": 576, "batch": 1}, RATE),
    "silero_vad/data/silero_vad_16k_sequence.onnx": Case({"sequence_length": 3}),
    "silero_vad/data/silero_vad_half.onnx": Case({"sequence": 576, "batch": 1}),
    "silero_vad/data/silero_vad_op18_ifless.onnx": Case({"sequence": 576, "batch": 1}, RATE),
    "silero_vad/data/silero_vad_openvino_16k.onnx": Case(),
}
# It holds a second network, for frames of 8 kHz, which cannot read those of 16 kHz.
REFUSED = {"silero_vad/data/silero_vad.onnx": "First input tensor must have rank 3"}
PACKAGES = sorted({name.split("/")[0] for name in CASES})


def folder(package: str) -> Path:
    """Where a package lies; skips if it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed (extra `models`)")
    return Path(spec.submodule_search_locations[0])


def found(name: str) -> Path:
    """A model's file."""
    package, _, rest = name.partition("/")
    path = folder(package) / rest
    if not path.is_file():
        pytest.skip(f"this version of {package} has no {rest}")
    return path


@pytest.mark.parametrize("package", PACKAGES)
def test_every_model_of_a_package_is_listed(package: str) -> None:
    root = folder(package)
    names = {f"{package}/{path.relative_to(root).as_posix()}" for path in root.rglob("*.onnx")}
    assert names and names <= CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_model_equals_onnxruntime(name: str) -> None:
    path, case = found(name), CASES[name]
    model = fuse2c.plan(path, dims=case.dims, bind={t: np.asarray(v, np.int64) for t, v in case.bind.items()})
    g, rng = model.plan.graph, np.random.default_rng(7)
    samples = [{t: case.feed(rng, g.type(t).shape, g.type(t).dtype.value) for t in model.plan.inputs}
               for _ in range(SAMPLES)]
    session = ort.InferenceSession(path)
    known = {i.name for i in session.get_inputs()}
    wanted = []
    with checking.HostModel(model.plan) as host:
        for sample in samples:
            feed = {t: a for t, a in (sample | {t: np.asarray(v, np.int64) for t, v in case.bind.items()}).items()
                    if t in known}
            want = dict(zip((o.name for o in session.get_outputs()), session.run(None, feed), strict=True))
            for t, value in host.run(sample).items():
                np.testing.assert_allclose(value, want[t], rtol=0, atol=ERROR * np.abs(want[t]).max(), err_msg=t)
            wanted.append(np.concatenate([a.reshape(-1) for a in want.values()]))
    assert np.ptp(np.stack(wanted)) > VARIES, "the outputs hardly vary"


@pytest.mark.parametrize("name", REFUSED)
def test_without_bound_inputs_a_model_is_refused_for_its_reason(name: str) -> None:
    with pytest.raises(fuse2c.Fuse2cError, match=REFUSED[name]):
        fuse2c.plan(found(name), dims=CASES[name].dims)
