"""Errors: each says what is wrong, where, and what to do; each place that raises one is reached."""
from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import broken
import numpy as np
import onnx
import pytest
from conftest import Golden
from graphs import PORTABLE
from refusals import REFUSALS

import fuse2c
from fuse2c import errors, price, target, toolchain
from fuse2c.codegen import folder, project
from fuse2c.errors import Fuse2cError
from fuse2c.frontend import constants, external
from fuse2c.frontend import onnx as onnx_reader
from fuse2c.frontend.inputs import read_array
from fuse2c.ir.types import DType
from fuse2c.options import Options
from fuse2c.passes import select
from fuse2c.plan import Plan

PACKAGE = Path(fuse2c.__file__).parent
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
# Every raise of an error of the user's in these files has a case below.
COVERED = ["frontend/*.py", "passes/afford.py", "passes/legalize.py", "passes/place.py", "passes/select.py", "target.py",
           "options.py", "codegen/folder.py"]
MODELS = broken.CASES | REFUSALS
NOT_THE_USERS = ("InternalError", "ValueError")
ELSEWHERE = ("control.py", "functions.py")          # tests/test_control.py


def models_in(top: Path) -> Path:
    """A folder for model files, with data files beside them and outside."""
    root = top / "models"
    root.mkdir()
    data = np.arange(8, dtype=np.float32).tobytes()
    (root / "w.bin").write_bytes(data)
    (top / "outside.bin").write_bytes(data)
    (root / "below").mkdir()
    (root / "link.bin").symlink_to(top / "outside.bin")
    (root / "linked").symlink_to(top)
    (root / "loop.bin").symlink_to("loop.bin")
    return root


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The same for one test."""
    return models_in(tmp_path)


def write(root: Path, content: onnx.ModelProto | bytes, name: str = "model.onnx") -> Path:
    path = root / name
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


def conflict() -> fuse2c.Compiled:
    """The least RAM of any plan in the least time of any other."""
    board = "nucleo-l476rg"
    small, fast = (fuse2c.plan(DIGITS, target=board, optimize=how).plan for how in ("ram=1", "cycles=1"))
    return fuse2c.plan(DIGITS, target=board, ram=small.ram_bytes, deadline_ms=(fast.front[0].cycles + 1) / 80e3)


def compiled(path: Path, target_name: str = "host", **options: Any) -> fuse2c.Compiled:
    """A model all the way to its C."""
    result = fuse2c.plan(path, target_name, **options)
    project.files(result.plan)
    return result


def retyped(plan: Plan, dtype: DType) -> Plan:
    """The plan with another element type everywhere: one that no ONNX file would get through the importer with."""
    g = plan.graph
    return replace(plan, graph=g.retype({t: replace(g.type(t), dtype=dtype) for t in g.tensors}))


def patched(module: object, name: str, replacement: object, call: Callable[[], object]) -> None:
    """Call with something of a module replaced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, replacement)
        call()


def sparse_file(path: Path, size: int) -> Path:
    """A file that has a size and no content."""
    path.touch()
    os.truncate(path, size)
    return path


def option_cases(root: Path) -> dict[str, Callable[[], object]]:
    """What can be wrong beside the model: paths, options, limits, targets."""
    small = write(root, broken.model([broken.node("Relu", "x")]), "small.onnx")
    symbolic = write(root, broken.model([broken.node("Relu", "x")], inputs={"x": ("N", "height", 4)}), "symbolic.onnx")
    weights, q = {"s": np.float32(0.5), "z": np.int8(1)}, broken.value("q", (2, 3), onnx.TensorProto.INT8)
    stored = write(root, broken.model([broken.node("DequantizeLinear", "q s z", "r"), broken.node("Relu", "r")],
                                      weights, inputs={"q": q}), "stored.onnx")
    passed = write(root, broken.model([broken.node("DequantizeLinear", "q s z")], weights, inputs={"q": q}), "q.onnx")
    twice = write(root, broken.model(
        [broken.node("QuantizeLinear", "x s z", "q"), broken.node("DequantizeLinear", "q s z", "y"),
         broken.node("DequantizeLinear", "q s z", "v", name="dq2")], weights, outputs=("y", "v")), "twice.onnx")
    return {
        "a folder": lambda: compiled(root),
        "missing file": lambda: compiled(root / "nowhere.onnx"),
        "a device": lambda: compiled(Path("/dev/null")),
        "dimension misspelt": lambda: compiled(symbolic, dims={"heigth": 5}),
        "dimension unknown": lambda: compiled(small, dims={"Q": 5}),
        "option unknown": lambda: compiled(small, arena="heap"),
        "int8 inputs of a float model": lambda: compiled(small, io="int8"),
        "int8 outputs of a float model": lambda: compiled(stored, io="int8"),
        "int8 outputs that are inputs": lambda: compiled(passed, io="int8"),
        "int8 outputs that share a tensor": lambda: compiled(twice, io="int8"),
        "two limits for a step": lambda: compiled(DIGITS, step_budget=500, max_slice_us=5.0),
        "steps of pushed rows": lambda: compiled(DIGITS, step_budget=500, input_rows=True),
        "too little RAM": lambda: compiled(DIGITS, ram=100),
        "too little flash": lambda: compiled(DIGITS, flash=100),
        "an objective that is none": lambda: compiled(DIGITS, optimize="speed=1"),
        "limits that conflict": conflict,
        "too large for the board": lambda: patched(toolchain, "ARM_GCC", "no compiler", lambda: compiled(write(
            root, broken.one("Conv", "x w", {"w": np.ones((50_000, 3, 1, 1), np.float32)}), "board.onnx"), "nucleo-f446re")),
        "too many bytes for the board": lambda: compiled(write(root, broken.model(
            [broken.node("Conv", "x w", "a", name="wide"), broken.node("GlobalMaxPool", "a")],
            {"w": np.ones((9_000, 3, 1, 1), np.float32)}), "ram.onnx"), "nucleo-f446re"),
        "operator for constants only": lambda: patched(onnx_reader, "onnx_importers", dict, lambda: compiled(small)),
        "nested loops": lambda: patched(onnx_reader, "MAX_NODES", 500, lambda: compiled(
            write(root, broken.loops(3)))),
        "file beyond protobuf's limit": lambda: compiled(sparse_file(root / "huge.onnx", 2 ** 31)),
        "too much external data": lambda: patched(external, "EXTERNAL_LIMIT", 15, lambda: compiled(
            write(root, broken.external("w.bin")))),
        "constant of unknown size": lambda: constants.Evaluator(0).run(
            broken.node("Compress", "a b"), "c", [np.ones(3), np.ones(3, np.bool_)], 17),
        "no kernel": lambda: select.run(retyped(fuse2c.plan(small).plan, DType.BOOL)),
    }


def target_cases(root: Path) -> dict[str, Callable[[], object]]:
    """Target files that are wrong in one way each."""
    text = (target.FOLDER / "cortex-m4.toml").read_text(encoding="utf-8")

    def changed(old: str, new: str) -> Callable[[], object]:
        assert old in text
        path = root / f"t{sum(1 for _ in root.iterdir())}.toml"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return lambda: target.parse(target.tomllib.loads(path.read_text(encoding="utf-8")), "board.toml")
    bad = root / "bad.toml"
    bad.write_text("name = \n", encoding="utf-8")
    return {
        "target misspelt": lambda: target.load("cortexm4"),
        "target unknown": lambda: target.load("z80"),
        "target file missing": lambda: target.load(str(root / "nowhere.toml")),
        "target file no TOML": lambda: target.load(str(bad)),
        "target field misspelt": changed("title ", "titel "),
        "target field missing": changed('isa             = "armv7e-m"\n', ""),
        "target table missing": changed("[emulator]\nmachine =", "emulator ="),
        "target table that is none": lambda: target.parse({"processor": 3}, "board.toml"),
        "target number negative": changed("bytes       = 4194304", "bytes = -1"),
        "target clock that is no list": changed("[emulator]", "[clock]\nhz = 1\n[emulator]"),
        "target clocks out of order": changed("[emulator]", "[[clock]]\nhz = 2\n[[clock]]\nhz = 1\n[emulator]"),
        "target clock that is not there": changed("[emulator]", "[[clock]]\nhz = 2\n[emulator]"),
        "target source of nothing": changed('"processor.cpi" =', '"processor.cip" ='),
        "target source without status": changed('"processor.cpi" = "estimated: ', '"processor.cpi" = "'),
        "target feature unknown": changed('"dsp"', '"dps"'),
        "target status unknown": changed('"estimated"', '"guessed"'),
        "target memory unknown": changed('"arena"', '"arenas"'),
        "target core with a second name": changed("[emulator]", '[core.b]\nname = "c"\n[emulator]'),
        "target core named as the first": changed("[emulator]", "[core.cpu]\n[emulator]"),
        "target core on itself": changed("[emulator]", '[core.b]\non = "cpu"\nhandover = 4\n[emulator]'),
        "target without flash": changed('["weights"]', '["arena"]'),
    }


def core_cases() -> dict[str, Callable[[], object]]:
    """Several cores and processors: those that are not there, and what cannot be shared among them."""
    def digits(board: str = "host", **options: object) -> Callable[[], object]:
        return lambda: compiled(DIGITS, board, **options)
    node = fuse2c.plan(DIGITS).plan.steps[0].node.name
    return {
        "cores: none": digits(cores=0),
        "cores: more than there are": digits(cores=3),
        "cores with steps": digits(cores=2, step_budget=500),
        "cores with pushed rows": digits(cores=2, input_rows=True),
        "cores with programs of their own": digits("nrf5340-dk", cores=2),
        "place: processor unknown": digits(place_node=((node, "core2"),)),
        "place: a core without code": digits(place_node=((node, "core1"),)),
        "place: node misspelt": digits(place_node=((f"{node}s", "cpu"),)),
        "place: two for a kernel": digits(cores=2, place_node=((node, "cpu"), (node, "core1"))),
    }


def energy_cases() -> dict[str, Callable[[], object]]:
    """Limits of energy and power that are not met, or that nothing is known about."""
    def board(**options: float) -> Callable[[], object]:
        return lambda: compiled(DIGITS, "nucleo-l476rg", **options)
    return {
        "power without a rate": board(power_mw=1.0),
        "energy on a target without figures": lambda: compiled(DIGITS, "cortex-m4", energy_uj=1.0),
        "too much energy": board(energy_uj=1.0),
        "too slow for the rate": board(rate_hz=1e6),
        "too much power": board(rate_hz=100.0, power_mw=0.5),
    }


def folder_cases(root: Path) -> dict[str, Callable[[], object]]:
    """Output folders that must not be replaced."""
    files = {"a.c": "int a;\n"}
    plain, foreign, changed, more = (root / name for name in ("file", "foreign", "changed", "more"))
    plain.write_text("")
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("")
    folder.write(files, changed)
    (changed / "a.c").write_text("int b;\n")
    folder.write(files, more)
    for i in range(7):
        (more / f"mine{i}.c").write_text("")
    return {
        "output is a file": lambda: folder.write(files, plain),
        "output below a file": lambda: folder.write(files, plain / "below"),
        "output is foreign": lambda: folder.write(files, foreign),
        "output was changed": lambda: folder.write(files, changed),
        "output has further files": lambda: folder.write(files, more),
        "output is the working directory": lambda: folder.write(files, Path()),
        "output is above the working directory": lambda: folder.write(files, Path("..")),
    }


def state_cases(root: Path) -> dict[str, Callable[[], object]]:
    """Pairs of --stateful that are no states of the model."""
    types = {"frame": broken.value("frame", (2, 3)), "past": broken.value("past", (2, 3)),
             "short": broken.value("short", (1, 3)), "none": broken.value("none", (0, 3))}
    path = write(root, broken.model([broken.node("Add", "frame past", "next"), broken.node("Relu", "frame", "y"),
                                     broken.node("Relu", "none", "nothing", name="r"),
                                     broken.node("Neg", "short", "brief")],
                                    inputs=types, outputs=("next", "y", "nothing", "brief")), "states.onnx")
    alone = write(root, broken.model([broken.node("Relu", "x")]), "state.onnx")
    return {
        "state without input": lambda: compiled(path, stateful=(("pst", "next"),)),
        "state without output": lambda: compiled(path, stateful=(("past", "h"),)),
        "state named twice": lambda: compiled(path, stateful=(("past", "next"), ("past", "y"))),
        "state of another shape": lambda: compiled(path, stateful=(("past", "brief"),)),
        "state without elements": lambda: compiled(path, stateful=(("none", "nothing"),)),
        "states only": lambda: compiled(alone, stateful=(("x", "y"),)),
    }


def bind_cases(root: Path) -> dict[str, Callable[[], object]]:
    """Values of --bind that are none of the model's."""
    path = write(root, broken.model([broken.node("ReduceSum", "x axes")], inputs={
        "x": broken.value("x", (2, 3)), "axes": broken.value("axes", (1,), onnx.TensorProto.INT64)}), "axes.onnx")
    np.savez(root / "many.npz", a=np.arange(2))
    (root / "many.npz").rename(root / "many.npy")
    return {
        "axes that are not bound": lambda: compiled(path),
        "input to bind misspelt": lambda: compiled(path, bind={"axis": 1}),
        "bound to another shape": lambda: compiled(path, bind={"axes": [0, 1]}),
        "bound to another type": lambda: compiled(path, bind={"axes": np.asarray([1], np.int32)}),
        "bound to no whole number": lambda: compiled(path, bind={"axes": 0.5}),
        "bound to a file that is not there": lambda: read_array(root / "nowhere.npy"),
        "bound to a file of several arrays": lambda: read_array(root / "many.npy"),
    }


def all_cases(root: Path) -> dict[str, Callable[[], object]]:
    """Every case that must fail, by name."""
    found: dict[str, Callable[[], object]] = {
        name: lambda build=build: compiled(write(root, build())) for name, build in MODELS.items()}
    found |= option_cases(root) | target_cases(root) | core_cases() | energy_cases()
    return found | folder_cases(root) | state_cases(root) | bind_cases(root)


def raised(case: Callable[[], object]) -> Fuse2cError:
    """The error of a case, which must be the user's."""
    with pytest.raises(Fuse2cError) as caught:
        case()
    assert caught.value.exit_status == 1, f"a bug: {caught.value}"
    return caught.value


@dataclass
class Outcome:
    """What all cases said, and the lines of code that were on the stack when they did."""

    texts: dict[str, str] = field(default_factory=dict)
    reached: set[tuple[str, int]] = field(default_factory=set)

    def __call__(self, error: Fuse2cError, *args: Any, **kwargs: Any) -> None:
        frame: FrameType | None = inspect.currentframe()
        while frame is not None:
            self.reached.add((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All cases, once."""
    top, result = tmp_path_factory.mktemp("errors"), Outcome()
    root = models_in(top)
    (root / "here").mkdir()
    original = Fuse2cError.__init__

    def recording(self: Fuse2cError, *args: Any, **kwargs: Any) -> None:
        result(self)
        original(self, *args, **kwargs)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root / "here")
        patch.setattr(Fuse2cError, "__init__", recording)
        for name, case in all_cases(root).items():
            result.texts[name] = str(raised(case)).replace(str(top), "<folder>")
    return result


def test_a_hint_is_short_however_many_names_there_are() -> None:
    many = {f"{'layer' * 40}/{n}": None for n in range(500)}
    hint = errors.did_you_mean("?", many)
    assert hint.startswith("known: ") and hint.endswith("476 more") and len(hint) < 24 * 55
    assert errors.did_you_mean("?", ["a", "b"]) == "known: a, b" and errors.did_you_mean("?", []) == "known: none"
    assert errors.did_you_mean("cortex-m5", ["cortex-m4", "cortex-m55"]) == "did you mean 'cortex-m55'?"


def test_every_error_says_what_the_golden_file_says(outcome: Outcome, golden: Golden) -> None:
    for file, names in (("errors.txt", outcome.texts.keys() - REFUSALS.keys()), ("refusals.txt", REFUSALS)):
        golden(file, "\n".join(f"# {name}\n{text}\n" for name, text in outcome.texts.items() if name in names))


def sites() -> Iterator[tuple[str, int, int]]:
    """(file, first line, last line) of every statement that raises an error of the user's."""
    for path in sorted({path for pattern in COVERED for path in PACKAGE.glob(pattern) if path.name not in ELSEWHERE}):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                text = ast.get_source_segment(source, node.exc) or ""
                if not text.startswith(NOT_THE_USERS):
                    yield str(path), node.lineno, node.end_lineno or node.lineno


def test_every_place_that_raises_is_reached(outcome: Outcome) -> None:
    missed = [f"{Path(path).relative_to(PACKAGE)}:{first}" for path, first, last in sites()
              if not any((path, line) in outcome.reached for line in range(first, last + 1))]
    assert missed == []


def test_codes_and_classes_are_documented_and_unique() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Fuse2cError)]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes) > 10 and all(c.__doc__ for c in classes)
    assert {c.exit_status for c in classes} == {1, 3} and errors.InternalError.exit_status == 3


def test_what_a_file_says_cannot_break_the_shape_of_an_error() -> None:
    name = "evil\n  hint     : run rm\x1b[2J\u202e" + "a" * 5000
    lines = str(errors.ModelError(f"bad {name}", node=name, tensor=name, hint="do")).split("\n")
    assert [line.split(":")[0].strip() for line in lines] == ["error[F100]", "node", "tensor", "hint"]
    assert all(line.isprintable() and len(line) < 500 for line in lines)


def test_all_unsupported_operators_are_in_one_error(models: Path) -> None:
    text = str(raised(lambda: compiled(write(models, broken.GRAPHS["unsupported operators"]()))))
    assert "9 nodes cannot be compiled" in text and "Foo (8x): first, foo0, foo1, foo2, foo3 and 3 more" in text
    assert "Bar (1x): bar: no operator my.ops.Bar" in text and "Relu" not in text and "hint" in text


def test_too_little_ram_names_the_step_and_how_much_is_missing() -> None:
    need = fuse2c.plan(DIGITS, PORTABLE, optimize="ram").plan.arena_bytes
    error = raised(lambda: compiled(DIGITS, PORTABLE, ram=need - 10))
    assert isinstance(error, errors.DoesNotFit) and "10 too many" in str(error) and error.where["node"]
    assert any("bytes" in line for line in error.detail)
    assert fuse2c.plan(DIGITS, PORTABLE, ram=need).plan.arena_bytes == need
    plan = fuse2c.plan(DIGITS, PORTABLE).plan
    flash = plan.weight_bytes + price.code_bytes(plan)
    assert "10 too many" in str(raised(lambda: compiled(DIGITS, PORTABLE, flash=flash - 10)))


def test_options_that_are_none_are_refused() -> None:
    for key, bad in (("io", "int4"), ("requant", "double"), ("optimize", "both")):
        assert bad in str(raised(lambda key=key, bad=bad: Options(**{key: bad})))    # type: ignore[misc]
