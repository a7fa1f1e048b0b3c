"""The written project: the same bytes every time, its own build files, safe names, no heap, graphs at the edge."""
from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import broken
import numpy as np
import onnx
import pytest
from graphs import assert_c_is_reference, compile_bytes, samples

import fuse2c
from fuse2c.check import HostModel
from fuse2c.codegen import project, runtime
from fuse2c.ir.types import pack

ROOT = Path(__file__).parents[1]
DIGITS = {kind: ROOT / "examples" / "digits" / f"digits_{kind}.onnx" for kind in ("int8", "fp32")}
VARIANTS = {
    "int8": ("int8", {}), "float": ("fp32", {}), "caller": ("int8", {"arena": "caller"}),
    "io": ("int8", {"io": "int8"}), "rows": ("int8", {"optimize": "ram"}), "unfused": ("fp32", {"fuse": False}),
    "rounding": ("int8", {"requant": "float"}),
}


def needs(*tools: str) -> None:
    """Skip a test that needs a tool which is not there."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def run(*command: str | Path, cwd: Path | None = None, **env: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=os.environ | env, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def plan_of(variant: str, target: str = "host") -> Any:
    kind, options = VARIANTS[variant]
    return fuse2c.plan(DIGITS[kind], target, **options)


def undefined(objects: Sequence[Path], nm: str = "nm") -> set[str]:
    """Symbols that objects take from elsewhere, not from each other."""
    lines = [line.split() for path in objects for line in run(nm, path).splitlines() if line and not line.endswith(":")]
    return {words[-1] for words in lines if words[0] == "U"} - {words[-1] for words in lines if words[0] != "U"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_model_gives_the_same_bytes(variant: str, tmp_path: Path) -> None:
    kind, options = VARIANTS[variant]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(DIGITS[kind], elsewhere / DIGITS[kind].name)
    code = (f"import sys, fuse2c; fuse2c.plan({DIGITS[kind].name!r}, 'cortex-m4', **{options!r})"
            f".emit(sys.argv[1])")
    for seed in "12":
        run(sys.executable, "-c", code, tmp_path / seed, cwd=elsewhere, PYTHONHASHSEED=seed, PYTHONPATH=str(ROOT),
            TZ=f"UTC+{seed}")
    here = project.files(plan_of(variant, "cortex-m4").plan)
    for seed in "12":
        found = {p.name: p.read_text(encoding="utf-8") for p in (tmp_path / seed).iterdir() if p.name[0] != "."}
        assert found == here
    text = "\n".join(here.values())
    assert not re.search(r"/(?:tmp|home|root|usr|work|Users)/|\b20\d\d-\d\d|:\d\d:\d\d", text)


@pytest.mark.parametrize("variant", VARIANTS)
def test_runtime_files_are_those_in_use(variant: str) -> None:
    files = project.files(plan_of(variant).plan)
    included = {name for text in files.values() for name in re.findall(r'#include "([^"]+)"', text)}
    copied = {name for name in files if name.startswith("f2c")}
    assert copied == {name for name in included if name.startswith("f2c")} and included <= files.keys()
    code = files[f"{out_name(plan_of(variant))}.c"]
    direct = set(re.findall(r'#include "(f2c_[^"]+)"', code)) - set(runtime.ALWAYS)
    for header in direct:
        functions = re.findall(r"(f2c_\w+)\(", runtime.text(header))
        assert any(re.search(rf"\b{name}\b", code) for name in functions), f"{header} is not in use"


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("variant", ["int8", "float", "caller"])
def test_the_makefile_builds_and_the_example_runs(variant: str, cc: str, tmp_path: Path) -> None:
    needs("make", cc)
    c = plan_of(variant)
    out = c.emit(tmp_path / "out")
    run("make", "-C", out, f"CC={cc}", "example")
    assert (out / f"lib{out_name(c)}.a").is_file()
    lines = run(out / "example").splitlines()
    assert [line.split(" = ")[0] for line in lines] == [f"probabilities[{i}]" for i in range(10)]
    t = c.plan.graph.inputs[0]
    with HostModel(c.plan) as host:
        want = host.run({t: np.zeros(c.plan.graph.type(t).shape, np.float32)})
    np.testing.assert_allclose([float(line.split(" = ")[1]) for line in lines], next(iter(want.values())).reshape(-1),
                               rtol=1e-5)
    c.emit(out)                                         # what make built does not stand in the way
    assert not (out / "example").exists()
    run("make", "-C", out, f"CC={cc}", "example")
    run("make", "-C", out, "clean")
    assert not list(out.glob("*.[oa]"))


def out_name(c: Any) -> str:
    return str(project.model_view(c.plan).name)


def test_the_makefile_cross_compiles(tmp_path: Path) -> None:
    needs("make", "arm-none-eabi-gcc")
    out = plan_of("int8", "cortex-m4").emit(tmp_path / "out")
    command = re.search(r"make (CC=\S+) CFLAGS=\"(.*)\"", (out / "Makefile").read_text(encoding="utf-8"))
    assert command is not None
    run("make", "-C", out, command[1], f"CFLAGS={command[2]} -fno-omit-frame-pointer")      # which takes a register
    run("make", "-C", out, "clean")
    run("make", "-C", out, command[1], f"CFLAGS={command[2]}")
    assert "libdigits_int8.a" in {p.name for p in out.iterdir()}


def test_cmake_and_a_program_in_cpp(tmp_path: Path) -> None:
    needs("cmake", "g++")
    c = plan_of("io")
    c.emit(tmp_path / "model")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app CXX)\nadd_subdirectory(model)\n"
        "add_executable(app main.cpp)\ntarget_compile_options(app PRIVATE -Wall -Wextra -Wpedantic -Werror)\n"
        "target_link_libraries(app digits_int8)\n")
    (tmp_path / "main.cpp").write_text(
        '#include "digits_int8.h"\n#include <cstdio>\nint main() {\n'
        "    static int8_t image[DIGITS_INT8_IMAGE_COUNT], out[DIGITS_INT8_PROBABILITIES_COUNT];\n"
        "    const int status = digits_int8_run(image, out);\n"
        '    std::printf("%d %d %g %d\\n", status, out[0], double(DIGITS_INT8_IMAGE_SCALE),\n'
        "                DIGITS_INT8_IMAGE_ZERO);\n}\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    status, first, scale, zero = run(tmp_path / "build" / "app").split()
    g = c.plan.graph
    quant = g.type(g.inputs[0]).quant
    with HostModel(c.plan) as host:
        want = host.run({g.inputs[0]: np.zeros(g.type(g.inputs[0]).shape, np.int8)})[g.outputs[0]]
    assert quant is not None and (status, int(first)) == ("0", want.reshape(-1)[0])
    assert float(scale) == pytest.approx(quant.scale[0], rel=1e-5) and int(zero) == quant.zero[0] != 0


def test_float64_links_with_the_mathematics_library(tmp_path: Path) -> None:
    needs("make", "cmake", "gcc")
    m = broken.model([broken.node("Sqrt", "x")], inputs={"x": broken.value("x", (2, 3), onnx.TensorProto.DOUBLE)})
    out = compile_bytes(m.SerializeToString(), tmp_path, name="root").emit(tmp_path / "out")
    assert "link with -lm" in (out / "root.h").read_text(encoding="utf-8")
    run("make", "-C", out, "example", "CC=gcc")
    (out / "CMakeLists.txt").open("a").write("add_executable(app example_main.c)\ntarget_link_libraries(app root)\n")
    run("cmake", "-S", out, "-B", tmp_path / "build", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "app") == run(out / "example") and "-lm" not in "".join(
        project.files(plan_of("float").plan).values())


def test_headers_of_another_version_are_refused(tmp_path: Path) -> None:
    needs("gcc")
    out = plan_of("int8").emit(tmp_path / "out")
    text = (out / "f2c.h").read_text(encoding="utf-8")
    assert "#define F2C_API 1\n" in text
    (out / "f2c.h").write_text(text.replace("#define F2C_API 1\n", "#define F2C_API 2\n"), encoding="utf-8")
    done = subprocess.run(["gcc", "-std=c99", "-c", "digits_int8.c", "-o", os.devnull], cwd=out, capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and "regenerate" in done.stderr


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_header_says_all_sizes(variant: str, tmp_path: Path) -> None:
    c = plan_of(variant)
    m, g = project.model_view(c.plan), c.plan.graph
    header = project.files(c.plan)[f"{m.name}.h"]
    values = dict(re.findall(r"#define (\w+) \(?([-\w.]+)\)?", header))
    assert int(values[f"{m.macro}_ARENA_BYTES"]) == c.plan.arena_bytes
    for port in m.inputs + m.outputs:
        t = g.type(port.tensor)
        assert int(values[f"{port.macro}_COUNT"]) == t.count and str(list(t.shape)) in header
        assert (f"{port.macro}_SCALE" in values) == (t.quant is not None) == (t.dtype == "int8")
        if t.quant is not None:
            assert float(values[f"{port.macro}_SCALE"].rstrip("f")) == np.float32(t.quant.scale[0])
            assert int(values[f"{port.macro}_ZERO"]) == t.quant.zero[0]
    assert f"{c.plan.macs} multiply-accumulates" in header and f"{c.plan.weight_bytes} bytes of constants" in header
    assert 'extern "C"' in header and "Re-entrant" in header if variant == "caller" else "Not re-entrant" in header


def shared(c: Any, folder: Path) -> ctypes.CDLL:
    """The written project as a shared library."""
    out = c.emit(folder / "out")
    sources = [out / s for s in project.model_view(c.plan).sources]
    run("gcc", "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC", *sources, "-o", folder / "m.so")
    return ctypes.CDLL(str(folder / "m.so"))


def test_a_callers_arena_makes_it_reentrant(tmp_path: Path) -> None:
    needs("gcc")
    c = plan_of("caller")
    g, call = c.plan.graph, shared(c, tmp_path).digits_int8_run
    rows = samples(c.plan, 4)
    with HostModel(c.plan) as host:
        want = [pack(host.run(row)[g.outputs[0]], g.type(g.outputs[0])) for row in rows]
    wrong = []

    def work(i: int) -> None:
        x, y = pack(rows[i][g.inputs[0]], g.type(g.inputs[0])), np.zeros(10, np.float32)
        arena = np.zeros(c.plan.arena_bytes + 8, np.uint8)
        start = arena.ctypes.data + -arena.ctypes.data % 8
        for _ in range(300):
            call(*(ctypes.c_void_p(p) for p in (x.ctypes.data, y.ctypes.data, start)))
            if not np.array_equal(y, want[i]):
                wrong.append(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len({row.tobytes() for row in want}) > 1


@pytest.mark.parametrize("variant", ["int8", "caller"])
def test_only_the_static_arena_is_writable(variant: str, tmp_path: Path) -> None:
    needs("gcc", "nm")
    c = plan_of(variant)
    out = c.emit(tmp_path / "out")
    objects = [Path(shutil.copy(s, tmp_path / s.name)).with_suffix(".o") for s in out.glob("digits*.c")]
    for o in objects:
        run("gcc", "-std=c99", "-O2", "-I", out, "-c", o.with_suffix(".c"), "-o", o)
    lines = [line.split() for o in objects for line in run("nm", o).splitlines()]
    writable = {words[-1] for words in lines if words[-2] in "bBdDC"}
    assert writable == (set() if variant == "caller" else {"digits_int8_arena"})
    assert undefined(objects) <= {"memcpy", "memset", "memmove"}


def test_cppcheck_finds_nothing(tmp_path: Path) -> None:
    needs("cppcheck")
    for variant in ("int8", "float", "rows"):
        out = plan_of(variant, "cortex-m4").emit(tmp_path / variant)
        run("cppcheck", "--enable=warning,performance,portability", "--std=c99", "--error-exitcode=1", "--quiet",
            "--max-configs=64",
            *(path for path in sorted(out.glob("*.c")) if variant == "int8" or "weights" not in path.name))


FILE_NAMES = ["f2c", "f2c_quant", "stdint", "math", "example_main", "int", "class", "clean", "all", "日本", "a b", "-o",
              "1st", "x" * 120, "Übung*", "back\\slash", "*", "new\nline", "%s", "model"]


@pytest.mark.parametrize("name", FILE_NAMES)
def test_any_file_name_gives_a_project_that_builds(name: str, tmp_path: Path) -> None:
    needs("make", "gcc", "g++")
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(broken.model([broken.node("Sigmoid", "x")]).SerializeToString())
    out = fuse2c.plan(path).emit(tmp_path / "out")
    run("make", "-C", out, "example", "CC=gcc", "CFLAGS=-O1 -Wpedantic")
    assert len(run(out / "example").splitlines()) == 60
    (header,) = (p for p in out.glob("*.h") if "_run(" in p.read_text(encoding="utf-8"))
    run("g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", header)


NAMES = ["int", "class", "new", "main", "printf", "é", "日本語", "a" * 3000, "a" * 3000 + "b", "a b", "a.b", "a-b",
         "A B", "*/", "/* x", "\\", "??/", "a\nb", "1x", "_x", "n", "arena", "bytes", "i", "status", "trace", "at",
         "linux", "remove", "stdin", "int8_t", "f2c_relu", "m_01_neg", "m_run", "m_arena", "NULL", "\x1b[31m", "y", "r1",
         "acc", "more", "malloc", "F2C_ALIGN", "in_x", "%d", "\"", "'", "#define x", "//", "0"]


@pytest.mark.parametrize("arena", ["static", "caller"])
def test_names_of_tensors_and_nodes_are_harmless(arena: str, tmp_path: Path) -> None:
    nodes = [broken.node("Neg", "x", "y", name=name) for name in NAMES]
    for node, name in zip(nodes, NAMES, strict=True):
        node.input[:], node.output[:] = [name], [f"{name}#"]
    last = broken.node("Concat", "x", "all", axis=1, name="*/ int oops; /* \\")
    last.input[:] = NAMES
    more = broken.node("Sin", "all", "sine", name="??/\n")
    m = broken.model([*nodes, last, more, broken.node("Tanh", "sine", "tanh")],
                     inputs={name: (1, 3) for name in NAMES}, outputs=[*(f"{name}#" for name in NAMES), "all", "tanh"])
    c = compile_bytes(m.SerializeToString(), tmp_path, name="m", arena=arena)
    assert_c_is_reference(c)
    out = c.emit(tmp_path / "out")
    needs("make", "gcc", "g++")
    run("make", "-C", out, "CC=gcc", "CFLAGS=-O1 -Wpedantic -Wcomment -Wtrigraphs", "example")
    assert len(run(out / "example").splitlines()) == 3 * 3 * len(NAMES)
    run("g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", out / "m.h")


RELU = broken.node("Relu", "x")
EDGES: dict[str, onnx.ModelProto] = {
    "input as output": broken.model([RELU], outputs=("x", "y")),
    "input as only output": broken.model([], outputs=("x",)),
    "weight as output": broken.model([RELU], {"w": np.arange(6, dtype=np.float32)}, outputs=("w", "y")),
    "weight as only output": broken.model([], {"y": np.arange(6, dtype=np.float32)}),
    "output twice": broken.model([RELU], outputs=("y", "y")),
    "input twice as output": broken.model([RELU], outputs=("x", "x", "y")),
    "unused input": broken.model([RELU], inputs={"unused": (7, 2), "x": broken.IMAGE}),
    "no input": broken.model([broken.node("Relu", "w")], {"w": np.arange(-3, 4, dtype=np.float32)}, inputs={}),
    "scalar input": broken.model([broken.node("Add", "x z")], inputs={"x": (), "z": (2, 3)}),
    "only scalars": broken.model([broken.node("Add", "x x")], inputs={"x": ()}),
    "inner tensor as output": broken.model([broken.node("Relu", "x", "a"), broken.node("Neg", "a")],
                                           outputs=("a", "y")),
    "view as output": broken.model([broken.node("Flatten", "x", "a"), broken.node("Neg", "a")], outputs=("a", "y")),
    "two views as outputs": broken.model([broken.node("Flatten", "x", "a"), broken.node("Flatten", "x", axis=2)],
                                         outputs=("a", "y")),
    "initialiser that is an input": broken.model(
        [broken.node("Add", "x w")], {"w": np.ones(4, np.float32)}, inputs={"x": broken.IMAGE, "w": (4,)}),
    "empty constant": broken.model([broken.node("Concat", "x e", axis=1)], {"e": np.zeros((1, 0, 5, 4), np.float32)}),
    "half weights behind a cast": broken.model(
        [broken.node("Cast", "w", "v", to=1), broken.node("Add", "x v")], {"w": np.arange(4, dtype=np.float16)}),
    "batch without a size": broken.model([RELU], inputs={"x": (None, 3)}),
    "dead branch": broken.model([RELU, broken.node("Sin", "x", "dead", name="dead")]),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
def test_graphs_at_the_edge_work(edge: str, fuse: bool, tmp_path: Path) -> None:
    c = compile_bytes(EDGES[edge].SerializeToString(), tmp_path, fuse=fuse)
    assert len(c.plan.graph.outputs) == len(EDGES[edge].graph.output)
    rows = samples(c.plan)
    assert_c_is_reference(c, rows)
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the model, is not installed")
    try:
        session = ort.InferenceSession(EDGES[edge].SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as e:
        pytest.skip(f"onnxruntime refuses the model: {str(e).splitlines()[0]}")
    used = {i.name for i in session.get_inputs()}
    with HostModel(c.plan) as host:
        got = list(host.run(rows[0]).values())
    want = session.run(None, {k: v for k, v in rows[0].items() if k in used})
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b.reshape(a.shape), rtol=1e-6)
