"""--bind: inputs that become constants, by numbers or from a file, on the command line and in Python."""
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from graphs import Builder, compile

from fuse2c.cli import cli
from fuse2c.errors import ModelError, ShapeError, UnsupportedOp


def resize() -> tuple[Builder, dict[str, str]]:
    """A Resize whose region and scales are inputs, and a sum whose axes are one."""
    b = Builder(18)
    x, roi, scales, axes = b.input((1, 2, 3, 5)), b.input((0,)), b.input((4,)), b.input(("n",), np.int64)
    big = b.op("Resize", x, roi, scales, mode="nearest")
    b.output(big, b.op("ReduceSum", x, axes, keepdims=0))
    return b, {"roi": roi, "scales": scales, "axes": axes}


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    b, names = resize()
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model(check_model=False).SerializeToString())
    return path, names


def fuse2c(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


def test_the_error_names_the_option(model: tuple[Path, dict[str, str]]) -> None:
    path, names = model
    failed = fuse2c("plan", path).exception
    assert isinstance(failed, UnsupportedOp)
    assert failed.constants == tuple(sorted((names["scales"], names["axes"])))
    assert all(f"--bind {t}=VALUE" in failed.hint for t in failed.constants)


def test_numbers_and_files(model: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    path, names = model
    np.save(tmp_path / "s.npy", np.asarray([1, 1, 2, 3], np.float32))
    bound = ["--bind", f"{names['roi']}=", "--bind", f"{names['scales']}={tmp_path / 's.npy'}", "--bind",
             f"{names['axes']}=1, -1"]
    done = fuse2c("check", path, *bound, "--samples", "3", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["onnxruntime_outputs"]
    assert found["differing"] == 0 and found["elements"] == 3 * (2 * 6 * 15 + 3)
    shown = fuse2c("inspect", path, *bound)
    assert re.search(r"output \w+: float32\[1,2,6,15\]", shown.output) and shown.output.count("input ") == 1
    assert fuse2c("plan", path, *bound, "--json").exit_code == 0     # also compiles it without fusion


KINDS: list[tuple[Any, tuple[Any, ...], Any, np.ndarray]] = [
    (np.int64, (3,), [1, -2, 2 ** 62 + 1], np.asarray([1, -2, 2 ** 62 + 1])),
    (np.uint64, (1,), [2 ** 64 - 1], np.asarray([2 ** 64 - 1], np.uint64)),
    (np.int8, (2, 3), [1, 2, 3, 4, 5, -128], np.asarray([[1, 2, 3], [4, 5, -128]], np.int8)),
    (np.int32, (), 7, np.asarray(7, np.int32)), (np.int32, (), [7.0], np.asarray(7, np.int32)),
    (np.int32, ("n", 2), [1, 2, 3, 4, 5, 6], np.asarray([[1, 2], [3, 4], [5, 6]], np.int32)),
    (np.int32, ("n", "m"), [[1, 2, 3]], np.asarray([[1, 2, 3]], np.int32)),
    (np.bool_, (2,), [0, 1], np.asarray([False, True])),
    (np.float32, (3,), [0.1, float("inf"), -3], np.asarray([0.1, np.inf, -3], np.float32)),
    (np.float16, (), 0.1, np.asarray(0.1, np.float16)),
    (ml_dtypes.bfloat16, (1,), [3.0], np.asarray([3], ml_dtypes.bfloat16)),
    (ml_dtypes.bfloat16, (2,), np.asarray([3, -0.5], ml_dtypes.bfloat16).view("V2"),
     np.asarray([3, -0.5], ml_dtypes.bfloat16)),
    (np.float64, (2,), np.asarray([0.1, 2]), np.asarray([0.1, 2])),
]


def taken(folder: Path, dtype: Any, shape: tuple[Any, ...], value: Any) -> np.ndarray:
    """What a bound input holds in the compiled graph."""
    b = Builder()
    x, p = b.input((2, 3)), b.input(shape, dtype)
    b.output(b.op("Neg", x), p)
    g = compile(b, folder, bind={p: value}).plan.source
    assert g is not None and g.inputs == (x,)
    data = g.data(p)
    assert data is not None
    return data


@pytest.mark.parametrize(("dtype", "shape", "value", "want"), KINDS)
def test_values(dtype: Any, shape: tuple[Any, ...], value: Any, want: np.ndarray, tmp_path: Path) -> None:
    got = taken(tmp_path, dtype, shape, value)
    assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want)


@pytest.mark.parametrize(("dtype", "shape", "value", "words"), [
    (np.int8, (1,), [128], "int8 has no 128"), (np.int64, (1,), [0.5], "int64 has no 0.5"),
    (np.uint8, (1,), [-1], "uint8 has no -1"), (np.bool_, (1,), [2], "bool has no 2"),
    (np.int32, (1,), [float("nan")], "int32 has no nan"), (np.int32, (1,), [float("inf")], "int32 has no inf"),
    (np.float16, (1,), [7e4], "float16 has no 70000"), (np.int64, (3,), [1, 2], r"int64 \[3\], the value int64 \[2\]"),
    (np.int64, ("n", 2), [1, 2, 3], r"int64 \[\?, 2\], the value int64 \[3\]"),
    (np.int64, ("n", "m"), [1, 2], r"int64 \[\?, \?\], the value int64 \[2\]"),
    (np.int64, (2,), np.asarray([1, 2], np.int32), r"int64 \[2\], the value int32 \[2\]"),
    (np.int64, (1, 2), np.asarray([1, 2]), r"int64 \[1, 2\], the value int64 \[2\]"),
])
def test_values_that_do_not_fit(dtype: Any, shape: tuple[Any, ...], value: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=words):
        taken(tmp_path, dtype, shape, value)


def test_names_and_files_that_are_not_there(model: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    path, names = model
    wrong = fuse2c("plan", path, "--bind", f"{names['scales']}9=1").exception
    assert isinstance(wrong, ModelError) and f"did you mean {names['scales']!r}" in wrong.hint
    np.save(tmp_path / "object.npy", np.asarray([{}], object), allow_pickle=True)
    np.save(tmp_path / "cut.npy", np.arange(9.0))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-5])
    np.savez(tmp_path / "many.npz", a=np.arange(2))
    (tmp_path / "many.npz").rename(tmp_path / "many.npy")
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("object", "cut", "many", "text", "empty", "absent"):
        failed = fuse2c("plan", path, "--bind", f"{names['axes']}={tmp_path / name}.npy").exception
        assert type(failed) is ModelError and f"{name}.npy" in str(failed), name
