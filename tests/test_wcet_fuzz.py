"""Random C through two compilers: every function is bounded, and not below what it takes, or refused with a reason."""
from __future__ import annotations

import random
from pathlib import Path

import pytest
from random_c import Writer
from test_measure import ARM_CLANG, M3, M4, M55, model
from test_wcet_exact import counting_plugin, counts

from fuse2c import toolchain
from fuse2c.errors import Refused
from fuse2c.measure import qemu

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from fuse2c import wcet
from fuse2c.wcet import ways

FUNCTIONS, INPUTS = 8, 6
CORES = {"M3": (M3, "cortex-m3"), "M4": (M4, "cortex-m4"), "M55": (M55, "cortex-m55")}
CASES = ("M3-O0-gcc", "M3-Os-gcc", "M3-O3-clang", "M4-O1-gcc", "M4-O2-clang", "M4-O3-gcc", "M4-Os-clang", "M55-O1-gcc",
         "M55-O2-gcc", "M55-O3-gcc", "M55-Os-gcc")
REASONS = ("no bound for the loop", "jumps to an address that is not known", "has a count that is not known", "irreducible")
EDGES = (0, 1, -1, 2**31 - 1, 1 - 2**31)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return counting_plugin(tmp_path_factory.mktemp("plugin"))


def calls(rng: random.Random) -> str:
    """The body of toy_run: each function with extreme, small and any numbers."""
    sets = [[rng.choice((rng.choice(EDGES), rng.randint(-20, 20), rng.randint(-2**31 + 1, 2**31 - 1))) for _ in range(16)]
            for _ in range(INPUTS)]
    data = ", ".join("{" + ", ".join(map(str, one)) + "}" for one in sets)
    lines = " ".join(f"r += v{k}(data[k], q, data[k][3], data[k][5]);" for k in range(FUNCTIONS))
    return (f"static const int data[{INPUTS}][16] = {{{data}}}; static signed char q[32]; int r = 0;\n"
            f"for (int k = 0; k < {INPUTS}; k++) {{ {lines} }} return r & 0;")


@pytest.mark.parametrize(("seed", "case"), list(enumerate(CASES)), ids=CASES)
def test_random_functions(seed: int, case: str, plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, level, cc = case.split("-")
    board, core = CORES[short]
    if cc == "clang" and not ARM_CLANG:
        pytest.skip("clang is not installed")
    monkeypatch.setattr(toolchain, "WARNINGS", ("-std=c99", "-w", "-fwrapv"))      # nobody would write such C
    monkeypatch.setattr(ways, "LONGEST_LOOSE", 1000)                             # a bound for all, soon
    kept = "noinline" if cc == "clang" else "noipa"
    before = "\n".join([f"#define KEPT __attribute__(({kept}))",
                        *(Writer(f"v{k}", 100 * seed + k).function() for k in range(FUNCTIONS))])
    (tmp_path / "build").mkdir()
    firmware = model(tmp_path, calls(random.Random(seed)), before)
    program = qemu.build(firmware, board, tmp_path / "build", f"-{level}", ARM_CLANG if cc == "clang" else None)
    bounded = 0
    for k in range(FUNCTIONS):
        try:
            result = wcet.analyse(program, f"v{k}", core)
        except Refused as error:
            assert any(reason in str(error) for reason in REASONS), error
            continue
        bounded += 1
        seen = counts(program, f"v{k}", ("toy_run",), board, plugin)
        assert seen and result.ipet >= result.instructions >= max(seen), f"v{k}"
        assert not result.single_path or set(seen) == {result.instructions}, f"v{k}"
    assert bounded >= FUNCTIONS // 4, "hardly any has a bound"
