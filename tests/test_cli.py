"""The command line: commands, options, exit statuses, one JSON object, tables that fit, signs of life."""
from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import broken
import numpy as np
import onnx
import pytest

import fuse2c
from fuse2c import bench, cli
from fuse2c.check import CheckResult, ort
from fuse2c.check.compare import Difference
from fuse2c.progress import Progress

ROOT = Path(__file__).parents[1]
INT8, FLOAT = (str(ROOT / "examples" / "digits" / f"digits_{kind}.onnx") for kind in ("int8", "fp32"))
COMPILING = ("build", "check", "bench", "plan", "inspect")
EMULATED = ("arm-none-eabi-gcc", "qemu-system-arm")


class Run:
    """One call of main(), with what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.patch = capsys, monkeypatch
        monkeypatch.setenv("COLUMNS", "80")

    def __call__(self, *args: object, status: int = 0) -> str:
        """Standard output; standard error is in `err`."""
        self.patch.setattr(sys, "argv", ["fuse2c", *map(str, args)])
        got = 0
        try:
            cli.main()
        except SystemExit as e:
            got = int(e.code or 0)
        out, self.err = self.capsys.readouterr()
        assert got == status, f"exit status {got}\n{out}{self.err}"
        assert "Traceback" not in self.err
        return out


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(capsys, monkeypatch)


def process(*args: object, env: dict[str, str] | None = None, encoding: str = "utf-8") -> subprocess.Popen[str]:
    """fuse2c in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "fuse2c", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            encoding=encoding, env=os.environ | {"PYTHONPATH": str(ROOT)} | (env or {}))


def saved(folder: Path, model: onnx.ModelProto, name: str = "m.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("command", ["", *cli.cli.commands])
def test_every_command_has_help(command: str, run: Run) -> None:
    text = run(*command.split(), "--help")
    assert "Usage:" in text and max(map(len, text.splitlines())) <= 80
    assert all(p.help for p in cli.cli.commands[command].params if p.param_type_name == "option") if command else True
    assert fuse2c.__version__ in run("--version")


def test_every_compiling_command_takes_every_option_of_build() -> None:
    def options(command: str) -> dict[str, tuple[Any, ...]]:
        return {p.name or "": (p.opts, p.type.to_info_dict(), p.default, p.multiple) for p in cli.cli.commands[command].params}
    build = {k: v for k, v in options("build").items() if k not in ("output", "opt", "cc", "certify")}
    assert len(build) > 10
    for command in COMPILING:
        assert build.items() <= options(command).items(), command


def test_every_option_of_a_compilation_is_on_the_command_line() -> None:
    names = {p.name for p in cli.cli.commands["build"].params}
    fields = set(fuse2c.Options.__dataclass_fields__)
    assert fields - names <= {"dims", "fuse", "no_fuse_rules", "fuse_barriers", "zeros"}
    assert {"dim", "no_fuse", "sparsity"} <= names


@pytest.mark.parametrize("args, words", [
    ([], "Usage"), (["build"], "MODEL"), (["build", INT8], "--output"), (["compile", INT8], "No such command"),
    (["plan", INT8, "--fast"], "No such option"), (["plan", INT8, "--arena", "heap"], "'static', 'caller'"),
    (["plan", INT8, "--dim", "N"], "NAME=VALUE"), (["plan", INT8, "--dim", "N=0"], "NAME=VALUE"),
    (["plan", INT8, "--dim", "N=-3"], "NAME=VALUE"), (["plan", INT8, "--dim", "N=2.5"], "NAME=VALUE"),
    (["plan", INT8, "--dim", "=3"], "NAME=VALUE"), (["plan", INT8, "--dim", f"N={2 ** 31}"], "NAME=VALUE"),
    (["plan", INT8, "--bind", "x"], "NAME=FILE.npy"), (["plan", INT8, "--bind", "=1"], "NAME=FILE.npy"),
    (["plan", INT8, "--bind", "x=1,b"], "NAME=NUMBER"), (["plan", INT8, "--bind", "x=1,,2"], "NAME=NUMBER"),
    (["plan", INT8, "--name", "My Net"], "'my_net'"), (["plan", INT8, "--name", "int"], "'int_'"),
    (["plan", INT8, "--ram", "-1"], "x>=0"), (["plan", INT8, "--ram", "64k"], "integer"),
    (["plan", INT8, "--dump-after", "fuze"], "'fuse'"), (["check", INT8, "--samples", "0"], "x>=1"),
    (["check", INT8, "--seed", "-1"], "x>=0"), (["list", "boards"], "'targets'"),
], ids=lambda value: " ".join(value).replace(INT8, "MODEL") if isinstance(value, list) else "")
def test_usage_errors(args: list[str], words: str, run: Run) -> None:
    assert run(*args, status=2) == "" and words in run.err


def test_errors_of_the_model_and_bugs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert run("build", tmp_path / "nowhere.onnx", "-o", out, status=1) == "" and run.err.startswith("error[F100]: cannot")
    assert run("build", INT8, "-t", "z80", "-o", out, status=1) == "" and "error[F200]" in run.err
    assert run("build", INT8, "--ram", "7", "-o", out, status=1) == "" and "error[F302]" in run.err
    assert run("check", INT8, "--cc", "no-such-cc", status=1) == "" and "error[F402]: no-such-cc" in run.err
    assert not out.exists()

    def broken_pass(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a surprise")
    monkeypatch.setattr("fuse2c.commands._common.compile_model", broken_pass)
    assert run("plan", INT8, status=3) == ""
    assert run.err.splitlines()[0] == "error[F900]: RuntimeError: a surprise" and "--debug" in run.err
    monkeypatch.setattr(sys, "argv", ["fuse2c", "plan", INT8, "--debug"])
    with pytest.raises(RuntimeError, match="a surprise"):
        cli.main()


def test_debug_shows_where_it_failed(tmp_path: Path) -> None:
    done = process("plan", tmp_path / "nowhere.onnx", "--debug")
    _, err = done.communicate()
    assert done.returncode == 1 and "Traceback" in err and "external.py" in err


def test_what_the_system_says_is_no_bug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device", "/x")
    monkeypatch.setattr(fuse2c.Compiled, "check", full)
    run("check", INT8, status=1)
    assert run.err == "error[F403]: No space left on device: /x\n"


def test_build_writes_what_it_reports(run: Run, tmp_path: Path) -> None:
    text = run("build", INT8, "-t", "cortex-m4", "-o", tmp_path / "out", "--name", "net", "--arena", "caller", "--io", "int8")
    c = fuse2c.plan(INT8, "cortex-m4", name="net", arena="caller", io="int8")
    assert text == f"{c.report()}\n  written to   : {tmp_path / 'out'}\n" and run.err == ""
    header = (tmp_path / "out" / "net.h").read_text(encoding="utf-8")
    assert "int net_run(const int8_t *image, int8_t *probabilities, void *arena);" in header


def test_dimensions_are_bound(run: Run, tmp_path: Path) -> None:
    path = saved(tmp_path, broken.model([broken.node("Relu", "x")], inputs={"x": ("N", "a=b", "W")}))
    assert "float32[3,5,7]" in run("inspect", path, "--dim", "N=3", "--dim", "a=b=5", "--dim", "W=7")
    assert "float32[1,5,7]" in run("inspect", path, "--dim", "a=b=5", "--dim", "W=7")


def one_object(text: str) -> dict[str, Any]:
    """The single JSON object of standard output."""
    assert text.endswith("}\n") and text.count("\n") == 1
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def documented(command: str) -> dict[str, str]:
    """Key -> type, from docs/JSON.md; `plan` names its keys in a sentence."""
    section = (ROOT / "docs" / "JSON.md").read_text(encoding="utf-8").split(f"## `{command}`\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", section, re.M))
    if command == "plan":
        always, kinds = section.split("With `--pareto`")[0], documented("bench")
        rows = {key: kinds[key] for key in re.findall(r"`([\w.]+)`", always) if key in kinds}
        rows |= dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", always, re.M))
    return rows


def flat(found: dict[str, Any], depth: int) -> dict[str, Any]:
    """Nested keys joined by dots."""
    rows: dict[str, Any] = {}
    for key, value in found.items():
        rows |= {f"{key}.{k}": v for k, v in value.items()} if depth and isinstance(value, dict) else {key: value}
    return rows


TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "difference": (dict,), "number": (float,),
                                      "list of objects": (list,)}
TYPES |= {f"{name} or null": (*kinds, type(None)) for name, kinds in TYPES.items()}


def test_plan_json(run: Run) -> None:
    found = one_object(run("plan", INT8, "-t", "cortex-m33", "--json"))
    assert flat(found, 1).keys() == documented("plan").keys() and len(found) == 12
    c = fuse2c.plan(INT8, "cortex-m33")
    assert (found["model"], found["target"], found["launches"]) == ("digits_int8.onnx", "cortex-m33", c.plan.launches)
    assert found["launches_unfused"] > found["launches"] and found["flash_bytes"]["weights"] == c.plan.weight_bytes
    front = one_object(run("plan", INT8, "-t", "cortex-m33", "--json", "--pareto"))["front"]
    assert [p["ram"] for p in front] == sorted((p["ram"] for p in front), reverse=True)
    assert [p["instructions"] for p in front] == sorted(p["instructions"] for p in front)
    assert front[-1]["ram"] <= found["ram_bytes"]["arena"] and found["calls"] <= max(p["calls"] for p in front)
    why = one_object(run("plan", INT8, "--json", "--why"))["decisions"]
    assert {frozenset(d) for d in why} == {frozenset(("stage", "subject", "taken", "reason"))}


def test_json_shares_standard_output_with_nothing(run: Run) -> None:
    one_object(run("plan", INT8, "--json", "--dump-after", "all"))
    assert "# after place" in run.err
    one_object(run("check", INT8, "--json", "--samples", "2", "--dump-after", "fuse", "--sanitize"))


def test_check_json(run: Run) -> None:
    found = one_object(run("check", INT8, "--json", "--samples", "3", "--seed", "5"))
    keys = documented("check")
    top = {k: kind for k, kind in keys.items() if k not in ("elements", "differing", "worst")}
    assert found.keys() == top.keys() and all(isinstance(found[k], TYPES[top[k]]) for k in top)
    assert found["samples"] == 3 and found["reference"]["differing"] == 0 < found["reference"]["elements"]
    for d in (v for v in found.values() if isinstance(v, dict)):
        assert d.keys() == keys.keys() - top.keys() and isinstance(d["worst"], float | int)
    assert found == one_object(run("check", INT8, "--json", "--samples", "3", "--seed", "5"))


@pytest.mark.parametrize("target", ["host", "cortex-m0plus", "cortex-m33", "cortex-m4"])
def test_bench_json(target: str, run: Run) -> None:
    for tool in EMULATED[:0 if target == "host" else 2 if target == "cortex-m4" else 1]:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    found = flat(one_object(run("bench", INT8, "-t", target, "--json")), 1)
    assert found.keys() == (keys := documented("bench")).keys() and all(isinstance(found[k], TYPES[keys[k]]) for k in keys)
    times = {f"host_us.{who}" for who in bench.TIMES}
    unknown = {"instructions", "mismatches"} if fuse2c.target.load(target).emulator is None else set()
    unknown |= set("flash_bytes.code flash_bytes.library ram_bytes.static ram_bytes.stack spills".split() * (target == "host"))
    unknown |= times if target != "host" else set() if ort.runtime() else times - {"host_us.fuse2c"}
    assert {k for k, v in found.items() if v is None} == unknown
    assert target != "cortex-m4" or (found["mismatches"] == 0 and found["instructions"] > found["macs"])
    assert found["flags"].startswith("-O3") and "/" not in found["compiler"]
    assert found["ram_bytes.total"] == sum(found[f"ram_bytes.{k}"] or 0 for k in ("arena", "static", "stack"))


def test_a_mismatch_is_printed_and_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Difference(100, 3, 2.0, 2, "at [0, 7]: got 4, want 2")
    result = CheckResult(1, {"digits_int8_02_conv": bad}, Difference(10))
    monkeypatch.setattr(fuse2c.Compiled, "check", lambda *args, **kwargs: result)
    assert one_object(run("check", INT8, "--json", status=1))["reference"]["differing"] == 3
    assert run.err.startswith("error[F501]: 3 elements differ") and "digits_int8_02_conv: at [0, 7]: got 4" in run.err
    measured = bench.BenchResult("m", "t", "cc", "-O3", 9, 1, 1, 2, 1, 3, 4, {"code": 5, "weights": 6},
                                 {"arena": 1, "static": 0, "stack": 2, "total": 3}, 7)
    monkeypatch.setattr(fuse2c.Compiled, "bench", lambda *args, **kwargs: measured)
    assert one_object(run("bench", INT8, "--json", status=1))["mismatches"] == 7 and "7 output elements" in run.err


def test_floats_may_differ_from_the_host_by_the_stated_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-5 of the largest output; an integer not at all."""
    for path, ends in ((FLOAT, {0.9e-5: 0, 1.2e-5: 1}), (INT8, {1.2e-5: 1})):
        plan = fuse2c.plan(path, io="model" if path == FLOAT else "int8").plan
        with bench.HostModel(plan) as host:
            sample = bench.random_samples(plan, 1)[0]
            y = host.run(sample)["probabilities"].reshape(-1)
        for share, differing in ends.items():
            wrong = y.copy()
            wrong[3] += share * y.max() if y.dtype.kind == "f" else 1
            measured = bench.qemu.Measurement(1, (wrong,), 0, 0)
            assert bench._compare(plan, sample, measured).differing == differing


def test_what_onnxruntime_cannot_run_is_checked_without_it(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime, which refuses the model, is not installed")
    path = saved(tmp_path, broken.model([broken.node("Conv", "x w", auto_pad="SAME_UPPER", dilations=[2, 1])],
                                        {"w": np.ones((2, 3, 3, 2), np.float32)}))
    found = one_object(run("check", path, "--json", "--samples", "2"))
    assert found["onnxruntime_outputs"] is None and "onnxruntime cannot run the model" in found["note"]
    assert found["reference"]["elements"] > 0 == found["reference"]["differing"]


def test_own_samples(run: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    np.savez(good, image=np.ones((4, 1, 1, 8, 8), np.float32))
    np.savez(bad, picture=np.ones((1, 1, 8, 8), np.float32))
    assert one_object(run("check", INT8, "--json", "--samples", "1", "--inputs", good))["samples"] == 5
    run("check", INT8, "--inputs", bad, status=1)
    assert "has no array 'image'" in run.err and "picture" in run.err
    run("check", INT8, "--inputs", tmp_path / "none.npz", status=1)
    assert "error[F100]: cannot read none.npz" in run.err
    bad.write_bytes(b"PK\3\4 no archive")
    run("check", INT8, "--inputs", bad, status=1)
    assert "error[F100]" in run.err


@pytest.mark.parametrize("args", [["plan", INT8], ["plan", FLOAT], ["check", INT8, "--samples", "2"],
                                  ["check", FLOAT, "--samples", "2"], ["bench", INT8], ["list", "targets"],
                                  ["list", "ops"], ["list", "rules"]], ids=lambda a: f"{a[0]}-{Path(a[1]).stem}")
def test_tables_fit_into_80_columns(args: list[str], run: Run) -> None:
    lines = run(*args).splitlines()
    assert max(map(len, lines)) <= (80 if args[0] != "list" else 120) and not any(line != line.rstrip() for line in lines)
    if args[0] == "plan":                       # one line a kernel: no cell is wrapped
        rows = [line for line in lines if re.match(r" +\d+ ", line)]
        assert len(rows) == len(fuse2c.plan(args[1]).plan.steps)
    if args[0] == "check":
        assert [line.strip().split("  ")[0] for line in lines[3:8]] == [
            "numpy, kernel by kernel", "itself, run without tracing", "onnxruntime, layer by layer",
            "onnxruntime, end to end", "(onnxruntime with itself)"][:len(lines) - 3]


def test_why_gives_every_decision(run: Run) -> None:
    text = run("plan", INT8, "--why")
    decisions = fuse2c.plan(INT8).plan.decisions
    lines = [line for line in text.splitlines() if line[:2] in ("+ ", "- ")]
    assert len(lines) == len(decisions) and {line[0] for line in lines} == {"+", "-"}
    assert all(d.reason in line for d, line in zip(decisions, lines, strict=True))


def test_dumps_and_inspect(run: Run, tmp_path: Path) -> None:
    assert run("plan", INT8, "--dump-after", "fuse").startswith("# after fuse: ")
    text = run("inspect", FLOAT, "--ram", "0", "--flash", "0", "-t", "nucleo-f446re")      # nothing is planned
    assert text.startswith("input image: float32[1,1,8,8]\n") and "= Conv(" in text
    assert "int8[1,1,8,8]" in run("inspect", INT8, "--io", "int8").splitlines()[0]


def test_lists(run: Run) -> None:
    assert {"Conv", "QLinearConv", "Softmax"} <= {line.split()[0] for line in run("list", "ops").splitlines()}
    assert "cortex-m4" in run("list", "targets") and "fuse  epilogue" in run("list", "rules")


def test_a_target_file_of_ones_own(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "fuse2c" / "targets" / "host.toml").read_text(encoding="utf-8")
    (tmp_path / "my.toml").write_text(text.replace('"host"', '"mine"').replace("1073741824", "100000"))
    found = one_object(run("bench", INT8, "-t", tmp_path / "my.toml", "--json"))
    assert found["target"] == "mine" and found["launches_unfused"] > found["launches"]


def test_names_are_no_markup_and_no_escape_sequences(run: Run, tmp_path: Path) -> None:
    node = broken.node("Relu", "x", name="[red]:smile: \x1b[2J\nhint : x")
    path = saved(tmp_path, broken.model([node]), "[b]é.onnx")
    text = run("plan", path, "--why") + run("inspect", path) + run("inspect", path, "--fused")
    assert "[b]é: steps" in text and "[red]:smile: \\x1b[2J" in text and "\x1b" not in text


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    path = saved(tmp_path, broken.model([broken.node("Relu", "x")]), "é.onnx")
    for name, status, shown in (("é", 0, "é: steps"), ("日", 1, "\\u65e5.onnx")):
        env = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
        out, err = (done := process("plan", path.with_name(f"{name}.onnx"), env=env, encoding="latin-1")).communicate()
        assert done.returncode == status and "Traceback" not in err and shown in out + err


def test_a_reader_that_goes_away() -> None:
    done = process("inspect", INT8)
    assert done.stdout is not None and done.stderr is not None
    done.stdout.close()
    assert "Traceback" not in done.stderr.read() and done.wait() in (0, 1)


def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    done = process("check", INT8, "--samples", "50000", env={"TMPDIR": str(tmp_path)})
    assert done.stderr is not None
    first = done.stderr.readline()              # a sign of life: it is at work
    assert re.fullmatch(r"\S.* \(\d+ s\)\n", first)
    done.send_signal(signal.SIGINT)
    out, err = done.communicate()
    assert done.returncode == 130 and out == "" and "Traceback" not in err and list(tmp_path.glob("fuse2c*")) == []


class Stream(io.StringIO):
    """Collects text, and tells when some of it has come."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.seen = terminal, threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.seen.set()


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_speaks_up_and_clears_away(terminal: bool) -> None:
    stream = Stream(terminal)
    with Progress("compiling", stream, first_s=0.001) as progress:
        assert stream.seen.wait(60)
        progress.update("linking")
        stream.seen.clear()
        assert stream.seen.wait(60)
    text = stream.getvalue()
    assert re.match(r"\r?compiling \(0 s\)", text) and "linking" in text
    assert text.endswith("\r\x1b[K") if terminal else re.fullmatch(r"(\w+ \(\d+ s\)\n)+", text)


def test_progress_is_silent_when_all_is_quick() -> None:
    stream = Stream(True)
    with Progress("compiling", stream, first_s=3600.0):
        pass
    assert stream.getvalue() == ""


def test_unfused_figures_ignore_limits() -> None:
    c = fuse2c.plan(INT8, ram=fuse2c.plan(INT8).plan.arena_bytes)
    assert c.unfused().plan.launches > c.plan.launches and c.unfused().unfused().plan.launches == c.unfused().plan.launches
    assert replace(c.plan.options, fuse=False) is not None
