"""Sweeps: one model on many targets with many options, in parallel, on this computer or on a Dask cluster; resumable."""
from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields
from pathlib import Path
from typing import Any

from fuse2c import flash, frontend, study, target
from fuse2c.errors import Fuse2cError, PlanError, ToolMissing, did_you_mean
from fuse2c.options import Options
from fuse2c.pipeline import compile_plan
from fuse2c.plan import Plan

RETRIES = 3         # of a task whose worker was lost
SWEPT = {f.name: f.type for f in fields(Options) if f.type in ("str", "bool", "int | None", "float | None", "str | None")}
"""The options that may be swept, with the types of their values."""


def tasks(model: Path, targets: Sequence[str], sweeps: Iterable[tuple[str, Sequence[Any]]]) -> list[dict[str, Any]]:
    """One task for each combination; a task is data, so that it can travel."""
    sweeps = list(sweeps)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    found = []
    for name in targets:
        target.load(name)       # a name that does not exist is said at once
        for values in itertools.product(*(values for _, values in sweeps)):
            found.append({"model": str(model), "sha256": digest, "target": name,
                          "options": dict(zip((key for key, _ in sweeps), values, strict=True))})
    return found


def sweep(text: str) -> tuple[str, list[Any]]:
    """Option and values of KEY=VALUE,...: ram=64000,32000 or fuse=true,false. Raises PlanError."""
    key, equals, values = text.partition("=")
    key = key.strip().replace("-", "_")
    if key not in SWEPT:
        raise PlanError(f"{key!r} is no option to sweep", hint=did_you_mean(key, SWEPT))
    if not equals or not values:
        raise PlanError(f"{text!r} is not KEY=VALUE,...")
    return key, [_value(key, v.strip()) for v in values.split(",")]


def _value(key: str, text: str) -> Any:
    kind = SWEPT[key]
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "int | None" and (text.isdecimal() or text == "none"):
        return None if text == "none" else int(text)
    if kind == "float | None":
        with contextlib.suppress(ValueError):
            return None if text == "none" else float(text)
    if kind.startswith("str"):
        return text
    expected = {"bool": "true or false", "float | None": "a number, or none"}.get(kind, "a whole number, or none")
    raise PlanError(f"{text!r} is no value of {key}", hint=expected)


def key_of(task: Mapping[str, Any]) -> str:
    """What a task is known by in a file of results: the model's content, not its place."""
    text = json.dumps([task["sha256"], task["target"], task["options"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(task: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of one task, or the error that prevents them."""
    found = {"key": key_of(task), "target": task["target"], "options": task["options"], "figures": None, "error": None}
    try:
        options = Options(**task["options"])
        board = target.load(task["target"]).limited(options.ram, options.flash)
        graph = frontend.load(Path(task["model"]), options)
        plan = flash.fitted(lambda board, options: compile_plan(Plan(graph, board, options)), board, options)
        found["figures"] = study.figures(plan)
    except Fuse2cError as error:
        found["error"] = error.args[0]
    return found


def local(todo: Sequence[Mapping[str, Any]], workers: int | None = None) -> Iterator[dict[str, Any]]:
    """Results as they come, from all cores of this computer. A worker's loss loses nothing: what is left runs again, by new
    ones. Raises PlanError after RETRIES losses without a result in between."""
    left, losses = {key_of(task): task for task in todo}, 0
    while left:
        try:
            with ProcessPoolExecutor(workers) as pool:
                for future in as_completed([pool.submit(run, task) for task in left.values()]):
                    result = future.result()
                    del left[result["key"]]
                    losses = 0
                    yield result
        except BrokenProcessPool:
            losses += 1
            if losses > RETRIES:
                raise PlanError(f"workers end before they have a result; {len(left)} plans are left",
                                hint="maybe memory is short: fewer --jobs") from None


def dask(todo: Sequence[Mapping[str, Any]], scheduler: str) -> Iterator[dict[str, Any]]:
    """Results as they come, from the workers of a Dask cluster that see the same files. A worker's loss loses nothing: its
    tasks run again elsewhere. Raises ToolMissing without the extra."""
    try:
        import distributed
    except ImportError as error:
        raise ToolMissing(f"a Dask cluster needs {error.name}", hint="pip install 'fuse2c[explore]'") from None
    with distributed.Client(scheduler) as client:
        futures = client.map(run, list(todo), pure=False, retries=RETRIES)
        for _, result in distributed.as_completed(futures, with_results=True):
            yield result


def resumed(todo: Sequence[Mapping[str, Any]], file: Path | None, execute: Callable[[Sequence[Mapping[str, Any]]],
            Iterator[dict[str, Any]]], done: Callable[[int, int], None] = lambda n, of: None) -> list[dict[str, Any]]:
    """All results, in the order of the tasks: those that `file` (a JSON object a line) has already, and the others run now.

    Each is appended to the file when it is there, so that an interrupted sweep goes on where it stopped.
    """
    known = _read(file) if file is not None and file.exists() else {}
    cut = file is not None and file.exists() and not file.read_bytes().endswith(b"\n")
    left = [task for task in todo if key_of(task) not in known]
    done(len(todo) - len(left), len(todo))
    for count, result in enumerate(execute(left) if left else (), len(todo) - len(left) + 1):
        known[result["key"]] = result
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write("\n" * cut + json.dumps(result) + "\n")
            cut = False
        done(count, len(todo))
    return [known[key_of(task)] for task in todo]


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Results by key; a last line that was cut off by an interruption does not count."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict) and "key" in row:
            found[row["key"]] = row
    return found


def label(result: Mapping[str, Any]) -> str:
    """What distinguishes a result from others, for people."""
    return " ".join([result["target"], *(f"{k}={v}" for k, v in result["options"].items() if v is not None)])


def unbeaten(results: Sequence[Mapping[str, Any]], x: str, y: str) -> set[str]:
    """Keys of the results for which no other has less of both figures."""
    have = [r for r in results if r["figures"] and r["figures"][x] is not None and r["figures"][y] is not None]
    return {r["key"] for r in have if not any(
        o["figures"][x] <= r["figures"][x] and o["figures"][y] <= r["figures"][y]
        and (o["figures"][x], o["figures"][y]) != (r["figures"][x], r["figures"][y]) for o in have)}
