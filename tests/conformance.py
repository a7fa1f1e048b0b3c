"""Runs ONNX's backend test suite through fuse2c: import, plan, C, one compile for many cases, run, compare.

Every case ends in exactly one of: passed; out of scope, with a reason of a closed list; failed, with what went wrong.
"""
from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cffi
import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

import fuse2c
from fuse2c import toolchain
from fuse2c.codegen import project
from fuse2c.errors import Fuse2cError, UnsupportedOp
from fuse2c.ir.types import CTYPE, pack, unpack
from fuse2c.names import identifier
from fuse2c.plan import Plan

RESULTS = Path(__file__).parent / "conformance_results.txt"     # written by scripts/conformance.py
BOUND = ", parameters bound"
BATCH = 40              # cases of one compile
KINDS = ("simple", "pytorch-converted", "pytorch-operator")
IN_SCOPE = {"bool", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
            "uint64", "float16", "bfloat16", "float", "double"}
REASONS = {
    "training": frozenset({"Adagrad", "Adam", "Momentum", "Gradient"}),
    "random": frozenset({"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                         "Multinomial"}),
    "image decoding": frozenset({"ImageDecoder"}),
    "strings": frozenset({"StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"}),
}


@dataclass(frozen=True)
class Case:
    """One test of the suite: a model, sets of inputs and outputs, tolerances."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: tuple[tuple[list[object], list[object]], ...]
    rtol: float
    atol: float

    @property
    def ops(self) -> tuple[str, ...]:
        """Operators of the model."""
        return tuple(sorted({n.op_type for n in self.model.graph.node}))


@dataclass
class Result:
    """How a case ended: "passed", "out of scope" or "failed", and why; inputs that had to be bound as constants."""

    status: str
    reason: str = ""
    bound: tuple[str, ...] = ()


class Recorded(NamedTuple):
    """A line of the list of results."""

    kind: str
    operator: str
    result: str

    @property
    def passed(self) -> bool:
        """Whether the case passed."""
        return self.result in ("passed", f"passed{BOUND}")


def recorded() -> dict[str, Recorded]:
    """The list of results by case name."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines()[1:] if RESULTS.exists() else []
    return {name: Recorded(*rest) for name, *rest in (line.split("\t") for line in lines)}


def recorded_with() -> str:
    """The version of onnx whose cases are on the list of results."""
    return RESULTS.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# onnx ")


@dataclass
class Built:
    """A planned case, waiting for its batch to be compiled."""

    case: Case
    plan: Plan
    name: str
    values: list[dict[str, np.ndarray]]
    files: dict[str, str]
    bound: tuple[str, ...] = field(default=())


@cache
def cases() -> tuple[Case, ...]:
    """All cases of the installed onnx, in a fixed order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        from onnx.backend.test.loader import load_model_tests
        found = [Case(c.name, "node", c.model, tuple(c.data_sets), c.rtol, c.atol) for c in collect_testcases(None)]
        for kind in KINDS:
            found += [_from_files(c, kind) for c in load_model_tests(kind=kind)]
    return tuple(found)


def _from_files(c: object, kind: str) -> Case:
    folder = Path(c.model_dir)                                              # type: ignore[attr-defined]
    model = onnx.load(folder / "model.onnx")
    data = []
    for number in range(len(list(folder.glob("test_data_set_*")))):
        part = folder / f"test_data_set_{number}"
        data.append(tuple([_value(p, i) for i, p in enumerate(_numbered(part, side))] for side in ("input", "output")))
    return Case(c.name, kind, model, tuple(data), c.rtol, c.atol)           # type: ignore[attr-defined]


def _numbered(folder: Path, side: str) -> list[Path]:
    count = len(list(folder.glob(f"{side}_*.pb")))
    return [folder / f"{side}_{i}.pb" for i in range(count)]


def _value(path: Path, _: int) -> object:
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(tensor)
    except Exception:           # sequences and optionals: out of scope, told by the model's types
        return None


def out_of_scope(case: Case) -> str:
    """A reason of the closed list, or ""."""
    graph = case.model.graph
    for reason, ops in REASONS.items():
        if any(op in ops for op in case.ops):
            return reason
    for value in (*graph.input, *graph.output):
        kind = value.type.WhichOneof("value")
        if kind in ("sequence_type", "optional_type", "map_type"):
            return "sequences and optionals"
    types = {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)} | {t.data_type for t in graph.initializer}
    for node in graph.node:
        types |= {a.i for a in node.attribute if a.name in ("to", "output_dtype", "dtype")} - {0}
        types |= {a.t.data_type for a in node.attribute if a.HasField("t")}
    for code in sorted(types):
        name = onnx.TensorProto.DataType.Name(code).lower() if code in onnx.TensorProto.DataType.values() else "?"
        if name == "string":
            return "strings"
        if name.startswith(("float8", "float4")):
            return "float8 and float4"
        if name.startswith("complex"):
            return "complex numbers"
    if any(op.startswith(("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")) for op in case.ops):
        return "sequences and optionals"
    return ""


def run(selected: Sequence[Case], progress: object = None) -> dict[str, Result]:
    """Results by case name."""
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
        for start in range(0, len(selected), BATCH):
            built = []
            for i, case in enumerate(selected[start:start + BATCH], start):
                found = _plan(case, Path(folder), f"c{i:04}")
                if isinstance(found, Built):
                    built.append(found)
                else:
                    results[case.name] = found
            results |= _batch(built, Path(folder))
            if callable(progress):
                progress(min(start + BATCH, len(selected)))
    return results


def _plan(case: Case, folder: Path, name: str) -> Built | Result:
    """Import and plan; inputs that must be constants are bound to the case's values."""
    reason = out_of_scope(case)
    if reason:
        return Result("out of scope", reason)
    names = [v.name for v in case.model.graph.input if v.name not in {t.name for t in case.model.graph.initializer}]
    values = [dict(zip(names, map(_array, inputs), strict=False)) for inputs, _ in case.data]
    path = folder / "case.onnx"
    path.write_bytes(case.model.SerializeToString())
    bind: dict[str, np.ndarray] = {}
    while True:
        try:
            plan = fuse2c.plan(path, bind=bind, name=name).plan
            return Built(case, plan, identifier(name), values, project.files(plan), tuple(bind))
        except UnsupportedOp as e:
            new = [t for t in e.constants if t in values[0] and t not in bind]
            if not new or any(not np.array_equal(v[t], values[0][t]) for v in values for t in new):
                return Result("failed", f"unsupported: {' '.join(e.detail) or e.args[0]}")
            bind |= {t: values[0][t] for t in new}
        except Fuse2cError as e:
            return Result("failed", f"{type(e).__name__}: {e.args[0]}")
        except Exception as e:
            return Result("failed", f"crash: {type(e).__name__}: {e}")


def _array(value: object) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def _batch(built: list[Built], folder: Path) -> dict[str, Result]:
    """Compile all, or where that fails halves, and run."""
    if not built:
        return {}
    try:
        library = _compile(built, folder)
    except Fuse2cError as e:
        if len(built) == 1:
            return {built[0].case.name: Result("failed", "C does not compile: " + str(e).splitlines()[-1])}
        except_first, half = built, len(built) // 2
        return _batch(except_first[:half], folder) | _batch(except_first[half:], folder)
    return {b.case.name: _compare(b, library) for b in built}


def _compile(built: list[Built], folder: Path) -> tuple[cffi.FFI, object]:
    """One shared library of all models."""
    root = Path(tempfile.mkdtemp(dir=folder))
    lines, declarations = [], []
    for b in built:
        for file, text in b.files.items():
            if file.endswith((".c", ".h")) and file != "example_main.c":
                (root / file).write_text(text, encoding="utf-8")
        lines += [f'#include "{b.name}_weights.c"', f'#include "{b.name}.c"']
        g = b.plan.graph
        params = [f"const {CTYPE[g.type(t).dtype]} *" for t in g.inputs] + [f"{CTYPE[g.type(t).dtype]} *" for t in g.outputs]
        declarations.append(f"int {b.name}_run({', '.join(params)});")
    (root / "all.c").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tools = toolchain.host()
    toolchain.run([tools.cc, *toolchain.WARNINGS, "-O0", "-ffp-contract=off", "-shared", "-fPIC", str(root / "all.c"),
                   "-lm", "-o", str(root / "all.so")], "the batch does not compile")
    ffi = cffi.FFI()
    ffi.cdef("\n".join(declarations))
    return ffi, ffi.dlopen(str(root / "all.so"))


def _compare(b: Built, library: tuple[cffi.FFI, object]) -> Result:
    """Run every data set of a case and compare with what the suite expects."""
    ffi, code = library
    g = b.plan.graph
    for values, (_, wanted) in zip(b.values, b.case.data, strict=True):
        sources = [pack(np.ascontiguousarray(values[t]), g.type(t)) for t in g.inputs]
        results = [np.zeros(max(g.type(t).count, 1), g.type(t).dtype.numpy) for t in g.outputs]
        pointers = [ffi.cast(f"{CTYPE[g.type(t).dtype]} *", a.ctypes.data)
                    for t, a in zip(g.inputs + g.outputs, sources + results, strict=True)]
        getattr(code, f"{b.name}_run")(*pointers)
        got = [unpack(a[:g.type(t).count], g.type(t)) for t, a in zip(g.outputs, results, strict=True)]
        for i, want in enumerate(map(_array, wanted)):
            why = _differs(got, i, want, b.case)
            if why:
                return Result("failed", f"output {i}: {why}", b.bound)
    return Result("passed", "", b.bound)


def _differs(got: list[np.ndarray], i: int, want: np.ndarray, case: Case) -> str:
    if i >= len(got):
        return "missing"
    have = got[i]
    if have.dtype != want.dtype:
        return f"type {have.dtype}, want {want.dtype}"
    if have.shape != want.shape:
        # A data-dependent size: a buffer of the largest size, whose beginning is the result.
        if have.ndim != want.ndim or any(h < w for h, w in zip(have.shape, want.shape, strict=True)):
            return f"shape {have.shape}, want {want.shape}"
        have = have[tuple(slice(0, n) for n in want.shape)]
    if want.dtype.kind == "f" or want.dtype == ml_dtypes.bfloat16:
        same = np.allclose(have.astype(np.float64), want.astype(np.float64), case.rtol, case.atol, equal_nan=True)
        return "" if same else "values differ"
    return "" if np.array_equal(have, want) else "values differ"


def chunks(count: int) -> Iterator[list[Case]]:
    """The cases dealt out to `count` equal parts."""
    every = cases()
    for i in range(count):
        yield list(every[i::count])


def compiler() -> bool:
    """Whether there is a host compiler."""
    try:
        return subprocess.run([toolchain.host().cc, "--version"], capture_output=True, check=False).returncode == 0
    except Fuse2cError:
        return False
