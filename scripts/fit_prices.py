"""Fits the kernels' prices of a core's target file to exact instruction counts, by kernel family.

    python scripts/fit_prices.py -t cortex-m4 -t cortex-m55 MODEL...     rewrites [price.*] of these targets
    python scripts/fit_prices.py --check -t cortex-m4 MODEL...           only says how far the prices are off
    python scripts/fit_prices.py --cache FOLDER ...                      keeps what was found of C that has not changed

Each model is planned layer by layer, so that every step is a C function; `fuse2c.wcet` says what each takes (exactly,
where the code has one path). To the given models come small ones of random layers (price_models.py). The coefficients are
those with the least largest relative error, none below zero. The bytes of code of a family are the mean of its functions.
Of random models with pruned weights, all kernels that are offered for zeros are taken, whether they pay or not.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import price_models
from scipy.optimize import linprog

from fuse2c import bench, fission, frontend, price, target, toolchain
from fuse2c.calibrate import with_prices
from fuse2c.codegen import project
from fuse2c.codegen.folder import MANIFEST
from fuse2c.errors import Fuse2cError, Refused
from fuse2c.measure import elf
from fuse2c.names import identifier
from fuse2c.op import EFFORT
from fuse2c.ops import all_ops
from fuse2c.options import Options
from fuse2c.passes import _rows, _units, place, select, stream
from fuse2c.pipeline import PIPELINE
from fuse2c.plan import Plan, Step
from fuse2c.target import Price

# How each model is planned: so that there are steps of all kernels.
WAYS: tuple[Mapping[str, Any], ...] = ({}, {"fuse": False}, {"winograd": "auto"})
OFFERS = ("blocks", "zeros")        # what kernels of pruned models are offered for, planned for each
BY_OPERATOR = ("elementwise", "elementwise_mve")      # kernels whose prices differ by the operator that they end with
BY_END = ("DequantizeLinear",)      # what ends a kernel so that it finishes elements one by one
UNLIMITED = 2 ** 40
TILES = (1, 2, 3, 4, 6, 8)
MOST, MOST_OF_OTHERS = {"call": 2000, "row": 300, "pixel": 300}, 100      # instructions: beyond that it is no price,
SOFTWARE = 20                   # or, with floats in software, beyond so many times that
OTHERS = 0.3                    # the weight of steps of random models, and of unfused plans
OF_A_STEP = 60                  # instructions of a call of <name>_step around the row itself
OWN = EFFORT[:4]                # what kernels say that say what they do, all of it
FEW = 6                         # different steps from which on all counts are fitted
# share of instructions from which a step counts in full (tests: 0.01 of plans with fewer instructions); the weight of others
MATTERS, LIGHT = 0.007, 0.1
SHORT = 6000                    # instructions up to which a step of a drawn model counts little: its loops are unrolled


@dataclass(frozen=True)
class Sample:
    """One step of a model and what it takes."""

    model: str
    plan: Plan
    step: Step
    instructions: int
    cycles: int | None
    code: int                   # bytes of its functions
    share: float                # of the model's instructions
    given: bool                 # of the fused plan of a model that was named


def layered(path: Path, name: str, settings: Mapping[str, Any], offer: str = "") -> Plan:
    """The model with each step a function of its own, run as a whole; `offer`: with all kernels that are offered for that."""
    options = Options(share_kernels="never", **settings)
    board = target.load(name).limited(UNLIMITED, UNLIMITED)
    plan = Plan(frontend.load(path, options), board, options)
    for stage in PIPELINE:
        if stage.name == "stream":
            break
        plan = stage.run(plan)
        if offer and stage.name == "trade":
            plan = replace(plan, steps=tuple(offered(plan, s, offer) for s in plan.steps))
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    return place.run(stream.scheduled(plan, steps, [range(i, i + 1) for i in range(len(steps))]))


def offered(plan: Plan, step: Step, offer: str) -> Step:
    """The step with the most special kernel that is offered for something; itself if there is none."""
    call, processor = select.anchor_call(plan, step.node), plan.target.processors[step.processor].processor
    for kernel in all_ops()[step.node.op].kernels:
        if kernel.offer == offer and not select.refuse(kernel, processor, call):
            return select.served(plan, step, kernel, call)
    return step


def samples(paths: Iterable[Path], name: str, ways: Iterable[Mapping[str, Any]] = WAYS, cache: Path | None = None) -> Iterable[
        Sample]:
    """Every step of the models, planned in each way; what the analysis refuses is said and left out."""
    of_pruned = [(dict[str, Any](), offer) for offer in OFFERS]
    planned = ((path, *way) for path in paths
               for way in (of_pruned if path.stem.startswith(price_models.PRUNED) else [(w, "") for w in ways]))
    for path, settings, offer in planned:
        plan = layered(path, name, settings, offer)
        try:
            result = counted(plan, cache)
        except Fuse2cError as error:
            print(f"{path.name} on {name} left out: {error.args[0]}", file=sys.stderr)
            continue
        for step in plan.steps:
            if step.function in result["kernels"] and offer in ("", step.kernel.offer):
                row = result["kernels"][step.function]
                if step.spec.most and "measured" in row:
                    continue        # measured with some data, which says nothing about the worst case
                yield Sample(path.stem, plan, step, row["instructions"] * step.launches,
                             None if row["cycles"] is None else row["cycles"] * step.launches, row["code"],
                             row["instructions"] * step.launches / result["instructions"],
                             settings.get("fuse", True) and not path.stem.startswith(price_models.DRAWN))


def counted(plan: Plan, cache: Path | None) -> dict[str, Any]:
    """Instructions of the plan, and of each kernel: instructions, cycles, bytes of code. From `cache` for the same C."""
    with tempfile.TemporaryDirectory() as folder:
        root, name = project.write(plan, Path(folder) / "model"), identifier(plan.graph.name)
        flags = plan.target.processor.cflags
        # what depends on the data has to be analysed: its price is that of the worst case
        measure = any(price.in_software(plan, s) for s in plan.steps) and not any(s.spec.most for s in plan.steps)
        digest = hashlib.sha256(f"{bench.compiler(plan)} {flags} {'measured' * measure}".encode())
        digest.update((root / MANIFEST).read_bytes())
        kept = None if cache is None else cache / f"{digest.hexdigest()}.json"
        if kept is not None and kept.is_file():
            return cast(dict[str, Any], json.loads(kept.read_text()))
        kernels, total = measured(plan) if measure and plan.target.emulator else analysed(plan)
        sizes = functions(toolchain.compile_model(toolchain.cross(flags), root, name, Path(folder) / "objects", opt="-O3"))
    code = {f: sum(n for part, n in sizes.items() if re.match(rf"{f}(?!\d)", part)) for f in kernels}
    found = {"instructions": total, "kernels": {f: {**row, "code": code[f]} for f, row in kernels.items()}}
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return found


def analysed(plan: Plan) -> tuple[dict[str, dict[str, int | None]], int]:
    """(instructions and cycles of one call of each step's function, instructions of all), by analysis or, where that has no
    bound, by QEMU."""
    try:
        result = bench.worst_case(plan)
    except Refused as error:
        if plan.target.emulator is None:
            raise
        print(f"{plan.graph.name} is measured in QEMU: {error.args[0]}", file=sys.stderr)
        return measured(plan)
    return {k["name"]: {"instructions": k["instructions"], "cycles": k["cycles"]} for k in result.json()["kernels"]}, \
        result.instructions


def measured(plan: Plan) -> tuple[dict[str, dict[str, int | None]], int]:
    """The same by QEMU, without cycles: row by row, less what a row costs that does nothing. Of floats in software the worst
    case says little: they take a fifth of it."""
    options = replace(plan.options, step_budget=UNLIMITED, share_kernels="never")
    rows = fission.alone(place.run(replace(plan, options=options, target=plan.target)))
    took = [0] * len(plan.steps)
    for unit, instructions in zip(_units.units(rows), bench.measured(rows).steps, strict=True):
        took[unit.step] += max(instructions - OF_A_STEP, 0)
    return {s.function: {"instructions": n // max(s.launches, 1), "cycles": None, "measured": True}
            for s, n in zip(plan.steps, took, strict=True)}, sum(took)


def functions(objects: Iterable[Path]) -> dict[str, int]:
    """Bytes of every function in object files."""
    return {s.name: s.size for o in objects if not o.stem.endswith("_weights") for s in elf.read(o).symbols
            if s.section is not None and not s.section.writable and s.size}


def fitted(group: list[Sample]) -> Price:
    """The prices with the least largest relative error, and the tile that explains the counts best."""
    best: tuple[float, Price] | None = None
    usable, times = known_from(group), SOFTWARE if price.in_software(group[0].plan, group[0].step) else 1
    want = np.array([s.instructions for s in group], float)
    rest = 1 - np.array([price.of_functions(s.plan, s.step) for s in group]) / want
    weight = np.array([LIGHT if s.share <= MATTERS else 1.0 if s.given else OTHERS if s.instructions > SHORT else LIGHT
                       for s in group])
    for tile in TILES:
        rows = [price.counts(s.plan, s.step, tile) for s in group]
        found = np.array([[row[key] for key in price.COUNTS] for row in rows]) / want[:, None]
        scale = np.maximum(found.max(axis=0), 1e-12)
        most = np.array([MOST.get(key, MOST_OF_OTHERS) * (key in usable) for key in price.COUNTS]) * scale * times
        x, worst = minimax(found / scale, rest, weight, most)
        if best is None or worst < best[0] * (1 - 1e-3):
            values = {key: float(f"{v:.4g}") for key, v in zip(price.COUNTS, x / scale, strict=True)}
            best = worst, Price(**values, tile_of=tile)
    assert best is not None
    cycles = [s.cycles / s.instructions for s in group if s.cycles is not None]
    return replace(best[1], cpi_worst=round(max(cycles), 3) if cycles else 0.0,
                   code=float(round(np.mean([s.code for s in group if s.given] or [s.code for s in group]))))


def known_from(group: list[Sample]) -> tuple[str, ...]:
    """The counts that so many different steps can tell apart: few of them, and what matters most, from few steps."""
    different = len({s.instructions for s in group})
    if all(set(s.step.spec.effort) >= set(OWN) for s in group):
        return (*EFFORT, "alu", "output", "operand", "row", "call")      # the kernels say themselves what they do
    main = "mac" if any(s.step.work.macs for s in group) else "output"
    return price.COUNTS if different > FEW else (main, "output", "row") if different > 2 else (main,)


def family_of(s: Sample) -> str:
    """The name that its price is listed under."""
    finer, *_, family = price.families(s.plan, s.step)
    ends = s.step.node.parts[-1].op if len(s.step.node.parts) > 1 else ""
    return finer if s.step.kernel.name in BY_OPERATOR or ends in BY_END else family


def rare(group: list[Sample]) -> bool:
    """Whether so little is known of a family that the price which it has, from elsewhere, is as good."""
    return len({s.instructions for s in group}) <= FEW and not any(s.given and s.share > MATTERS for s in group)


def minimax(a: np.ndarray, b: np.ndarray, weight: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, float]:
    """x between 0 and `most` with the least largest weight * |a x - b|, and of those nearly the least mean error."""
    n, k = a.shape
    # Variables: x, the largest error, each error; the largest counts for as much as all the others.
    cost = np.concatenate([np.zeros(k), [1.0], np.full(n, 1.0 / n)])
    w = weight[:, None]
    top, single = np.ones((n, 1)), np.eye(n)
    upper = np.block([[w * a, -top, np.zeros((n, n))], [-w * a, -top, np.zeros((n, n))],
                      [w * a, 0 * top, -single], [-w * a, 0 * top, -single]])
    bound = np.concatenate([weight * b, -weight * b, weight * b, -weight * b])
    limits = [(0.0, float(m)) for m in most] + [(0.0, None)] * (n + 1)
    found = linprog(cost, A_ub=upper, b_ub=bound, bounds=limits, method="highs")
    return found.x[:k], float(found.x[k])


def error(s: Sample, p: Price) -> float:
    """Relative error of a price."""
    known = price.instructions(p, price.counts(s.plan, s.step, p.tile_of)) + price.of_functions(s.plan, s.step)
    return known / s.instructions - 1


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-t", "--target", action="append", required=True)
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--quick", action="store_true", help="fused plans of the named models only: for slow analyses")
    parser.add_argument("--only", action="append", metavar="KERNEL", help="fit only these families, and keep the other prices")
    parser.add_argument("--cache", type=Path, help="folder for counts; what has the same C is not analysed again")
    parser.add_argument("models", nargs="+", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fit(args.target, [*args.models, *(() if args.check or args.quick else price_models.write(Path(folder)))],
            args.check, WAYS[:1] if args.quick else WAYS, args.cache, args.only)


def fit(targets: list[str], models: list[Path], check: bool, ways: Iterable[Mapping[str, Any]], cache: Path | None,
        only: list[str] | None) -> None:
    """Says how far the prices of the targets are off; unless `check`, after fitting them."""
    for name in targets:
        groups: dict[str, list[Sample]] = {}
        for s in samples(models, name, ways, cache):
            family = family_of(s)
            if only is None or {family, s.step.kernel.name} & set(only):
                groups.setdefault(family, []).append(s)
        known = target.load(name).price
        prices = {k: known.get(k) if check or (k in known and rare(g)) else fitted(g) for k, g in sorted(groups.items())}
        for kernel, group in sorted(groups.items()):
            p = prices[kernel]
            errors = [] if p is None else [error(s, p) for s in group]
            count = [(abs(e), s.step.function) for e, s in zip(errors, group, strict=False) if s.share > MATTERS and s.given]
            worst = max(count, default=(0.0, "-"))
            print(f"{name} {kernel:20} {len(group):3} steps, worst error over 1 % {worst[0]:6.1%} ({worst[1]}), of all "
                  f"{max(map(abs, errors), default=0):6.1%}" + ("" if p else " no price"))
        if not check:
            path = target.path_of(name)
            merged = {k: p for k, p in (known | prices).items() if p is not None and k not in BY_OPERATOR}
            note = "measured: scripts/fit_prices.py: exact instruction counts of the machine code, arm-none-eabi-gcc 12.2 -O3"
            path.write_text(with_prices(path.read_text(encoding="utf-8"), merged, note), encoding="utf-8")


if __name__ == "__main__":
    main()
