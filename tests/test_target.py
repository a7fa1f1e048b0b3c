"""Target files: every figure has a source, mistakes are found, new ones can be written, checked and calibrated."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import fuse2c
from fuse2c import calibrate, firmware, price, target, toolchain
from fuse2c.cli import cli
from fuse2c.errors import TargetError
from fuse2c.measure import qemu
from fuse2c.target import Price

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples" / "digits" / "digits_int8.onnx"
BOARDS = ["nucleo-l476rg", "nucleo-f446re", "nucleo-h743zi", "nrf52840-dk", "nrf5340-dk", "rp2040", "rp2350",
          "arduino-nano-33-ble", "b-u585i-iot02a", "alif-ensemble-e3", "corstone-300"]


def test_the_boards_are_there() -> None:
    assert set(target.known()) == {*BOARDS, *target.CORES, "host"}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_has_what_reports_need(name: str) -> None:
    t = target.load(name)
    assert t.processor.clock_hz > 0 and [c for c in t.clock if c.hz == t.processor.clock_hz] and t.price
    assert all(m.gb_per_s > 0 for m in t.memory.values())
    if name != "corstone-300":      # an FPGA's power says nothing
        assert all(c.active_uw > t.power.sleep_uw > 0 for c in t.clock)
        slow, fast = t.clock[0], t.clock[-1]
        assert slow.active_uw <= fast.active_uw


@pytest.mark.parametrize("name", target.known())
def test_every_figure_says_how_it_is_known(name: str) -> None:
    """What [sources] does not name is what the file's own source says; the vendor says nothing about power by default."""
    t = target.load(name)
    for path, _ in t.figures():
        status, _, source = t.origin(path).partition(": ")
        assert status in target.STATUS and source, path
        if path.endswith(("active_uw", "sleep_uw", "pj_per_byte", "gb_per_s", "cpi")) and name != "host":
            assert {path, path.rpartition(".")[0], path.split(".")[0]} & set(t.sources), f"{path} needs a source of its own"


def test_a_board_takes_over_its_core() -> None:
    core, board = target.load("cortex-m4"), target.load("nucleo-f446re")
    assert board.processor.clock_hz == 180_000_000 != core.processor.clock_hz
    assert board.processor.cflags == core.processor.cflags and board.price == core.price and board.emulator == core.emulator
    assert board.origin("processor.cpi") == core.origin("processor.cpi")
    assert board.origin("processor.clock_hz").startswith("vendor: ST data sheet DS10693")


@pytest.mark.parametrize("old, new, said", [
    ("active_uw   = 8640.0", "active_w = 8640.0", "did you mean 'active_uw'"),
    ("hz          = 26000000", "hz = 90000000", "the clocks are not in order"),
    ("clock_hz = 80000000", "clock_hz = 81000000", "which no [[clock]] has"),
    ('power = "estimated: ', 'power = "guessed: ', "how it is known"),
    ('power = "estimated', 'powr = "estimated', "which is no figure of this target"),
    ("gb_per_s    = 0.32", "gb_per_s    = -1.0", "above 0"), ("sleep_uw = 4.2", 'sleep_uw = "4.2"', "above 0"),
    ('like   = "cortex-m4"', 'like   = "cortex-m44"', "did you mean 'cortex-m4'"),
    ("[[clock]]", "[clock]", "TOML"), ("[memory.sram2]", "[memorie.sram2]", "did you mean 'memory'"),
])
def test_a_mistake_is_found(old: str, new: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    text = (target.FOLDER / "nucleo-l476rg.toml").read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(TargetError) as error:
        target.load(str(file))
    assert said in str(error.value)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_new_target_can_be_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    run("target", "new", "mine", "--like", "nrf52840-dk", "-o", str(file))
    found = target.load(str(file))
    assert found.processor.cflags == target.load("cortex-m4").processor.cflags and found.price
    said = run("target", "check", str(file))
    assert "memory.ram.bytes" in said and "missing: clock.*.active_uw: no energy or power" in said
    assert "missing" not in run("target", "check", "nucleo-f446re")
    with pytest.raises(fuse2c.Fuse2cError, match="exists"):
        run("target", "new", "mine", "-o", str(file))


CSV = """Open On-Chip Debugger
function,kernel,instructions,waits,cycles
a,conv_dsp,1000,200,1700
b,conv_dsp,3000,0,4500
c,nothing_known,100,0,250
some other line
"""


def test_calibration_gives_cycles_by_kernel(tmp_path: Path) -> None:
    csv, file = tmp_path / "measured.csv", tmp_path / "mine.toml"
    csv.write_text(CSV, encoding="utf-8")
    run("target", "calibrate", str(csv), "-t", "nucleo-l476rg", "-o", str(file))
    before, after = target.load("nucleo-l476rg"), target.load(str(file))
    assert after.price["conv_dsp"].cpi == pytest.approx((1500 + 4500) / 4000)
    assert after.price["conv_dsp"].mac == before.price["conv_dsp"].mac
    assert after.price["nothing_known"] == Price(mac=3, alu=2, call=50, cpi=2.5, cpi_worst=2.5)
    assert after.price["pointwise_dsp"] == before.price["pointwise_dsp"]
    assert after.origin("price.conv_dsp.cpi") == "measured: measured.csv, cycles on the board" and after.memory == before.memory
    assert calibrate.with_prices(file.read_text(), after.price, "measured: again") .count("[price.conv_dsp]") == 1


@pytest.mark.parametrize("csv, said", [("nothing", "has no line"), (CSV.replace("1700", "many"), "is no measurement"),
                                       (CSV.split("a,")[0], "has no measurements"), (CSV.replace("250", "0"), "took no time")])
def test_a_csv_that_is_none(csv: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        calibrate.calibrated(target.load("cortex-m4"), csv, "measured.csv")


def test_firmware_times_every_step(tmp_path: Path) -> None:
    for tool in (toolchain.ARM_GCC, qemu.QEMU, "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    plan = fuse2c.plan(MODEL, target="cortex-m4").plan
    folder = tmp_path / "firmware"
    run("bench", str(MODEL), "-t", "cortex-m4", "--firmware", str(folder))
    subprocess.run(["make", "-C", str(folder)], check=True, capture_output=True)
    command = [qemu.QEMU, "-M", "mps2-an386", "-icount", "shift=0", "-display", "none", "-monitor", "none", "-serial", "none",
               "-semihosting-config", "enable=on,target=native", "-kernel", str(folder / "digits_int8.elf")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said = (done.stdout + done.stderr).splitlines()
    rows = [line.split(",") for line in said if line.count(",") == 4]
    assert [r[0] for r in rows[1:]] == [s.function for s in plan.steps] and rows[0] == list(calibrate.COLUMNS)
    # QEMU has no cycle counter: SysTick counts, a tick each 40 instructions.
    total = sum(int(r[4]) for r in rows[1:]) * 40
    assert total == pytest.approx(price.of_plan(plan).instructions, rel=0.15)


def test_firmware_needs_addresses() -> None:
    with pytest.raises(TargetError, match="no address of the memory"):
        firmware.files(fuse2c.plan(MODEL, target="rp2040").plan)


@pytest.mark.parametrize("name", [n for n in BOARDS if target.load(n).holding("arena")[1].origin])
def test_firmware_links_for_the_board(name: str, tmp_path: Path) -> None:
    for tool in (toolchain.ARM_GCC, "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    firmware.write(fuse2c.plan(MODEL, target=name).plan, tmp_path / "fw")
    subprocess.run(["make", "-C", str(tmp_path / "fw")], check=True, capture_output=True)
