"""`fuse2c explore` and `compare`: sweeps lose nothing, compute nothing twice, and say what beats what."""
from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fuse2c import explore
from fuse2c.cli import cli
from fuse2c.errors import PlanError

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples" / "digits" / "digits_int8.onnx"


def some_tasks() -> list[dict[str, Any]]:
    return explore.tasks(MODEL, ["cortex-m4", "rp2040"], [explore.sweep("optimize=cycles,ram"), explore.sweep("ram=none,1000")])


def in_turn(todo: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from map(explore.run, todo)


def test_a_sweep_is_every_combination() -> None:
    found = some_tasks()
    assert len(found) == 8 == len({explore.key_of(t) for t in found})
    assert found[3] == {**found[0], "options": {"optimize": "ram", "ram": 1000}}


def test_what_does_not_fit_is_a_result_too() -> None:
    found = explore.resumed(some_tasks(), None, in_turn)
    assert [r["error"] is None for r in found] == [True, False, True, False] * 2
    assert "bytes of" in found[1]["error"] and found[0]["figures"]["ram_bytes"] > 1000


def test_an_interrupted_sweep_goes_on(tmp_path: Path) -> None:
    file, ran = tmp_path / "results.jsonl", []

    def interrupted(todo: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for task in todo[:3]:
            ran.append(explore.key_of(task))
            yield explore.run(task)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore.resumed(some_tasks(), file, interrupted)
    with file.open("a") as out:
        out.write('{"key": "cut o')         # the machine went down in the middle of a line
    counts = []

    def rest(todo: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        ran.extend(explore.key_of(t) for t in todo)
        yield from in_turn(todo)

    found = explore.resumed(some_tasks(), file, rest, lambda n, of: counts.append((n, of)))
    assert ran == [explore.key_of(t) for t in some_tasks()] and counts[0] == (3, 8) and counts[-1] == (8, 8)
    assert found == explore.resumed(some_tasks(), None, in_turn) == explore.resumed(some_tasks(), file, in_turn)
    assert len(ran) == 8 and len(explore.resumed(some_tasks(), file, lambda t: pytest.fail("computed again"))) == 8


def test_processes_give_the_same() -> None:
    assert explore.resumed(some_tasks(), None, lambda t: explore.local(t, 2)) == explore.resumed(some_tasks(), None, in_turn)


def test_a_killed_process_loses_nothing() -> None:
    todo, killed = some_tasks(), list[int]()

    def done(n: int, of: int) -> None:
        if n == 2 and not killed:
            killed.append(multiprocessing.active_children()[0].pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    found = explore.resumed(todo, None, lambda t: explore.local(t, 1), done)
    assert killed and found == explore.resumed(todo, None, in_turn)


def test_processes_that_never_end_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "ProcessPoolExecutor", functools.partial(ProcessPoolExecutor, initializer=os._exit,
                                                                          initargs=(1,)))
    with pytest.raises(PlanError, match="8 plans are left"):
        list(explore.local(some_tasks(), 1))


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    todo = explore.tasks(MODEL, ["cortex-m4", "cortex-m0plus", "rp2040", "nrf52840-dk"],
                         [explore.sweep("optimize=cycles,ram,balanced"), explore.sweep("fuse=true,false")])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                                  local_directory=str(tmp_path)) as cluster:
        killed = threading.Event()

        def done(n: int, of: int) -> None:
            if n == 2:
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
                killed.set()

        found = explore.resumed(todo, None, lambda t: explore.dask(t, cluster.scheduler_address), done)
    assert killed.is_set() and found == explore.resumed(todo, None, in_turn)


def test_the_front_of_a_sweep() -> None:
    figures = [(1, 9), (2, 5), (3, 5), (4, 1), (4, None)]
    rows = [{"key": str(i), "figures": {"x": x, "y": y}} for i, (x, y) in enumerate(figures)]
    assert explore.unbeaten([*rows, {"key": "failed", "figures": None}], "x", "y") == {"0", "1", "3"}


def test_sweeps_of_limits_and_weights() -> None:
    assert explore.sweep("deadline-ms=2.5,none") == ("deadline_ms", [2.5, None])
    assert explore.sweep("optimize=cycles=1+ram=2,ram") == ("optimize", ["cycles=1+ram=2", "ram"])


@pytest.mark.parametrize("text, said", [("energy_uj=x", "a number, or none"),
                                        ("ramm=1", "did you mean 'ram'"), ("ram", "is not KEY=VALUE"),
                                        ("ram=x", "a whole number"), ("fuse=maybe", "true or false"),
                                        ("dims=1", "is no option to sweep")])
def test_a_sweep_that_is_none(text: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        explore.sweep(text)
    assert said in str(error.value)


def test_the_commands(tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    arguments = ["explore", str(MODEL), "--targets", "cortex-m4,rp2040", "--options", "optimize=cycles,ram", "--jobs", "1"]
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    done = CliRunner().invoke(cli, [*arguments, "--plot", str(plot), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert found["schema"] == "fuse2c-explore/1" and len(found["results"]) == 4
    assert any(r["unbeaten"] for r in found["results"]) and "rp2040" in plot.read_text()
    text = CliRunner().invoke(cli, [*arguments, "--options", "ram=none,10"], catch_exceptions=False).output
    assert "no plan for rp2040 optimize=ram ram=10: " in text and "cortex-m4 optimize=ram " in " ".join(text.split())
    done = CliRunner().invoke(cli, ["compare", str(MODEL), "-t", "cortex-m4", "-t", "rp2040", "--json"], catch_exceptions=False)
    two = json.loads(done.stdout)["targets"]
    assert two["cortex-m4"]["instructions"] < two["rp2040"]["instructions"]
    text = CliRunner().invoke(cli, ["compare", str(MODEL), "-t", "cortex-m4", "-t", "rp2040"], catch_exceptions=False).output
    assert f"{two['rp2040']['instructions']:,}" in text
    assert CliRunner().invoke(cli, ["explore", str(MODEL), "--targets", "rp2040", "--executor", "dask"]).exit_code == 2
