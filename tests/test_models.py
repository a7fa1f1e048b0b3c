"""Real models, as their publishers and converters left them: right on the host, in QEMU and under sanitizers, and as
small and fast as promised. They are not part of the project: they are looked for in ../shared/models.

Each model runs on an emulated Cortex-M4, the int8 ones on all four cores that QEMU knows; --all-models adds the rest
(float32 without an FPU takes 1e9 instructions). Every build is under -Werror.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from partitions import layered, partitioned, random_groups, streamed, unscheduled

import fuse2c
from fuse2c import check as checking
from fuse2c import report, toolchain
from fuse2c.bench import BenchResult
from fuse2c.codegen import project
from fuse2c.measure import qemu
from fuse2c.names import identifier
from fuse2c.plan import Step

ROOT = Path(__file__).parents[1]
FOLDER = ROOT.parent / "shared" / "models"
if not FOLDER.is_dir():
    pytest.skip(f"the models are not there: no folder {FOLDER.relative_to(ROOT.parent)} beside the checkout",
                allow_module_level=True)

FLOAT = ["ad_fp32", "kws_fp32", "ic_fp32", "vww_fp32"]
INT8 = ["ad_int8", "kws_int8", "ic_int8", "vww_int8", "micro_speech_int8", "mcunet_vww_int8"]
CORES = ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"]
EMULATED = ["cortex-m3", "cortex-m7", "cortex-m55"]       # and cortex-m4, where the figures are measured
USUAL = {(name, core) for name in INT8 for core in EMULATED} | {
    ("ad_fp32", "cortex-m3"), ("ad_fp32", "cortex-m7"), ("kws_fp32", "cortex-m7"), ("kws_fp32", "cortex-m55")}

SAMPLES = 3
ORT_SHARE = 1e-4            # of all elements that may differ from onnxruntime's on the same layer input
# On a Cortex-M4 with -O3: instructions and kernel calls of one inference, bytes of the arena.
LIMITS = {
    "ad_fp32": (1_430_000, 1, 1_200), "kws_fp32": (9_000_000, 1, 20_000), "ic_fp32": (37_000_000, 1, 56_000),
    "vww_fp32": (25_000_000, 18, 55_000), "ad_int8": (280_000, 1, 800), "kws_int8": (3_000_000, 1, 5_600),
    "ic_int8": (11_600_000, 1, 17_000), "vww_int8": (8_500_000, 18, 13_600), "mcunet_vww_int8": (15_000_000, 26, 16_400),
}
HELIUM = {"ad_int8": 55_000, "kws_int8": 900_000, "ic_int8": 2_500_000, "vww_int8": 2_300_000, "micro_speech_int8": 200_000,
          "mcunet_vww_int8": 4_200_000}       # instructions on a Cortex-M55 with -O3
# Arena and stack with --optimize ram, bytes; and how many more instructions that may take.
SMALL = {"ad_int8": (800, 1.1), "kws_int8": (6_000, 1.05), "ic_int8": (13_400, 1.1), "vww_int8": (14_000, 1.05),
         "mcunet_vww_int8": (17_000, 1.05)}

needs_gcc = pytest.mark.skipif(not shutil.which(toolchain.ARM_GCC), reason=f"{toolchain.ARM_GCC} is not installed")
needs_qemu = pytest.mark.skipif(not shutil.which(qemu.QEMU) or not shutil.which(toolchain.ARM_GCC),
                                reason=f"{qemu.QEMU} or {toolchain.ARM_GCC} is not installed")
every_model = pytest.mark.parametrize("name", FLOAT + INT8)


def compiled(name: str, target: str = "host", fuse: bool = True) -> fuse2c.Compiled:
    return fuse2c.plan(FOLDER / f"{name}.onnx", target=target, fuse=fuse)


def test_every_model_is_tested() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.onnx")) == sorted(FLOAT + INT8)


def steps_allowed(step: Step) -> int:
    """Of int8, against onnxruntime: one for a tie; two where a sum follows in the same kernel, which adds its own."""
    return 2 if "Add" in [node.op for node in step.node.parts[1:]] else 1


@every_model
def test_host_equals_reference_and_onnxruntime(name: str) -> None:
    model = compiled(name)
    result = model.check(count=SAMPLES)
    assert result.samples == SAMPLES and result.reference.elements > 0
    assert result.reference.differing == 0, result.reference.first
    if not result.ort_steps:
        pytest.skip(f"equal to the reference, but not compared with onnxruntime: {result.ort_note}")
    # Channels are gone in these.
    cut = [s for s in model.plan.steps if any(t.endswith(".kept") for t in (*s.node.inputs, *s.node.outputs))]
    assert len(result.ort_steps) >= len(model.plan.steps) - len(cut) - 2, "onnxruntime was asked about hardly any layer"
    for step in model.plan.steps:
        if (found := result.ort_steps.get(step.function)) is None:
            continue
        if model.plan.graph.type(step.node.outputs[0]).dtype.is_float:
            assert found.differing == 0, f"{step.function}: {found.first}"
        else:
            assert found.worst <= steps_allowed(step), f"{step.function}: {found.first}"
    assert result.ort_layers.differing <= ORT_SHARE * result.ort_layers.elements
    if name in FLOAT:
        assert result.ort_outputs is not None and result.ort_outputs.differing == 0, result.ort_outputs


@every_model
def test_unfused_equals_reference(name: str) -> None:
    model = compiled(name, fuse=False)
    assert model.plan.launches > compiled(name).plan.launches
    result = checking.check(model.plan, checking.random_samples(model.plan, 1, seed=1))
    assert result.reference.elements > 0 and result.reference.differing == 0, result.reference.first


@every_model
def test_streamed_equals_reference(name: str) -> None:
    """--optimize ram: rows of several kernels alternate, and the arena is no larger for it."""
    model = fuse2c.plan(FOLDER / f"{name}.onnx", target="host", optimize="ram")
    assert model.plan.arena_bytes <= compiled(name).plan.arena_bytes
    result = checking.check(model.plan, checking.random_samples(model.plan, 1, seed=3))
    assert result.reference.elements > 0 and result.reference.differing == 0, result.reference.first


@pytest.mark.parametrize("name", INT8)
def test_partitions_change_no_byte_and_no_work(name: str) -> None:
    """Layer by layer, as many rows in turn as possible, and two random partitions into groups."""
    plan = unscheduled(FOLDER / f"{name}.onnx")
    plans = [layered(plan), streamed(plan), *(partitioned(plan, random_groups(plan, seed)) for seed in (1, 2))]
    sample, found = checking.random_samples(plan, 1, seed=4)[0], []
    for each in plans:
        with checking.HostModel(each, count=True) as host:
            outputs = b"".join(value.tobytes() for value in host.run(sample).values())
            counts = {what: n for what, n in host.counted().items() if what in ("macs", "launches", "calls")}
        assert counts == {"macs": each.macs, "launches": each.launches, "calls": each.call_count}
        found.append((outputs, counts["macs"]))
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", ["kws_int8", "ic_int8", "vww_int8", "mcunet_vww_int8"])
def test_pushed_rows_equal_the_whole_input(name: str) -> None:
    """--input-rows: the input is kept as a ring, and the arena is hardly larger than without it."""
    plain, pushed = (fuse2c.plan(FOLDER / f"{name}.onnx", input_rows=rows, optimize="ram") for rows in (False, True))
    sample = checking.random_samples(plain.plan, 1, seed=5)[0]
    with checking.HostModel(plain.plan) as one, checking.HostModel(pushed.plan) as other:
        want, got = one.run(sample), other.run(sample)
    assert all(np.array_equal(want[t], got[t]) for t in want)
    told = report.pushed(pushed.plan)
    assert told is not None and pushed.plan.arena_bytes <= plain.plan.arena_bytes + told["bytes"] + 64 * told["kept"]


SEEDS = ("1", "10", "12")       # of Python's hashes: sets of tensors came out in different orders
BYTES = """
import hashlib, sys
from pathlib import Path
import fuse2c
from fuse2c.codegen import project
for name in sys.argv[1:]:
    for optimize in ("cycles", "ram"):
        files = project.files(fuse2c.plan(name, target="cortex-m4", optimize=optimize).plan)
        print(Path(name).stem, optimize, hashlib.sha256("".join(files.values()).encode()).hexdigest())
"""


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    models = [str(FOLDER / f"{name}.onnx") for name in FLOAT + INT8]
    found = [subprocess.run([sys.executable, "-c", BYTES, *models], capture_output=True, text=True, check=True,
                            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}).stdout.splitlines()
             for seed in SEEDS]
    assert len(found[0]) == 2 * len(models)
    assert sorted(set().union(*found)) == sorted(found[0])


@every_model
def test_sanitizers_find_nothing(name: str) -> None:
    plan = compiled(name).plan
    samples = checking.random_samples(plan, 1, seed=2)
    with checking.HostModel(plan) as host:
        for row, got in zip(samples, checking.sanitized(plan, samples), strict=True):
            for tensor, want in host.run(row).items():
                exact = want.dtype.kind != "f"
                bound = 0.0 if exact else 1e-5 * max(1.0, float(np.abs(want).max()))
                assert checking.difference(got[tensor], want, bound).differing == 0, tensor


def test_a_wrong_weight_is_found() -> None:
    """The comparison bites: one weight of one kernel wrong, and only that kernel is reported."""
    plan = compiled("micro_speech_int8").plan
    at = next(i for i, step in enumerate(plan.steps) if "w" in step.spec.tables)
    broken = plan.steps[at].spec.tables["w"].copy()
    broken[0] ^= 0x40
    spec = replace(plan.steps[at].spec, tables={**plan.steps[at].spec.tables, "w": broken})
    steps = tuple(replace(step, spec=spec) if i == at else step for i, step in enumerate(plan.steps))
    result = checking.check(replace(plan, steps=steps), checking.random_samples(plan, 1))
    assert [function for function, d in result.steps.items() if d.differing] == [plan.steps[at].function]


@needs_gcc
@pytest.mark.parametrize(("name", "core"), [(n, c) for n in FLOAT + INT8 for c in CORES
                                            if c != "cortex-m4" and (n, c) not in USUAL])
def test_cross_compiles(name: str, core: str, tmp_path: Path) -> None:
    """Where the other tests do not build and run it anyway."""
    plan = compiled(name, core).plan
    tools = toolchain.cross(plan.target.processor.cflags)
    folder = project.write(plan, tmp_path / "model")
    objects = toolchain.compile_model(tools, folder, identifier(plan.graph.name), tmp_path / "objects")
    assert len(objects) == 2 and all(path.stat().st_size > 0 for path in objects)


@needs_qemu
@pytest.mark.parametrize(("name", "core"), [(n, c) for n in FLOAT + INT8 for c in EMULATED])
def test_runs_in_qemu(name: str, core: str, request: pytest.FixtureRequest) -> None:
    """Bit for bit what the same C gives on this computer (integers), or the same up to rounding (floats)."""
    if (name, core) not in USUAL and not request.config.getoption("--all-models"):
        pytest.skip("left out to save time: run with --all-models")
    result = compiled(name, core).bench(opt="-O2")
    assert result.mismatches == 0 and result.instructions is not None and result.instructions > result.macs / 16


@needs_qemu
@every_model
def test_figures_on_cortex_m4(name: str) -> None:
    """Every launch, byte and instruction is accounted for, within the limits, and no worse than the README says."""
    result = compiled(name, "cortex-m4").bench()
    assert result.mismatches == 0 and result.instructions is not None
    assert result.ram_bytes["static"] == 0 and 0 < result.ram_bytes["stack"] < 1024
    assert result.intermediate_bytes < result.intermediate_bytes_unfused and result.launches < result.launches_unfused
    if name in LIMITS:
        instructions, launches, arena = LIMITS[name]
        assert result.instructions < instructions
        assert result.launches <= launches
        assert arena is None or result.ram_bytes["arena"] <= arena
    if name in SMALL:
        total, more = SMALL[name]
        small = fuse2c.plan(FOLDER / f"{name}.onnx", target="cortex-m4", optimize="ram").bench()
        assert small.ram_bytes["total"] <= total and (small.instructions or 0) <= more * result.instructions
    _compare_with_readme(result)


@needs_qemu
@pytest.mark.parametrize("name", HELIUM)
def test_instructions_on_cortex_m55(name: str) -> None:
    """With the kernels for Helium."""
    result = compiled(name, "cortex-m55").bench()
    assert result.mismatches == 0 and result.instructions is not None and result.instructions < HELIUM[name]


def _compare_with_readme(result: BenchResult) -> None:
    """The row of the README's table: equal where the compiler has no say, no worse where it is the same compiler."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{result.model.removesuffix('.onnx')}` \|(.*)\|$", text, re.M)
    assert row, f"the README has no row for {result.model}"
    launches, intermediates, arena, weights, code, stack, instructions, small_arena, _ = (
        float(cell.replace(",", "").split()[-1]) for cell in row[1].split("|"))
    assert (result.launches, result.intermediate_bytes) == (launches, intermediates)
    assert (result.ram_bytes["arena"], result.flash_bytes["weights"]) == (arena, weights)
    small = fuse2c.plan(FOLDER / result.model, target="cortex-m4", optimize="ram").plan
    assert small.arena_bytes == small_arena
    if result.compiler in text:
        assert result.flash_bytes["code"] <= code and result.ram_bytes["stack"] <= stack
        assert result.instructions / 1e6 <= instructions + 0.005
