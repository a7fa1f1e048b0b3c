"""--stateful: tensors that the model keeps between runs; C frame after frame against the reference and its own state."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from graphs import Builder, Sample, compile

import fuse2c
from fuse2c import check as checking
from fuse2c import toolchain
from fuse2c.check import HostModel
from fuse2c.check.reference import run_graph
from fuse2c.cli import cli
from fuse2c.codegen import project
from fuse2c.errors import DoesNotFit, PlanError, ShapeError

FRAMES = 5
ARENAS = ("static", "caller")
Pairs = tuple[tuple[str, str], ...]


def lstm() -> tuple[Builder, Pairs]:
    """One step of an LSTM, two images; the states are read behind a reshape of the layer's own."""
    b = Builder(14)
    x, h, c = b.input((1, 2, 3)), b.input((1, 2, 5)), b.input((1, 2, 5))
    w, r, bias = b.floats(1, 20, 3), b.floats(1, 20, 5), b.floats(1, 40)
    _, hn, cn = b.op("LSTM", x, w, r, bias, "", h, c, outputs=3, hidden_size=5)
    b.output(b.op("Tanh", hn), hn, cn)
    return b, ((h, hn), (c, cn))


def gru() -> tuple[Builder, Pairs]:
    """A GRU whose output and last state are both results."""
    b = Builder(14)
    x, h = b.input((3, 2, 4)), b.input((1, 2, 5))
    y, hn = b.op("GRU", x, b.floats(1, 15, 4), b.floats(1, 15, 5), b.floats(1, 30), "", h, outputs=2, hidden_size=5)
    b.output(y, hn)
    return b, ((h, hn),)


def causal() -> tuple[Builder, Pairs]:
    """A streaming convolution: the last four samples of a frame of three are put before the next frame."""
    b = Builder()
    x, past = b.input((1, 2, 3)), b.input((1, 2, 4))
    both = b.op("Concat", past, x, axis=2)
    y = b.op("Conv", both, b.floats(4, 2, 5))
    b.output(b.op("Relu", y), b.op("Slice", both, b.ints(3), b.ints(7), b.ints(2)))
    return b, ((past, b.outputs[1].name),)


def shifted() -> tuple[Builder, Pairs]:
    """Two states that swap with each other, and an integer one: the new values must not overwrite what is still read."""
    b = Builder()
    x, p, q, n = b.input((2, 3)), b.input((2, 3)), b.input((2, 3)), b.input((3,), np.int32)
    pn, qn = b.op("Add", q, x), b.op("Identity", p)
    nn = b.op("Add", n, b.const([1, 2, 70000], np.int32))
    b.output(b.op("Sub", p, q), pn, qn, b.op("Mul", n, nn), nn)
    return b, ((p, pn), (q, qn), (n, nn))


def quantised() -> tuple[Builder, Pairs]:
    """An int8 state with a zero point that is not zero."""
    b = Builder()
    x = b.stored((1, 6), 0.1, np.int8(-7))
    past = b.input((1, 6), np.int8)
    total = b.op("Add", x, b.dequantise(past, 0.2, np.int8(11)))
    new = b.quantise(total, 0.2, np.int8(11))
    b.output(b.quantise(b.op("Relu", total), 0.15, np.int8(3)), new)
    return b, ((past, new),)


MODELS = {f.__name__: f for f in (lstm, gru, causal, shifted, quantised)}


def build(name: str, folder: Path, **options: object) -> fuse2c.Compiled:
    """One of the models, with its states kept."""
    b, pairs = MODELS[name]()
    return compile(b, folder, stateful=pairs, **options)


def frames(compiled: fuse2c.Compiled, seed: int = 0) -> list[Sample]:
    """A sequence of inputs."""
    return checking.random_samples(compiled.plan, FRAMES, seed)


def expected(compiled: fuse2c.Compiled, rows: list[Sample]) -> Iterator[Sample]:
    """The reference, fed with its own states."""
    g = compiled.plan.source
    assert g is not None
    states = {t: np.zeros(g.type(t).shape, g.type(t).dtype.numpy) for t, _ in compiled.plan.options.stateful}
    for row in rows:
        values = run_graph(g, row | states)
        states = {t: values[y] for t, y in compiled.plan.options.stateful}
        yield {t: values[t] for t in compiled.plan.outputs}


def assert_same(got: Sample, want: Sample) -> None:
    assert got.keys() == want.keys()
    for t, a in want.items():
        if a.dtype.kind == "f":
            np.testing.assert_allclose(got[t], a, rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(got[t], a)


@pytest.mark.parametrize("arena", ARENAS)
@pytest.mark.parametrize("name", MODELS)
def test_frames_follow_the_reference(name: str, arena: str, tmp_path: Path) -> None:
    c = build(name, tmp_path, arena=arena)
    rows = frames(c)
    with HostModel(c.plan, "-O1") as host:
        for row, want in zip(rows, expected(c, rows), strict=True):
            assert_same(host.run(row), want)
        again = host.run(rows[0])
        host.reset()
        first = host.run(rows[0])
    want = next(expected(c, rows))
    assert_same(first, want)
    assert any((again[t] != first[t]).any() for t in want), "the state does not matter: the test shows nothing"


@pytest.mark.parametrize("name", ["lstm", "shifted"])
def test_arenas_are_instances(name: str, tmp_path: Path) -> None:
    c = build(name, tmp_path, arena="caller")
    rows = frames(c), frames(c, seed=1)
    with HostModel(c.plan, "-O1") as host:
        arenas = host.arena, host.instance()
        for host.arena in arenas:
            host.reset()
        for pair in zip(*rows, expected(c, rows[0]), expected(c, rows[1]), strict=True):
            for i in (0, 1):
                host.arena = arenas[i]
                assert_same(host.run(pair[i]), pair[i + 2])
        assert all((a[c.plan.arena_bytes:] == 0xA5).all() for a in arenas), "written behind the arena"


@pytest.mark.parametrize("arena", ARENAS)
@pytest.mark.parametrize("name", MODELS)
def test_check_runs_a_sequence(name: str, arena: str, tmp_path: Path) -> None:
    c = build(name, tmp_path, arena=arena)
    result = c.check(count=FRAMES, opt="-O1")
    assert result.reference.differing == 0 and result.samples == FRAMES
    states = sum(c.plan.graph.type(t).count for t, _ in c.plan.options.stateful)
    outputs = sum(c.plan.graph.type(t).count for t in c.plan.outputs)
    assert result.outputs.elements == FRAMES * (outputs + states)
    assert not result.ort_note and result.ort_outputs is not None and result.ort_outputs.differing == 0


def test_check_finds_a_state_that_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c = build("gru", tmp_path)
    write = project.render.page

    def forgetful(*args: object, **views: object) -> str:
        return re.sub(r"\[i\] = \(\(float.*", "[i] = 0;", write(*args, **views))
    monkeypatch.setattr(project.render, "page", forgetful)
    assert c.check(count=FRAMES, opt="-O1").outputs.differing > 0


@pytest.mark.parametrize("arena", ARENAS)
def test_sanitized_sequence(arena: str, tmp_path: Path) -> None:
    c = build("causal", tmp_path, arena=arena)
    rows = frames(c)
    for got, want in zip(checking.sanitized(c.plan, rows), expected(c, rows), strict=True):
        assert_same(got, want)


def test_memory_and_header(tmp_path: Path) -> None:
    plans = {arena: build("lstm", tmp_path, arena=arena).plan for arena in ARENAS}
    static, caller = plans["static"], plans["caller"]
    state = 40 + 40         # floats [1, 2, 5]
    assert caller.arena_bytes == -(-static.arena_bytes // 8) * 8 + state == static.ram_bytes == caller.ram_bytes
    for arena, plan in plans.items():
        header = project.files(plan)[f"{plan.graph.name}.h"]
        assert re.search(r"state (\w+): float32 \[1, 2, 5\], 40 bytes; (\w+) of a run is \1 of the next one", header)
        assert header.count(" input ") == 1 and header.count(" output ") == 1
        assert f"_reset({'void *arena' if arena == 'caller' else 'void'});" in header
        assert re.search(rf"_ARENA_BYTES {plan.arena_bytes}\b", header)


def test_limit_counts_the_states(tmp_path: Path) -> None:
    need = build("lstm", tmp_path).plan.ram_bytes
    assert build("lstm", tmp_path, ram=need).plan.ram_bytes == need
    with pytest.raises(DoesNotFit, match="1 too many") as e:
        build("lstm", tmp_path, ram=need - 1)
    assert "state " in str(e.value)


@pytest.mark.parametrize("arena", ARENAS)
def test_measured_on_a_board(arena: str, tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        try:
            toolchain.which(tool, "")
        except fuse2c.Fuse2cError:
            pytest.skip(f"no {tool}")
    c = build("lstm", tmp_path, target="cortex-m4", arena=arena)
    result = c.bench()
    assert result.mismatches == 0
    ram = result.ram_bytes
    assert ram["arena"] == c.plan.arena_bytes
    assert (ram["static"] or 0) == (80 if arena == "static" else 0)


def test_io_leaves_states_alone(tmp_path: Path) -> None:
    c = build("quantised", tmp_path, io="float")
    g = c.plan.graph
    assert [g.type(t).dtype for t in (*c.plan.inputs, *c.plan.outputs)] == ["float32", "float32"]
    assert [g.type(t).dtype for t in c.plan.options.stateful[0]] == ["int8", "int8"]
    assert c.check(count=FRAMES, opt="-O1").reference.differing == 0


def test_errors(tmp_path: Path) -> None:
    b, ((h, hn), (_, cn)) = lstm()
    for pairs, text in [((("x9", hn),), "no input called 'x9'"), (((h, f"{hn[:-1]}7"),), "no output called"),
                        (((h, hn), (h, cn)), "named twice")]:
        with pytest.raises(PlanError, match=text):
            compile(b, tmp_path, stateful=pairs)
    with pytest.raises(PlanError) as e:
        compile(b, tmp_path, stateful=((h, f"{hn[:-2]}{hn[-1]}"),))
    assert f"did you mean {hn!r}?" in str(e.value)
    x = b.inputs[0].name
    with pytest.raises(ShapeError, match=re.escape(f"{x} is float32 [1, 2, 3], but {hn} is float32 [1, 2, 5]")):
        compile(b, tmp_path, stateful=((x, hn),))


def test_errors_of_odd_models(tmp_path: Path) -> None:
    b = Builder()
    x, n = b.input((2, 3)), b.input((2, 3), np.int32)
    b.output(b.op("Relu", x))
    with pytest.raises(ShapeError, match=r"is int32 .* but .* is float32"):
        compile(b, tmp_path, stateful=((n, b.outputs[0].name),))
    with pytest.raises(PlanError, match="every output is a state"):
        compile(b, tmp_path, stateful=((x, b.outputs[0].name),))
    b = Builder()
    x, e = b.input((2, 3)), b.input((0, 3))
    b.output(b.op("Relu", x), b.op("Relu", e))
    with pytest.raises(ShapeError, match="without elements"):
        compile(b, tmp_path, stateful=((e, b.outputs[1].name),))


def test_command_line(tmp_path: Path) -> None:
    b, ((h, hn), (c, cn)) = lstm()
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model().SerializeToString())
    run = CliRunner().invoke(cli, ["check", str(path), "--stateful", f"{h}={hn},{c}={cn}", "--samples", "3", "--json"])
    assert run.exit_code == 0, run.output
    twice = CliRunner().invoke(cli, ["plan", str(path), "--stateful", f"{h}={hn}", "--stateful", f"{c}={cn}"])
    assert f"states       : 80 bytes beside the arena: {h}, {c}" in twice.output
    bad = CliRunner().invoke(cli, ["plan", str(path), "--stateful", f"{h}={hn},{c}"])
    assert bad.exit_code == 2 and f"'{c}' is not INPUT=OUTPUT" in bad.output
