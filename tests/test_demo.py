"""`make demo`: what a person sees first, with all tools and without them, in a terminal of 80 columns."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fuse2c import toolchain
from fuse2c.measure import qemu

pytest.importorskip("sklearn", reason="scikit-learn, which holds the images, is not installed")

ROOT = Path(__file__).parents[1]
IMAGES = 12
CROSS = [toolchain.ARM_GCC, qemu.QEMU]
FIGURES = ("kernels", "bytes of intermediates", "instructions an inference", "flash: code, bytes",
           "flash: weights, bytes", "RAM: arena, bytes", "least of all plans", "RAM: static, bytes",
           "RAM: stack, bytes", "differ from the reference", "differ in QEMU from here")


def demo(out: Path, **environment: str) -> str:
    """What the demo prints on a few images; it must not fail, nor need more than 80 columns."""
    env = os.environ | {"COLUMNS": "80", "PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, ROOT / "examples" / "digits" / "demo.py", "--images", str(IMAGES), "--out", out]
    done = subprocess.run(command, cwd=out, env=env, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and not line.startswith("Next:")] == []
    return done.stdout


def figures(text: str) -> dict[str, list[str]]:
    """Name -> the four figures of each row of the closing table."""
    found = {}
    for line in text.splitlines():
        name, *values = re.split(r"\s{2,}", line.strip())
        if name in FIGURES:
            found[name] = [value.replace(",", "") for value in values]
    return found


def without(folder: Path, *tools: str) -> str:
    """A PATH on which everything is but these tools."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*") if Path(directory).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith(tools) and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a run with all tools that are installed."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo(folder)


def test_every_figure_is_there(run: tuple[Path, str]) -> None:
    for tool in CROSS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    text = run[1]
    assert "not installed" not in text and "not measured" not in text
    table = figures(text)
    assert tuple(table) == FIGURES
    for name in ("kernels", "bytes of intermediates", "instructions an inference"):
        float_before, float_after, before, after = map(int, table[name])
        assert after < before and float_after < float_before, name
    for name in ("differ from the reference", "differ in QEMU from here", "RAM: static, bytes"):
        assert table[name] == ["0"] * 4, name
    assert all(int(n) > 0 for name in FIGURES[:7] for n in table[name] if name != "bytes of intermediates")
    assert int(table["least of all plans"][3]) <= int(table["RAM: arena, bytes"][3])
    runtime, ours = (re.search(rf"^ {who} +([\d.]+)% +([\d.]+)%", text, re.M)
                     for who in (r"onnxruntime [\d.]+", "generated C"))
    assert runtime and ours and runtime.groups() == ours.groups() and min(map(float, ours.groups())) > 90.0


def test_what_it_says_of_the_code_is_true(run: tuple[Path, str]) -> None:
    out, text = run
    folder = out / "digits_int8"
    function = re.search(r"(digits_int8_\d+_\w+) is (\w+(?: > \w+)+)", " ".join(text.split()))
    assert function, text
    code = (folder / "digits_int8.c").read_text(encoding="utf-8")
    assert re.search(rf"/\* {function[2]}\n.*?static [^;{{]*{function[1]}\(", code, re.S)
    for name in ("digits_int8.h", "digits_int8.c", "example_main.c"):
        assert (folder / name).is_file() and name in text
    assert f"fuse2c plan {os.path.relpath(ROOT / 'examples/digits/digits_int8.onnx', out)}" in text


def test_one_line_for_each_tool_that_is_missing(tmp_path: Path) -> None:
    fake = tmp_path / "nothing"
    fake.mkdir()
    (fake / "onnxruntime.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    path = without(tmp_path / "bin", "arm-none-eabi", "qemu-system-arm")
    text = demo(tmp_path, PATH=path, PYTHONPATH=f"{fake}{os.pathsep}{ROOT}")
    lines = [line for line in text.splitlines() if "is not installed" in line]
    assert [line.split()[0] for line in lines] == [*CROSS, "onnxruntime"]
    table = figures(text)
    assert table["instructions an inference"] == table["flash: code, bytes"] == ["-"] * 4
    assert table["differ from the reference"] == ["0"] * 4
    assert all(int(n) > 0 for n in table["RAM: arena, bytes"])
    assert "generated C" in text and not re.search(r"onnxruntime [\d.]", text)


def test_sizes_without_an_emulator(tmp_path: Path) -> None:
    if shutil.which(toolchain.ARM_GCC) is None:
        pytest.skip(f"{toolchain.ARM_GCC} is not installed")
    table = figures(demo(tmp_path, PATH=without(tmp_path / "bin", qemu.QEMU)))
    assert table["instructions an inference"] == table["differ in QEMU from here"] == ["-"] * 4
    assert all(int(n) > 0 for n in table["flash: code, bytes"] + table["flash: weights, bytes"])
