"""The wheel carries everything, and compiles a model from an empty folder far from the checkout."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("setuptools", "77", reason="wheels are built without a network, by the setuptools installed here")
pytest.importorskip("build")

ROOT = Path(__file__).parents[1]
# Where a folder of the checkout lives in the wheel.
TRAVELS = {"fuse2c": "fuse2c", "templates": "fuse2c/_templates", "runtime_c": "fuse2c/_runtime_c"}
JUNK = ("__pycache__", "*.pyc", ".*", "*.o")


def run(*command: object, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged, so that no build leaves a trace in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for folder in TRAVELS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns(*JUNK))
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """Built from the sdist, as an index would serve it: what either forgets is missing here."""
    run(sys.executable, "-m", "build", "--no-isolation", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


def listing(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_wheel_holds_every_file(source: Path, wheel: Path) -> None:
    want = {f"{there}/{name}" for here, there in TRAVELS.items() for name in listing(source / here)}
    with zipfile.ZipFile(wheel) as archive:
        have = {name for name in archive.namelist() if not name.endswith("/")}
    assert sorted(want - have) == []
    assert sorted(name for name in have - want if ".dist-info/" not in name) == []
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in have)
    assert "fuse2c/py.typed" in have


def test_sdist_can_build_itself(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "setup.py", "LICENSE"} <= names


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; the dependencies are borrowed from the environment that runs us."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    executable = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", executable)
    run(*pip, "install", "--no-index", "--no-deps", wheel, cwd=home.parent)
    site = run(executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home.parent).strip()
    borrowed = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (Path(site) / "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    return executable


def write_model(path: Path) -> None:
    """Conv > Relu on an input that is not square, with four different pads."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(3, 2, 3, 2)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 2], pads=[1, 0, 2, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 7, 5])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def test_installed_package_is_the_one_imported(python: Path, tmp_path: Path) -> None:
    found = Path(run(python, "-I", "-c", "import fuse2c; print(fuse2c.__file__)", cwd=tmp_path).strip())
    assert found.is_relative_to(python.parents[1])


def test_installed_package_compiles_a_model(python: Path, tmp_path: Path) -> None:
    assert (python.parent / "fuse2c").is_file()
    model, empty = tmp_path / "tiny.onnx", tmp_path / "empty"
    write_model(model)
    empty.mkdir()
    run(python, "-I", "-m", "fuse2c", "build", model, "-t", "cortex-m4", "-o", "out", cwd=empty)
    assert {"tiny.h", "tiny.c", "tiny_weights.c"} <= listing(empty / "out")
    if cc := shutil.which("cc"):
        run(cc, "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "tiny.c", "tiny_weights.c", cwd=empty / "out")
