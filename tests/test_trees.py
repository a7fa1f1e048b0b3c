"""TreeEnsemble: random trees of every comparison, against onnx's own reference implementation."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graphs import compile, run_c, run_ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from fuse2c.errors import ModelError, ShapeError

FEATURES, TARGETS, ROWS = 5, 3, 40
MEMBER = 6


def grown(seed: int, modes: tuple[int, ...], trees: int = 4, depth: int = 4, missing: bool = False,
          dtype: Any = np.float32) -> dict[str, Any]:
    """Attributes of random trees; nodes are numbered as they are met on the way down, as ONNX's reference reads sets."""
    rng = np.random.default_rng(seed)
    a: dict[str, Any] = {f"nodes_{k}": [] for k in (
        "featureids", "splits", "modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")}
    a |= {"leaf_targetids": [], "leaf_weights": [], "tree_roots": []}
    members: list[float] = []

    def grow(left: int) -> tuple[int, int]:
        if left == 0 or (left < depth and rng.random() < 0.2):
            a["leaf_targetids"].append(int(rng.integers(TARGETS)))
            a["leaf_weights"].append(rng.standard_normal())
            return len(a["leaf_weights"]) - 1, 1
        me, mode = len(a["nodes_modes"]), int(rng.choice(modes))
        a["nodes_featureids"].append(int(rng.integers(FEATURES)))
        a["nodes_splits"].append(float(rng.integers(1, 5)))
        a["nodes_modes"].append(mode)
        members.extend([*rng.choice(np.arange(1.0, 6.0), 2, replace=False), np.nan] if mode == MEMBER else [])
        for side in ("true", "false"):
            a[f"nodes_{side}nodeids"].append(0)
            a[f"nodes_{side}leafs"].append(0)
        for side in ("true", "false"):
            a[f"nodes_{side}nodeids"][me], a[f"nodes_{side}leafs"][me] = grow(left - 1)
        return me, 0
    for _ in range(trees):
        a["tree_roots"].append(len(a["nodes_modes"]))
        grow(depth)
    a |= {"nodes_splits": tensor(a["nodes_splits"], dtype), "nodes_modes": tensor(a["nodes_modes"], np.uint8),
          "leaf_weights": tensor(a["leaf_weights"], dtype), "n_targets": TARGETS}
    a |= {"membership_values": tensor(members, dtype)} if members else {}
    if missing:
        a["nodes_missing_value_tracks_true"] = rng.integers(0, 2, len(a["nodes_featureids"])).tolist()
    return a


def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
    """A tensor as an attribute."""
    return numpy_helper.from_array(np.asarray(values, dtype), "t")


def model(attrs: dict[str, Any], dtype: Any = np.float32) -> onnx.ModelProto:
    """One TreeEnsemble."""
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph([helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attrs)], "g",
                              [helper.make_tensor_value_info("x", elem, [ROWS, FEATURES])],
                              [helper.make_tensor_value_info("y", elem, [ROWS, TARGETS])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)],
                             ir_version=10)


def inputs(dtype: Any, missing: bool = False) -> dict[str, np.ndarray]:
    """Small whole numbers, so that many are equal to a threshold; some are none."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 6, (ROWS, FEATURES)).astype(dtype)
    x[rng.random(x.shape) < (0.2 if missing else 0)] = np.nan
    return {"x": x}


@pytest.mark.parametrize("modes", [*((m,) for m in range(7)), (0, 3, 4), (0, 1, 2, 3, 4, 5, MEMBER)])
@pytest.mark.parametrize("missing", [False, True])
def test_every_comparison(modes: tuple[int, ...], missing: bool, tmp_path: Path) -> None:
    proto = model(grown(len(modes), modes, missing=missing))
    compiled, row = compile(proto, tmp_path), inputs(np.float32, missing)
    want = ReferenceEvaluator(proto).run(None, row)[0]
    assert compiled.check([row], opt="-O1").reference.differing == 0
    np.testing.assert_allclose(run_c(compiled, [row])[0]["y"], want, rtol=1e-5, atol=1e-6)
    assert len(np.unique(want[:, 0])) > 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("combine", range(4))
def test_every_combination(combine: int, dtype: Any, tmp_path: Path) -> None:
    """AVERAGE, SUM, MIN, MAX; what no leaf has is the least or greatest number."""
    proto = model(grown(7, (0,), dtype=dtype) | {"aggregate_function": combine}, dtype)
    row = inputs(dtype)
    want = ReferenceEvaluator(proto).run(None, row)[0]
    np.testing.assert_allclose(run_c(compile(proto, tmp_path), [row])[0]["y"], want, rtol=1e-5, atol=1e-6)


def test_onnxruntime_agrees(tmp_path: Path) -> None:
    proto, row = model(grown(5, (0, 1, 2, 3), depth=6)), inputs(np.float32)
    np.testing.assert_allclose(run_c(compile(proto, tmp_path), [row])[0]["y"], run_ort(proto, [row])[0]["y"], rtol=1e-5,
                               atol=1e-6)


def test_trees_of_one_leaf(tmp_path: Path) -> None:
    one = {"nodes_featureids": [0, 1], "nodes_splits": tensor([0, 3], np.float32), "nodes_modes": tensor([0, 0], np.uint8),
           "nodes_truenodeids": [2, 0], "nodes_falsenodeids": [2, 1], "nodes_trueleafs": [1, 1], "nodes_falseleafs": [1, 1],
           "leaf_targetids": [0, 1, 2], "leaf_weights": tensor([1, 2, 4], np.float32), "tree_roots": [0, 1],
           "n_targets": TARGETS}
    row = inputs(np.float32)
    got = run_c(compile(model(one), tmp_path), [row])[0]["y"]
    np.testing.assert_array_equal(got, [[1 if v <= 3 else 0, 0 if v <= 3 else 2, 4] for v in row["x"][:, 1]])


def test_what_is_no_tree_is_refused(tmp_path: Path) -> None:
    good = grown(2, (0,))
    for change, error, words in (
            ({"nodes_truenodeids": [0] * len(good["nodes_truenodeids"]),
              "nodes_trueleafs": [0] * len(good["nodes_trueleafs"])}, ShapeError, "cycle"),
            ({"nodes_truenodeids": [99] * len(good["nodes_truenodeids"])}, ModelError, "malformed"),
            ({"nodes_falsenodeids": [-1] * len(good["nodes_falsenodeids"])}, ModelError, "nodes below 0"),
            ({"nodes_modes": tensor([MEMBER] * len(good["nodes_trueleafs"]), np.uint8)}, ModelError, "different lengths"),
            ({"leaf_targetids": [0]}, ModelError, "different lengths"),
            ({"nodes_featureids": [FEATURES] * len(good["nodes_featureids"])}, ShapeError, "features or targets"),
            ({"post_transform": 4}, ModelError, "a post_transform"), ({"aggregate_function": 9}, ModelError, "function 9")):
        with pytest.raises(error, match=words):
            compile(model(good | change), tmp_path)


def test_one_input_type(tmp_path: Path) -> None:
    proto = model(grown(2, (0,)))
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    row = inputs(np.float16)
    assert compile(proto, tmp_path).check([row], opt="-O1").reference.differing == 0
